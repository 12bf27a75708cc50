"""Episode statistics, kept and reduced on the device: sums and counts, never one row per step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

__all__ = ["Running", "ended", "info_means", "kind_means", "new_running", "points", "several", "summed"]

_EVEN = 1e-4  # rewards that add up to the same, in another order, differ by less than this in float32


class Running(NamedTuple):
    """The episodes in progress in B environments."""

    episode_return: jax.Array  # [B] reward so far, the mean over agents
    length: jax.Array  # [B] int32 steps so far
    kind_return: dict[str, jax.Array]  # [B] reward so far, the mean over one kind of agent; empty if there is one kind


def new_running(num_envs: int, kinds: Mapping[str, tuple[int, ...]] | None = None) -> Running:
    """B episodes that have just begun.

    Args:
        num_envs: B.
        kinds: The indices of the agents by kind; if there are several kinds, each has its own return.
    """
    kind_return = {name: jnp.zeros(num_envs, jnp.float32) for name in several(kinds)}
    return Running(jnp.zeros(num_envs, jnp.float32), jnp.zeros(num_envs, jnp.int32), kind_return)


def several(kinds: Mapping[str, tuple[int, ...]] | None) -> Mapping[str, tuple[int, ...]]:
    """The kinds of agents that have their own returns: all of them or, if there is only one, none."""
    return kinds if kinds and len(kinds) > 1 else {}


def kind_means(reward: jax.Array, kinds: Mapping[str, tuple[int, ...]] | None) -> dict[str, jax.Array]:
    """The mean reward of each kind of agent, `[B]`, from `reward[B, N]`; empty if there is only one kind."""
    number = np.arange(reward.shape[-1])
    return {
        name: jnp.where(np.isin(number, agents), reward, 0.0).sum(-1) / len(agents)
        for name, agents in several(kinds).items()
    }


def info_means(info: Mapping[str, Any], names: Sequence[str]) -> dict[str, jax.Array]:
    """Some numbers of the info by name, float32 `[B]`: the mean over agents of those that are `[B, N]`."""
    return {name: info[name].reshape(info[name].shape[0], -1).astype(jnp.float32).mean(1) for name in names}


def ended(
    running: Running,
    reward: jax.Array,
    done: jax.Array,
    info: dict[str, Any],
    kinds: Mapping[str, tuple[int, ...]] | None = None,
    log_info: Sequence[str] = (),
) -> tuple[Running, dict[str, Any]]:
    """Advance by one step: returns the running episodes, and the statistics of those that ended.

    Args:
        running: The running episodes before the step.
        reward: `[B]`, or `[B, N]` with agents.
        done: bool `[B]`, terminated or truncated.
        info: The environment's `info`; if it has `"won"` (bool `[B]`), wins are counted.
        kinds: See `new_running`.
        log_info: Names of numbers in `info`, `[B]` or `[B, N]` with agents: their values at the end of each episode
            (the mean over agents) are summed too.

    Returns:
        The running episodes (ended ones restarted), and rows `[B]`, zero where no episode ended, whose sums are
        `episodes`, `return_sum`, `length_sum`, `won_sum`; with several kinds of agents also `return_sums`, and with
        `log_info` also `info_sums`, dictionaries of rows. Episodes and wins are bool, to be counted; the rest is
        float32, in which no sum overflows.
    """
    total = running.episode_return + reward.reshape(reward.shape[0], -1).mean(1)
    length = running.length + 1
    rows: dict[str, Any] = {
        "episodes": done,
        "return_sum": done * total,
        "length_sum": done * length.astype(jnp.float32),
    }
    if "won" in info:
        rows["won_sum"] = done & info["won"]
    if log_info:
        values = info_means(info, log_info)
        rows["info_sums"] = {name: jnp.where(done, value, 0.0) for name, value in values.items()}
    kind_total = jax.tree.map(jnp.add, running.kind_return, kind_means(reward, kinds))
    if kind_total:
        rows["return_sums"] = {name: done * own for name, own in kind_total.items()}
    kind_return = {name: jnp.where(done, 0.0, own) for name, own in kind_total.items()}
    return Running(jnp.where(done, 0.0, total), jnp.where(done, 0, length), kind_return), rows


def summed(rows: dict[str, Any]) -> dict[str, Any]:
    """The sums of the rows of `ended` over all axes: int32 for counts, float32 for the rest."""
    return jax.tree.map(lambda row: jnp.sum(row, dtype=jnp.int32 if row.dtype == bool else jnp.float32), rows)


def points(ahead: jax.Array) -> jax.Array:
    """What games are worth to a side, from how far its return is ahead at the end: 1 for a win, 1/2 for a draw, 0.

    Leads below 1e-4 are draws: they are the rounding error of sums, as in a battle that leaves nobody alive.
    """
    return (jnp.sign(jnp.where(jnp.abs(ahead) < _EVEN, 0.0, ahead)) + 1.0) / 2.0
