"""An agent in use: how its networks act in a rollout, and after training."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from jaxrl.acting.central import global_state_size
from jaxrl.acting.collector import Collector, Observation
from jaxrl.acting.networks import Networks
from jaxrl.acting.normaliser import Normaliser, new_normaliser, normalised
from jaxrl.acting.rollout import Policy, Transition, draw_by_shard, refresh_pool, rollout, team_value
from jaxrl.environment import MultiAgentEnvironment
from jaxrl.keys import check_key
from jaxrl.nn.torso import as_floats
from jaxrl.rl.devices import num_devices, shard_keys
from jaxrl.vector import VectorEnv

__all__ = [
    "Agent",
    "act",
    "act_alone",
    "behaviour_policy",
    "draw_action",
    "init_normaliser",
    "make_collector",
    "next_rollout",
    "rollout_policy",
]


def _as_it_is(state: Any, policy: Any) -> Any:
    del state
    return policy


class Agent(NamedTuple):
    """Everything that is built once from a configuration."""

    config: Any
    env: MultiAgentEnvironment
    param_sets: tuple[int, ...]
    """The number of the parameter set that each of the N agents uses, see `jaxrl.nn.sharing`."""
    networks: Networks
    loss: Callable[..., tuple[jax.Array, dict[str, jax.Array]]]
    """`loss(agent, h, params, batch) -> (scalar, {name: scalar})`."""
    central: bool = False
    """Whether the critic sees the global state."""
    behaviour: Callable[[Any, Any], Any] = _as_it_is
    """`behaviour(state, policy) -> distribution` that actions are drawn from, given a train state and its policy."""
    team_value: Callable[[jax.Array, jax.Array, tuple[int, ...]], jax.Array] = team_value
    """`team_value(value[..., N], agent_mask[..., N], teams)`: the value of each agent, given those of its team."""


def init_normaliser(agent: Agent) -> Normaliser:
    """A normaliser that has seen nothing yet, of what the configuration normalises."""
    return new_normaliser(
        agent.env,
        agent.param_sets,
        obs=agent.config.normalise_obs,
        reward=agent.config.normalise_reward,
        global_state_size=global_state_size(agent.env) if agent.central else 0,
    )


def make_collector(agent: Agent, update: jax.Array | int) -> Collector:
    """The collector of this device's environments, with the parameters that they have after `update` updates."""
    config = agent.config
    num_envs = config.num_envs // num_devices()
    pool_size = config.starts // num_devices() if config.reset == "pool" else None
    venv = VectorEnv(agent.env, num_envs, config.reset, pool_size)
    params = agent.env.params_at(jnp.float32(update) / config.num_updates)
    return Collector(venv, agent.central, config.shards, config.normalise_obs, params, config.log_info)


def next_rollout(
    agent: Agent, state: Any, policy: Policy, num_streams: int
) -> tuple[Any, Transition, dict[str, Any], jax.Array]:
    """Act for T steps, after renewing some of the starts if they come from a pool.

    Args:
        agent: The agent.
        state: A train state with `runner`, `key` and `update`.
        policy: How to act.
        num_streams: How many random keys each shard needs for learning.

    Returns:
        The train state with the runner state and the key to continue from, the transitions `[T, B, ...]`, sums over the
        episodes that ended, and keys `[num_streams, S / devices]`.
    """
    config, collector = agent.config, make_collector(agent, state.update)
    for_rollout, pooled = (config.num_steps, collector.keys_per_step), config.reset == "pool"
    acting = math.prod(for_rollout)
    key, keys = shard_keys(state.key, config.shards, acting + num_streams + pooled)
    runner = refresh_pool(collector, state.runner, keys[-1], config.pool_refresh) if pooled else state.runner
    runner, traj, sums = rollout(
        collector, policy, runner, keys[:acting].reshape(*for_rollout, -1), config.train_length
    )
    return dataclasses.replace(state, runner=runner, key=key), traj, sums, keys[acting : acting + num_streams]


def rollout_policy(agent: Agent, state: Any) -> Policy:
    """A policy that draws actions as the agent behaves.

    It stores `log_prob` and `value` `[B, N]`, and the value after a step.

    Args:
        agent: The actor-critic.
        state: A train state with `params` and `normaliser`.
    """

    def evaluate(carry: Any, observation: Observation, reset: jax.Array) -> tuple[Any, Any, jax.Array]:
        carry, distribution, prediction = _apply(agent, state, carry, observation, reset)
        value = agent.config.value.decode(prediction)[0]
        return carry, distribution, agent.team_value(value, observation.agent_mask, agent.env.teams)

    def act(carry: Any, observation: Observation, reset: jax.Array, keys: jax.Array) -> tuple[Any, jax.Array, Any]:
        carry, distribution, value = evaluate(carry, observation, reset)
        behaviour = agent.behaviour(state, distribution)
        action = draw_by_shard(draw_action, behaviour, keys)
        return carry, action[0], {"log_prob": behaviour.log_prob(action)[0], "value": value}

    def bootstrap(carry: Any, observation: Observation) -> jax.Array:
        return evaluate(carry, observation, jnp.zeros(observation.agent_mask.shape[0], bool))[2]

    return Policy(act, bootstrap)


def behaviour_policy(agent: Agent, state: Any) -> Policy:
    """A policy that draws actions as the agent behaves, and stores nothing; see `rollout_policy`."""

    def act(carry: Any, observation: Observation, reset: jax.Array, keys: jax.Array) -> tuple[Any, jax.Array, Any]:
        carry, distribution, _ = _apply(agent, state, carry, observation, reset)
        return carry, draw_by_shard(draw_action, agent.behaviour(state, distribution), keys)[0], {}

    return Policy(act, lambda carry, observation: ())


def draw_action(distribution: Any, key: jax.Array) -> jax.Array:
    """Actions drawn from a distribution. Consumes `key`."""
    return distribution.sample(seed=key)


def _apply(
    agent: Agent, state: Any, carry: Any, observation: Observation, reset: jax.Array
) -> tuple[Any, Any, jax.Array]:
    """The networks' outputs `[1, B, ...]` for observations `[B, ...]` of one moment."""
    seen = normalised(state.normaliser, _one_moment(observation), agent.param_sets)
    return agent.networks.apply(state.params, carry, seen, reset[None])


def act(
    agent: Agent,
    state: Any,
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
    _check_state(state)
    _check_observations(obs, (agent.env.num_agents, *agent.env.observation_space().shape))
    obs = as_floats(agent.env.observation_space(), obs) if agent.config.normalise_obs else obs
    num_envs, num_agents = obs.shape[:2]
    carry = agent.networks.new_carry(num_envs) if carry is None else carry
    reset = jnp.zeros(num_envs, bool) if reset is None else reset
    observation = _one_moment(Observation(obs, None, action_mask, jnp.ones((num_envs, num_agents), bool)))
    observation = normalised(state.normaliser, observation, agent.param_sets)
    carry, policy, _ = agent.networks.apply(state.params, carry, observation, reset[None])
    action = policy.mode() if key is None else agent.behaviour(state, policy).sample(seed=key)
    return action[0], carry


def act_alone(
    agent: Agent,
    state: Any,
    obs: jax.Array,
    carry: Any = None,
    key: jax.Array | None = None,
    *,
    action_mask: jax.Array | None = None,
    reset: jax.Array | None = None,
) -> tuple[jax.Array, Any]:
    """`act` for a single agent: actions `[B]` for observations `[B, D]`."""
    _check_observations(obs, agent.env.observation_space().shape)
    mask = None if action_mask is None else action_mask[:, None]
    action, carry = act(agent, state, obs[:, None], carry, key, action_mask=mask, reset=reset)
    return action[:, 0], carry


def _check_state(state: Any) -> None:
    """Raise TypeError unless it is a train state."""
    if not hasattr(state, "params") or not hasattr(state, "normaliser"):
        hint = "give its .state" if hasattr(state, "state") else "such as what init and update return"
        raise TypeError(f"act takes a train state, not a {type(state).__name__}; {hint}.")


def _check_observations(obs: Any, shape: tuple[int, ...]) -> None:
    """Raise unless `obs` is a batch of observations of this shape.

    Raises:
        TypeError: It is not an array.
        ValueError: It has another shape; the message says what to give.
    """
    if not hasattr(obs, "shape"):
        raise TypeError(f"act takes an array of observations, not a {type(obs).__name__}; give jnp.asarray(obs).")
    if obs.shape[1:] != shape:
        hint = "; for a single one give obs[None]" if obs.shape == shape else ""
        wanted = ", ".join(map(str, ("B", *shape)))
        raise ValueError(f"act takes a batch of observations [{wanted}], not {list(obs.shape)}{hint}.")


def _one_moment(observation: Observation) -> Observation:
    """The observation with a time axis, T = 1."""
    return jax.tree.map(lambda leaf: leaf[None], observation)
