"""The two ends of an update that learns from a fresh rollout: collect the experience, then learn from a batch of it.

Between them, an algorithm computes what it learns: PPO advantages, PQN returns.
"""

from __future__ import annotations

import dataclasses
from functools import partial
from typing import Any, NamedTuple

import jax

from jaxrl.acting.agent import Agent
from jaxrl.acting.normaliser import normalised, scaled_rewards, update_obs_stats
from jaxrl.acting.rollout import Transition
from jaxrl.algorithm import Metrics
from jaxrl.rl.advantage import bootstrap_values
from jaxrl.rl.devices import num_devices, psum
from jaxrl.rl.learn import update_epochs
from jaxrl.rl.optimizer import take_step

__all__ = ["Experience", "collect", "learn"]


class Experience(NamedTuple):
    """A rollout of T steps, ready for advantages or returns."""

    traj: Transition  # leaves [T, B, ...]; observations are normalised
    reward: jax.Array  # [T, B, N] scaled
    discount: jax.Array  # [T, B, 1 or N] gamma, and 0 where the task ended
    cut: jax.Array  # [T, B, 1] True where the episode ended, terminated or truncated
    next_value: jax.Array  # [T, B, N] of what the step led to in the same episode
    keys: jax.Array  # [E, R / S, S / devices] for the shuffles of E epochs
    sums: dict[str, Any]  # over the episodes that ended
    batch_keys: jax.Array  # [batch_keys, S / devices] for `Agent.batch`


def collect(agent: Agent, state: Any, h: Any) -> tuple[Any, Experience]:
    """Act for T steps: the train state with what acting changes (environments, normaliser, key), and the experience."""
    # All keys of an update are drawn at once, because each draw costs compile time (`shard_keys`): those for acting,
    # then those to shuffle by, a key for each of a shard's rows in each epoch, then those that `agent.batch` asks for.
    config = agent.config
    rows = config.num_envs * config.num_steps // config.train_length // config.shards
    streams = config.update_epochs * rows
    after, traj, sums, keys = agent.rollout(agent, state, streams + agent.batch_keys)

    # Rewards are divided by the deviation of discounted returns, this rollout's included; observations are normalised
    # as they were for acting, and their statistics serve from the next rollout on.
    discounted = after.runner.discounted
    normaliser, discounted, reward = scaled_rewards(state.normaliser, discounted, traj, agent.param_sets, h.gamma)
    cut = traj.cut[..., None]
    experience = Experience(
        traj=traj._replace(observation=normalised(state.normaliser, traj.observation, agent.param_sets)),
        reward=reward,
        discount=h.gamma * (1.0 - traj.terminated[..., None]),
        cut=cut,
        next_value=bootstrap_values(traj.extras["value"], traj.bootstrap, cut),
        keys=keys[:streams].reshape(config.update_epochs, rows, -1),
        sums=sums,
        batch_keys=keys[streams:],
    )
    state = dataclasses.replace(
        after,
        normaliser=update_obs_stats(normaliser, traj.observation, agent.param_sets),
        runner=after.runner._replace(discounted=discounted),
    )
    return state, experience


def learn(
    agent: Agent, state: Any, h: Any, batch: Any, experience: Experience, target_kl: float | None = None
) -> tuple[Any, Metrics]:
    """The rest of an update, all epochs on a batch of the experience: the new train state and the metrics.

    Args:
        agent: The agent.
        state: The train state from `collect`.
        h: The hyperparameters of this update.
        batch: The input of `agent.grad`, leaves `[L, R, ...]`: R sequences of L steps.
        experience: The experience that the batch is made of.
        target_kl: See `update_epochs`.
    """
    config = agent.config

    params, opt_state, losses = update_epochs(
        partial(agent.grad, agent, h),
        partial(
            take_step,
            optimizer=config.optimizer,
            lr=h.lr,
            max_grad_norm=h.max_grad_norm,
            weight_decay=config.weight_decay,
        ),
        state.params,
        state.opt_state,
        batch,
        experience.keys,
        num_envs=config.num_envs // num_devices(),
        num_minibatches=config.num_minibatches,
        target_kl=target_kl,
    )
    state = dataclasses.replace(state, params=params, opt_state=opt_state, update=state.update + 1)
    return state, {**psum(experience.sums), "losses": losses}
