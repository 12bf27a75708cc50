"""The networks of an agent as pure functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np

from jaxrl.acting.collector import Observation
from jaxrl.environment import MultiAgentEnvironment
from jaxrl.nn.continuous import Counted
from jaxrl.nn.sharing import init_param_sets, per_agent
from jaxrl.spaces import Box

__all__ = ["Networks", "counted", "own_networks", "own_numbers"]


class Networks(NamedTuple):
    """The policy and the critic as pure functions."""

    init: Callable[[jax.Array], Any]
    """`init(key) -> params`. Consumes `key`."""
    apply: Callable[[Any, Any, Observation, jax.Array], tuple[Any, Any, Any]]
    """`apply(params, carry, observation, reset) -> (carry, distribution, prediction)`, with observations `[T, B, ...]`,
    `reset[T, B]` and predictions of the value `[T, B, N, ...]`, or None where critics take actions."""
    new_carry: Callable[[int], Any]
    """`new_carry(B)`: the memory at the beginning of B episodes."""
    evaluate: Callable[[Any, Observation, jax.Array], jax.Array] | None = None
    """`evaluate(params, observation, action[T, B, N, ...]) -> prediction[T, B, N, K, ...]`: of actions' values by K
    critics, where critics take actions."""
    by_set: Any = True
    """Whether each parameter set has its own parameters: one answer for all, or one for each part of their tree."""


def own_networks(
    network: nn.Module, new_carry: Callable[..., Any], env: MultiAgentEnvironment, param_sets: tuple[int, ...]
) -> Networks:
    """Networks in which everything about an agent follows from its own observation.

    Args:
        network: `(carry, obs, reset, mask) -> (carry, distribution, prediction)`.
        new_carry: `new_carry(*batch_shape)`: its memory at the beginning of an episode.
        env: The environment.
        param_sets: The number of each agent's parameter set.
    """

    def init(key: jax.Array) -> Any:
        obs = jnp.zeros((1, 1, *env.observation_space().shape), env.observation_space().dtype)
        return network.init(key, new_carry(1), obs, jnp.ones((1, 1), bool), None)

    mapped = per_agent(network.apply, param_sets, agent_axes=(1, 2, 2, 2), out_axes=(1, 2, 2))

    @jax.jit  # a rollout calls it twice per step, and this way it is traced once
    def apply(params: Any, carry: Any, observation: Observation, reset: jax.Array) -> tuple[Any, Any, jax.Array]:
        reset = jnp.broadcast_to(reset[..., None], observation.agent_mask.shape)
        return mapped(params, carry, observation.obs, reset, observation.action_mask)

    return Networks(lambda key: init_param_sets(init, key, param_sets), apply, lambda n: new_carry(n, env.num_agents))


def counted(policy: Any, env: MultiAgentEnvironment) -> Any:
    """The policy `[..., N]` without what pads the actions of some agents to the size of the others'.

    Padding has a density and an entropy, but neither is the agent's: it is never executed.
    """
    space = env.action_space()
    if not isinstance(space, Box) or own_numbers(env).all():
        return policy
    return Counted(policy, own_numbers(env), len(space.shape))


def own_numbers(env: MultiAgentEnvironment) -> np.ndarray:
    """Which numbers of an action in a box are an agent's own and not padding: bool `[N, *space.shape]`."""
    own = np.zeros((env.num_agents, *env.action_space().shape), bool)
    for i, agent in enumerate(env.agents):
        own[i, *map(slice, env.agent_action_spaces[agent].shape)] = True
    return own
