"""What a central critic sees: the environment's global state, or else what all agents see, side by side."""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxrl.environment import MultiAgentEnvironment
from jaxrl.nn.torso import is_picture
from jaxrl.spaces import Box, Discrete, MultiDiscrete, Space

__all__ = ["central_state", "global_state_size", "joint_space", "state_shape"]


def central_state(env: MultiAgentEnvironment, obs: jax.Array, env_state: Any) -> jax.Array:
    """What is seen of one environment whose agents see `obs[N, ...]`: float32 `[G]`, or an element of `joint_space`."""
    space = joint_space(env)
    if space is None:
        return env.global_state(env_state)
    if is_picture(space):
        return jnp.moveaxis(obs, 0, -2).reshape(space.shape)
    return obs.reshape(space.shape)


def joint_space(env: MultiAgentEnvironment) -> Space | None:
    """The space of N agents' observations side by side, so that a critic encodes them as policies do.

    Numbers make a longer vector, pictures one with N times the channels. None where there is a global state.
    """
    if env.has_global_state:
        return None
    space, num_agents = env.observation_space(), env.num_agents
    if isinstance(space, Discrete):
        return MultiDiscrete((space.n,) * num_agents)
    if isinstance(space, MultiDiscrete):
        return MultiDiscrete(space.nvec * num_agents)
    if not isinstance(space, Box):
        raise ValueError(f"There is no network for observations in {space}; use Discrete, MultiDiscrete or Box.")
    low, high = (np.broadcast_to(bound, space.shape) for bound in (space.low, space.high))
    if is_picture(space):
        low, high = (np.tile(bound, (1, 1, num_agents)) for bound in (low, high))
    else:
        low, high = (np.tile(bound.reshape(-1), num_agents) for bound in (low, high))
    return Box(low, high, low.shape, space.dtype)


def state_shape(env: MultiAgentEnvironment) -> jax.ShapeDtypeStruct:
    """Shape and dtype of `central_state`."""
    return jax.eval_shape(lambda key: central_state(env, *env.reset(key)), jax.random.key(0))


def global_state_size(env: MultiAgentEnvironment) -> int:
    """G, how many numbers that are."""
    return math.prod(state_shape(env).shape)
