"""Episode statistics, kept on the device and reduced there: sums and counts, never one row a step."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

__all__ = ["Running", "ended", "new_running"]


class Running(NamedTuple):
    """The episodes under way in B environments."""

    episode_return: jax.Array  # [B] reward so far, the agents' mean
    length: jax.Array  # [B] int32 steps so far


def new_running(num_envs: int) -> Running:
    """B episodes that have just begun."""
    return Running(jnp.zeros(num_envs), jnp.zeros(num_envs, jnp.int32))


def ended(
    running: Running, reward: jax.Array, done: jax.Array, info: dict[str, Any]
) -> tuple[Running, dict[str, jax.Array]]:
    """Advance by one step: the running episodes, and sums over those that ended in it.

    Args:
        running: Before the step.
        reward: `[B]`, or `[B, N]` with agents.
        done: bool `[B]`, terminated or truncated.
        info: From the environment; where it has `"won"` (bool `[B]`), wins are counted.

    Returns:
        The running episodes (ended ones begun anew), and scalars `episodes`, `return_sum`, `length_sum`, `won_sum`.
    """
    total = running.episode_return + reward.reshape(reward.shape[0], -1).mean(1)
    length = running.length + 1
    sums = {"episodes": done.sum(), "return_sum": (done * total).sum(), "length_sum": (done * length).sum()}
    if "won" in info:
        sums["won_sum"] = (done & info["won"]).sum()
    return Running(jnp.where(done, 0.0, total), jnp.where(done, 0, length)), sums
