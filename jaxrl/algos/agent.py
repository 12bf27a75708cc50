"""What an algorithm of the PPO family is made of, and how it acts once trained."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from jaxrl.algos.config import Hyperparams, OnPolicyConfig
from jaxrl.algos.normaliser import Normaliser, normalised
from jaxrl.algos.rollout import Loop, View
from jaxrl.environment import MultiAgentEnvironment
from jaxrl.keys import check_key
from jaxrl.nn.torso import as_floats

__all__ = ["Networks", "Parts", "TrainState", "act", "act_alone"]


class Networks(NamedTuple):
    """Policy and critic as pure functions."""

    init: Callable[[jax.Array], Any]
    """`init(key) -> params`. Consumes `key`."""
    apply: Callable[[Any, Any, View, jax.Array], tuple[Any, Any, jax.Array]]
    """`apply(params, carry, view[T, B, ...], reset[T, B]) -> (carry, distribution, prediction[T, B, N, ...])`."""
    new_carry: Callable[[int], Any]
    """`new_carry(B)`: the memory at the beginning of B episodes."""


class Parts(NamedTuple):
    """What a configuration is made into, once."""

    config: OnPolicyConfig
    env: MultiAgentEnvironment
    groups: tuple[int, ...]
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
    loop: Loop
    key: jax.Array
    update: jax.Array  # int32, updates done


def act(
    parts: Parts,
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
    carry = parts.networks.new_carry(num_envs) if carry is None else carry
    reset = jnp.zeros(num_envs, bool) if reset is None else reset
    obs = as_floats(parts.env.observation_space(), obs) if parts.config.normalise_obs else obs
    view = View(obs, None, action_mask, jnp.ones((num_envs, num_agents), bool))
    view = normalised(state.normaliser, jax.tree.map(lambda leaf: leaf[None], view), parts.groups)
    carry, policy, _ = parts.networks.apply(state.params, carry, view, reset[None])
    action = policy.mode() if key is None else policy.sample(seed=key)
    return action[0], carry


def act_alone(
    parts: Parts,
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
    action, carry = act(parts, state, obs[:, None], carry, key, action_mask=mask, reset=reset)
    return action[:, 0], carry
