"""The two ends of an update that learns from a fresh rollout: collect the experience, then learn from a batch of it.

Between them, an algorithm computes what it learns: PPO advantages, PQN returns.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from jaxrl.acting.agent import Agent, next_rollout, rollout_policy
from jaxrl.acting.normaliser import normalised, scaled_rewards, update_obs_stats
from jaxrl.acting.rollout import Policy, Transition, draw_by_shard
from jaxrl.algorithm import Metrics
from jaxrl.rl.advantage import bootstrap_values
from jaxrl.rl.devices import num_devices, num_side_by_side, psum
from jaxrl.rl.epochs import update_epochs

__all__ = ["Experience", "collect", "draw_agents", "learn"]


ENTITIES_AT_ONCE = 16384
"""The most entities, over all agents and members, that networks of entities learn from at a time on a CPU."""


class Experience(NamedTuple):
    """A rollout of T steps, ready for advantages or returns."""

    traj: Transition  # leaves [T, B, ...]; observations are normalised, agents that do not learn are masked as dead
    reward: jax.Array  # [T, B, N] scaled
    discount: jax.Array  # [T, B, 1 or N] gamma, and 0 where the task ended
    cut: jax.Array  # [T, B, 1] True where the episode ended, terminated or truncated
    next_value: jax.Array  # [T, B, N] of what the step led to in the same episode
    keys: jax.Array  # [E, R / S, S / devices] for the shuffles of E epochs
    sums: dict[str, Any]  # over the episodes that ended
    spare_keys: jax.Array  # [spare, S / devices]


def collect(
    agent: Agent, state: Any, h: Any, policy: Policy | None = None, *, spare: int = 0
) -> tuple[Any, Experience]:
    """Act for T steps: the train state with what acting changes (environments, normaliser, key), and the experience.

    Args:
        agent: What the configuration is made into.
        state: The train state.
        h: The hyperparameters of this update.
        policy: How to act; None for the agent's own policy. `learns[B, N]` in its extras is False for agents that
            others play: normalisers and losses leave out their steps.
        spare: How many random keys each shard needs besides those for the shuffles.
    """
    config, param_sets = agent.config, agent.param_sets
    policy = rollout_policy(agent, state) if policy is None else policy
    rows = config.num_envs * config.num_steps // config.train_length // config.shards
    streams = config.update_epochs * rows
    after, traj, sums, keys = next_rollout(agent, state, policy, streams + spare)
    mask = traj.observation.agent_mask & traj.extras.get("learns", True)
    traj = traj._replace(observation=traj.observation._replace(agent_mask=mask))
    discounted = after.runner.discounted
    normaliser, discounted, reward = scaled_rewards(state.normaliser, discounted, traj, param_sets, h.gamma)

    cut = traj.cut[..., None]
    experience = Experience(
        traj=traj._replace(observation=normalised(state.normaliser, traj.observation, param_sets)),
        reward=reward,
        discount=h.gamma * (1.0 - traj.terminated[..., None]),
        cut=cut,
        next_value=bootstrap_values(traj.extras["value"], traj.bootstrap, cut),
        keys=keys[:streams].reshape(config.update_epochs, rows, -1),
        sums=sums,
        spare_keys=keys[streams:],
    )
    state = dataclasses.replace(
        after,
        normaliser=update_obs_stats(normaliser, traj.observation, param_sets),
        runner=after.runner._replace(discounted=discounted),
    )
    return state, experience


def draw_agents(traj: Transition, advantage: jax.Array, keys: jax.Array, count: int) -> tuple[Transition, jax.Array]:
    """A rollout of `count` of the N agents, drawn in each step: agents with a choice first, then other living ones.

    Agents of the same rank are equally likely; in a game of turns, only the player whose turn it is has a choice. A
    drawn agent stands for several living ones: the `weight` in the extras says for how many.

    Args:
        traj: Transitions `[T, B, ...]`.
        advantage: `[T, B, N]`.
        keys: `[S / devices]`. Consumed.
        count: How many agents are kept.
    """
    alive = traj.observation.agent_mask
    rank = draw_by_shard(lambda part, key: jax.random.uniform(key, part.shape, jnp.float32), alive, keys)
    mask = traj.observation.action_mask
    choosing = alive if mask is None else alive & (mask.sum(axis=-1) > 1)
    index = jax.lax.top_k(rank + alive + choosing, count)[1]

    def of_drawn(leaf: jax.Array) -> jax.Array:
        return jnp.take_along_axis(leaf, index.reshape(*index.shape, *(1,) * (leaf.ndim - index.ndim)), axis=2)

    seen = traj.observation._replace(global_state=None)  # belongs to no agent
    kept = (seen, traj.action, traj.extras["log_prob"], traj.extras["value"], advantage)
    observation, action, log_prob, value, advantage = jax.tree.map(of_drawn, kept)
    num_alive, drawn = alive.sum(axis=-1, keepdims=True), observation.agent_mask
    weight = drawn * num_alive / jnp.maximum(drawn.sum(axis=-1, keepdims=True), 1).astype(jnp.float32)
    extras = {"log_prob": log_prob, "value": value, "weight": weight}
    observation = observation._replace(global_state=traj.observation.global_state)
    return traj._replace(observation=observation, action=action, extras=extras), advantage


def learn(
    agent: Agent,
    state: Any,
    h: Any,
    batch: Any,
    experience: Experience,
    target_kl: float | None = None,
    prepare: Callable[[Any, int], Any] | None = None,
) -> tuple[Any, Metrics]:
    """The rest of an update, all epochs on a batch of the experience: the new train state and the metrics.

    Args:
        agent: What the configuration is made into.
        state: The train state from `collect`.
        h: The hyperparameters of this update.
        batch: What `agent.loss` takes, leaves `[L, R, ...]`: R sequences of L steps.
        experience: The experience that the batch is made of.
        target_kl: See `update_epochs`.
        prepare: `prepare(minibatch, num_parts)` prepares a whole minibatch, so that `agent.loss` can then take it in
            parts. None if `agent.loss` takes the minibatch as it is, at once.
    """
    config = agent.config
    num_parts = 1 if prepare is None else parts_of_minibatch(agent, batch)
    params, opt_state, losses = update_epochs(
        partial(agent.loss, agent, h),
        state.params,
        state.opt_state,
        batch,
        experience.keys,
        num_envs=config.num_envs // num_devices(),
        num_minibatches=config.num_minibatches,
        optimizer=config.optimizer,
        lr=h.lr,
        max_grad_norm=h.max_grad_norm,
        weight_decay=config.weight_decay,
        target_kl=target_kl,
        prepare=None if prepare is None else lambda minibatch: prepare(minibatch, num_parts),
        num_parts=num_parts,
    )
    state = dataclasses.replace(state, params=params, opt_state=opt_state, update=state.update + 1)
    return state, {**psum(experience.sums), "losses": losses}


def parts_of_minibatch(agent: Agent, batch: Any) -> int:
    """The parts to learn from a minibatch in, so that the embeddings of a part's entities fit into a core's cache.

    On a CPU, updates of networks of entities are then 1.1 to 1.6 times as fast (`baselines/history.md`). Others gain
    nothing, networks with a memory need long rows, and accelerators are faster with everything at once.

    Args:
        agent: What the configuration is made into.
        batch: Leaves `[L, R, ...]`, with `weight` `[L, R, N]`.
    """
    config, entities = agent.config, agent.env.entities
    length, rows, num_agents = batch.weight.shape
    if config.torso == "flat" or entities is None or config.memory != "none" or jax.default_backend() != "cpu":
        return 1
    rows //= config.num_minibatches
    row = length * num_agents * sum(group.count for group in entities.groups) * num_side_by_side()
    most = max(1, ENTITIES_AT_ONCE // row)
    return next(parts for parts in range(1, rows + 1) if rows % parts == 0 and rows // parts <= most)
