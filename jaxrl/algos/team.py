"""What teams add to PPO: IPPO, MAPPO and self-play differ from it in how `team_agent` composes their agent."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp

from jaxrl.acting.agent import Agent, Networks
from jaxrl.acting.rollout import Transition, draw_by_shard
from jaxrl.algos import ppo
from jaxrl.algos.on_policy import Experience
from jaxrl.environment import MultiAgentEnvironment
from jaxrl.rl.devices import num_side_by_side, target
from jaxrl.rl.learn import gradient_of_parts

__all__ = ["draw_agents", "parts_of_minibatch", "team_agent"]


ENTITIES_AT_ONCE = 16384
"""The most entities, over all agents and members, that networks of entities learn from at a time on a CPU."""


def team_agent(
    config: Any,
    env: MultiAgentEnvironment,
    networks: Callable[[Any, MultiAgentEnvironment, tuple[int, ...]], Networks],
    loss: Callable[..., Any],
    *,
    central: bool = False,
) -> Agent:
    """The agent of a team: PPO's, with what the configuration asks for besides.

    Args:
        config: A `jaxrl.algos.ippo.TeamConfig`.
        env: The environment.
        networks: `networks(config, env, param_sets)`.
        loss: See `Agent.loss`.
        central: Whether the critic sees the global state.
    """
    param_sets = config.param_sets(env)
    agent = Agent(
        config,
        env,
        param_sets,
        networks(config, env, param_sets),
        loss,
        ppo.gradient_of_loss,
        ppo.batch_of,
        central=central,
    )
    if config.agents_per_step:
        agent = dataclasses.replace(agent, batch=drawn_batch, batch_keys=1)
    if config.torso != "flat" and config.memory == "none" and env.entities is not None:
        agent = dataclasses.replace(agent, grad=gradient_in_parts)
    if config.policies and config.policy_hyperparams:
        agent = dataclasses.replace(agent, schedule=config.hyperparams_of_policies)
    return agent


def drawn_batch(agent: Agent, experience: Experience, advantage: jax.Array) -> ppo.Batch:
    """`ppo.sequences` of `agents_per_step` of the agents, drawn anew in each step."""
    count = agent.config.agents_per_step
    traj, advantage, weight = draw_agents(experience.traj, advantage, experience.batch_keys[0], count)
    return ppo.sequences(traj, advantage, agent.config.train_length, weight)


def draw_agents(
    traj: Transition, advantage: jax.Array, keys: jax.Array, count: int
) -> tuple[Transition, jax.Array, jax.Array]:
    """A rollout of `count` of the N agents, drawn in each step: agents with a choice first, then other living ones.

    Agents of the same rank are equally likely; in a game of turns, only the player whose turn it is has a choice. A
    drawn agent stands for several living ones: its weight, `[T, B, count]`, says for how many.

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
    extras = {"log_prob": log_prob, "value": value}
    observation = observation._replace(global_state=traj.observation.global_state)
    return traj._replace(observation=observation, action=action, extras=extras), advantage, weight


def gradient_in_parts(agent: Agent, h: Any, params: Any, minibatch: ppo.Batch) -> tuple[Any, dict[str, jax.Array]]:
    """`ppo.gradient_of_loss` of a minibatch in as many parts as `parts_of_minibatch` says."""
    num_parts = parts_of_minibatch(agent, minibatch)
    if num_parts == 1:
        return ppo.gradient_of_loss(agent, h, params, minibatch)
    minibatch = ppo.normalised_minibatch(minibatch, num_parts)
    return gradient_of_parts(partial(agent.loss, agent, h), params, minibatch, num_parts)


def parts_of_minibatch(agent: Agent, minibatch: ppo.Batch) -> int:
    """The parts to learn from a minibatch in, so that the embeddings of a part's entities fit into a core's cache.

    On a CPU, updates of networks of entities are then 1.1 to 1.6 times as fast (`baselines/history.md`). Networks with
    a memory need long rows, and accelerators are faster with everything at once.

    Args:
        agent: An agent with entities.
        minibatch: Leaves `[L, R, ...]`, with `weight` `[L, R, N]`.
    """
    if target() != "cpu":
        return 1
    length, rows, num_agents = minibatch.weight.shape
    groups = agent.env.entities.groups if agent.env.entities else ()
    row = length * num_agents * sum(group.count for group in groups) * num_side_by_side()
    most = max(1, ENTITIES_AT_ONCE // row)
    return next(parts for parts in range(1, rows + 1) if rows % parts == 0 and rows // parts <= most)
