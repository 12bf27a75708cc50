"""What an algorithm of the PPO family is made of, and how it acts once trained."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from jaxrl.acting.normaliser import Normaliser, normalised
from jaxrl.acting.rollout import Observation, RunnerState
from jaxrl.algos.config import Hyperparams, OnPolicyConfig
from jaxrl.environment import MultiAgentEnvironment
from jaxrl.keys import check_key
from jaxrl.nn.torso import as_floats

__all__ = ["Agent", "Networks", "TrainState", "act", "act_alone"]


class Networks(NamedTuple):
    """Policy and critic as pure functions."""

    init: Callable[[jax.Array], Any]
    """`init(key) -> params`. Consumes `key`."""
    apply: Callable[[Any, Any, Observation, jax.Array], tuple[Any, Any, jax.Array]]
    """`apply(params, carry, observation[T, B, ...], reset[T, B]) -> (carry, distribution, prediction[T, B, N, ...])`."""
    new_carry: Callable[[int], Any]
    """`new_carry(B)`: the memory at the beginning of B episodes."""


class Agent(NamedTuple):
    """What a configuration is made into, once."""

    config: OnPolicyConfig
    env: MultiAgentEnvironment
    param_sets: tuple[int, ...]
    """The parameter group of each agent."""
    networks: Networks
    central: bool = False
    """Whether the critic sees the global state."""


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class TrainState:
    """Everything training goes on from; saving it and loading it resumes exactly.

    Over several devices `loop` is split along its leading axis, all else is the same on each.
    """

    params: Any
    opt_state: Any
    hyperparams: Hyperparams
    normaliser: Normaliser
    loop: RunnerState
    key: jax.Array
    update: jax.Array  # int32, updates done


def act(
    agent: Agent,
    state: TrainState,
    obs: jax.Array,
    carry: Any = None,
    key: jax.Array | None = None,
    *,
    action_mask: jax.Array | None = None,
    reset: jax.Array | None = None,
) -> tuple[jax.Array, Any]:
    """Actions `[B, N]` for observations `[B, N, D]`; see `Algorithm.act`."""
    if key is not None:
        check_key(key, "act")
    num_envs, num_agents = obs.shape[:2]
    carry = agent.networks.new_carry(num_envs) if carry is None else carry
    reset = jnp.zeros(num_envs, bool) if reset is None else reset
    obs = as_floats(agent.env.observation_space(), obs) if agent.config.normalise_obs else obs
    observation = Observation(obs, None, action_mask, jnp.ones((num_envs, num_agents), bool))
    observation = normalised(state.normaliser, jax.tree.map(lambda leaf: leaf[None], observation), agent.param_sets)
    carry, policy, _ = agent.networks.apply(state.params, carry, observation, reset[None])
    action = policy.mode() if key is None else policy.sample(seed=key)
    return action[0], carry


def act_alone(
    agent: Agent,
    state: TrainState,
    obs: jax.Array,
    carry: Any = None,
    key: jax.Array | None = None,
    *,
    action_mask: jax.Array | None = None,
    reset: jax.Array | None = None,
) -> tuple[jax.Array, Any]:
    """The same for a single agent: actions `[B]` for observations `[B, D]`."""
    mask = None if action_mask is None else action_mask[:, None]
    action, carry = act(agent, state, obs[:, None], carry, key, action_mask=mask, reset=reset)
    return action[:, 0], carry
