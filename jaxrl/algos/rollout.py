"""Collecting experience: the scan over environments and policy that the on-policy algorithms share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxrl.rl import episodes
from jaxrl.vector import VectorEnv

__all__ = ["Loop", "Transition", "begin", "next_values", "rollout", "team_value"]


class Loop(NamedTuple):
    """What goes on from one rollout to the next."""

    env_state: Any
    obs: jax.Array  # [B, N, D]
    reset: jax.Array  # [B] True where `obs` begins an episode: memory is cleared before it is used
    carry: Any  # memory, leaves [B, N, H]
    running: episodes.Running


class Transition(NamedTuple):
    """One step of B environments with N agents; a rollout stacks T of them."""

    obs: jax.Array  # [B, N, D]
    action_mask: jax.Array  # [B, N, A]
    alive: jax.Array  # [B, N] who acts; the dead carry no loss
    reset: jax.Array  # [B, N] True where `obs` begins an episode
    carry: Any  # memory before `obs`, leaves [B, N, H]
    action: jax.Array  # [B, N]
    log_prob: jax.Array  # [B, N]
    value: jax.Array  # [B, N] of a dead agent: see `team_value`
    reward: jax.Array  # [B, N]
    terminated: jax.Array  # [B, N] True where the step ended the task: no value follows
    cut: jax.Array  # [B, N] True where the episode ended, by its task or by the clock
    final_value: jax.Array  # [B, N] value of the final observation where truncated, else 0


# policy(carry, obs[1, B, N, D], reset[1, B, N], mask[1, B, N, A]) -> (carry, distribution, value[1, B, N])
Policy = Callable[[Any, jax.Array, jax.Array, jax.Array], tuple[Any, Any, jax.Array]]


def begin(venv: VectorEnv, carry: Any, key: jax.Array) -> Loop:
    """The start of all episodes. Consumes `key`."""
    obs, env_state = venv.reset(key)
    return Loop(env_state, obs, jnp.ones(venv.num_envs, bool), carry, episodes.new_running(venv.num_envs))


def rollout(
    venv: VectorEnv, policy: Policy, loop: Loop, key: jax.Array, num_steps: int
) -> tuple[Loop, Transition, jax.Array, dict[str, jax.Array]]:
    """Act for T steps.

    Returns:
        The loop to go on from, transitions with leaves `[T, B, ...]`, the value `[B, N]` of the observation after the
        last step, and sums over the episodes that ended (see `episodes.ended`). Consumes `key`.
    """

    def step(loop: Loop, key: jax.Array) -> tuple[Loop, tuple[Transition, dict[str, jax.Array]]]:
        return _step(venv, policy, loop, key)

    loop, (transitions, sums) = jax.lax.scan(step, loop, jax.random.split(key, num_steps))
    mask = venv.action_mask(loop.env_state)
    _, _, value = policy(loop.carry, loop.obs[None], _agents(loop.reset, mask)[None], mask[None])
    value = team_value(value[0], venv.agent_mask(loop.env_state), venv.teams)
    return loop, transitions, value, jax.tree.map(lambda s: s.sum(0), sums)


def _step(
    venv: VectorEnv, policy: Policy, loop: Loop, key: jax.Array
) -> tuple[Loop, tuple[Transition, dict[str, jax.Array]]]:
    key_action, key_env = jax.random.split(key)
    mask, alive = venv.action_mask(loop.env_state), venv.agent_mask(loop.env_state)
    reset = _agents(loop.reset, mask)
    carry, distribution, value = policy(loop.carry, loop.obs[None], reset[None], mask[None])
    action, log_prob = distribution.sample_and_log_prob(seed=key_action)
    obs, env_state, reward, terminated, truncated, info = venv.step(key_env, loop.env_state, action[0])

    def bootstrap() -> jax.Array:
        final = info["final_observation"][None]
        _, _, final_value = policy(carry, final, jnp.zeros_like(reset)[None], mask[None])
        final_value = team_value(final_value[0], alive, venv.teams)
        return jnp.where(truncated[:, None], final_value, 0.0)

    # Time-outs are rare, so most steps are spared a second pass of the critic.
    final_value = jax.lax.cond(truncated.any(), bootstrap, lambda: jnp.zeros_like(value[0]))
    done = terminated | truncated
    transition = Transition(
        obs=loop.obs,
        action_mask=mask,
        alive=alive,
        reset=reset,
        carry=loop.carry,
        action=action[0],
        log_prob=log_prob[0],
        value=team_value(value[0], alive, venv.teams),
        reward=reward,
        terminated=_agents(terminated, mask),
        cut=_agents(done, mask),
        final_value=final_value,
    )
    running, sums = episodes.ended(loop.running, reward, done, info)
    return Loop(env_state, obs, done, carry, running), (transition, sums)


def next_values(transitions: Transition, last_value: jax.Array) -> jax.Array:
    """`[T, B, N]`: the value after each step within the same episode, from `last_value[B, N]` after the last one."""
    following = jnp.concatenate([transitions.value[1:], last_value[None]])
    return jnp.where(transitions.cut, transitions.final_value, following)


def team_value(value: jax.Array, alive: jax.Array, teams: tuple[int, ...]) -> jax.Array:
    """`value[..., N]`, that of the dead replaced by the mean of their living team-mates', or 0 if there are none.

    A team shares its reward, so what is still to come for the team is also to come for its fallen member, who sees
    nothing and could not tell. It makes a sacrifice worth what it wins.
    """
    same_team = np.equal.outer(teams, teams).astype(np.float32)
    total, count = (value * alive) @ same_team, alive @ same_team
    return jnp.where(alive, value, total / jnp.maximum(count, 1.0))


def _agents(flag: jax.Array, mask: jax.Array) -> jax.Array:
    """A flag a environment `[B]`, repeated for each agent `[B, N]`."""
    return jnp.broadcast_to(flag[:, None], mask.shape[:2])
