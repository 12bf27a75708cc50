"""The input of a central critic: the environment's global state, or otherwise all agents' observations side by side."""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxrl.environment import MultiAgentEnvironment
from jaxrl.keys import abstract_key
from jaxrl.nn.torso import is_picture
from jaxrl.returned import check_global_state
from jaxrl.spaces import Box, Discrete, MultiDiscrete, Space

__all__ = ["central_state", "global_state_size", "joint_space", "state_shape"]


def central_state(env: MultiAgentEnvironment, obs: jax.Array, env_state: Any, params: Any = None) -> jax.Array:
    """The critic's input for one environment with observations `obs[N, ...]`: float32 `[G]`, or in `joint_space`.

    Raises:
        TypeError: The global state is not a vector.
    """
    space = joint_space(env)
    if space is None:
        return check_global_state(env.global_state(env_state, params), env)
    if is_picture(space):
        return jnp.moveaxis(obs, 0, -2).reshape(space.shape)
    return obs.reshape(space.shape)


def joint_space(env: MultiAgentEnvironment) -> Space | None:
    """The space of N agents' observations side by side, so that a critic encodes them the way policies do.

    Numbers form a longer vector, pictures a picture with N times the channels. None if there is a global state.
    """
    if env.has_global_state:
        return None
    space, num_agents = env.observation_space(), env.num_agents
    if isinstance(space, Discrete):
        return MultiDiscrete((space.n,) * num_agents)
    if isinstance(space, MultiDiscrete):
        return MultiDiscrete(space.nvec * num_agents)
    if not isinstance(space, Box):
        raise TypeError(f"There is no network for observations in {space}; use Discrete, MultiDiscrete or Box.")
    low, high = (np.broadcast_to(bound, space.shape) for bound in (space.low, space.high))
    if is_picture(space):
        low, high = (np.tile(bound, (1, 1, num_agents)) for bound in (low, high))
    else:
        low, high = (np.tile(bound.reshape(-1), num_agents) for bound in (low, high))
    return Box(low, high, low.shape, space.dtype)


def state_shape(env: MultiAgentEnvironment) -> jax.ShapeDtypeStruct:
    """The shape and dtype of `central_state`."""
    return jax.eval_shape(lambda key: central_state(env, *env.reset(key)), abstract_key())


def global_state_size(env: MultiAgentEnvironment) -> int:
    """G, the number of entries in `central_state`."""
    return math.prod(state_shape(env).shape)
