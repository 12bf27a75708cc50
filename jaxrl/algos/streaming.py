"""The update of algorithms that learn from one stream of experience: act for a step, learn from it, forget it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from jaxrl.acting.agent import Agent, init_normaliser, make_collector, rollout_policy
from jaxrl.acting.normaliser import normalised, scaled_rewards, update_obs_stats
from jaxrl.acting.rollout import Observation, init_runner, refresh_pool, rollout
from jaxrl.algorithm import Metrics
from jaxrl.algos.ppo import TrainState
from jaxrl.keys import check_key
from jaxrl.nn.layers import sparse_kernels
from jaxrl.rl.devices import shard_keys
from jaxrl.rl.traces import new_trace

__all__ = ["Learn", "Step", "init_stream", "learn_from_stream"]


class Step(NamedTuple):
    """One step of the stream; all but the observation and the action are scalars."""

    observation: Observation  # leaves [1, 1, ...]: T = 1 and B = 1; normalised
    action: jax.Array  # [1, 1, 1, ...]
    begins: jax.Array  # whether the observation begins an episode
    reward: jax.Array  # scaled
    discount: jax.Array  # gamma, and 0 where the task ended
    next_value: jax.Array  # of what the step led to in the same episode, by the parameters that acted


Learn = Callable[[Any, Any, Step], tuple[Any, Any, dict[str, jax.Array]]]
"""`learn(params, trace, step) -> (params, trace, {name: scalar})`."""


def init_stream(agent: Agent, key: jax.Array, hyperparams: Any = None) -> TrainState:
    """A fresh train state with sparse weights; `opt_state` is the eligibility trace. Consumes `key`."""
    check_key(key, "init")
    config = agent.config
    h = config.initial_hyperparams(hyperparams)
    key_params, key_sparse, key_env, key = jax.random.split(key, 4)
    params = sparse_kernels(key_sparse, agent.networks.init(key_params), config.sparsity)
    runner = init_runner(make_collector(agent, 0), agent.networks.new_carry(1), key_env)
    return TrainState(params, new_trace(params), h, init_normaliser(agent), runner, key, jnp.int32(0))


def learn_from_stream(agent: Agent, state: TrainState, gamma: jax.Array, learn: Learn) -> tuple[TrainState, Metrics]:
    """T steps, each of which is learned from before the next one is taken: the train state and the metrics.

    Args:
        agent: What the configuration is made into.
        state: The train state.
        gamma: Discount factor.
        learn: How to learn from a step.
    """
    config, param_sets = agent.config, agent.param_sets
    collector = make_collector(agent, state.update)
    num_keys, pooled = collector.keys_per_step, config.reset == "pool"
    key, keys = shard_keys(state.key, 1, config.num_steps * num_keys + pooled)
    impl = jax.random.key_impl(keys)
    runner = refresh_pool(collector, state.runner, keys[-1], config.pool_refresh) if pooled else state.runner

    def step(state: TrainState, bits: jax.Array) -> tuple[TrainState, tuple[Any, dict[str, jax.Array]]]:
        own = jax.random.wrap_key_data(bits, impl=impl)
        runner, traj, sums = rollout(collector, rollout_policy(agent, state), state.runner, own)
        normaliser, discounted, reward = scaled_rewards(state.normaliser, runner.discounted, traj, param_sets, gamma)
        seen = Step(
            observation=normalised(state.normaliser, traj.observation, param_sets),
            action=traj.action,
            begins=traj.reset.reshape(()),
            reward=reward.reshape(()),
            discount=gamma * (1.0 - traj.terminated.reshape(())),
            next_value=traj.bootstrap.reshape(()),
        )
        params, trace, losses = learn(state.params, state.opt_state, seen)
        state = dataclasses.replace(
            state,
            params=params,
            opt_state=trace,
            normaliser=update_obs_stats(normaliser, traj.observation, param_sets),
            runner=runner._replace(discounted=discounted),
        )
        return state, (sums, losses)

    # Scan over bits, see `rollout`.
    bits = jax.random.key_data(keys[: config.num_steps * num_keys])
    bits = bits.reshape(config.num_steps, 1, num_keys, 1, -1)
    state, (sums, losses) = jax.lax.scan(step, dataclasses.replace(state, runner=runner), bits)
    sums = jax.tree.map(lambda rows: jnp.sum(rows, axis=0, dtype=rows.dtype), sums)
    state = dataclasses.replace(state, key=key, update=state.update + 1)
    return state, {**sums, "losses": jax.tree.map(jnp.mean, losses)}
