"""How levels are judged: by the outcomes of episodes, or by a critic. Only finished episodes count, in raw rewards."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

__all__ = ["BY_OUTCOME", "Critique", "Tally", "add_step", "criticised", "learnability", "new_tally", "variance"]


class Tally(NamedTuple):
    """What B environments have achieved on the levels that they play, over the episodes that have ended."""

    plays: jax.Array  # int32 [B] episodes
    wins: jax.Array  # float32 [B, G]: by each agent where agents succeed on their own, else G = 1
    mean: jax.Array  # float32 [B] of the episodes' returns, which are means over agents
    spread: jax.Array  # float32 [B] the sum of the squared differences from it
    best: jax.Array  # float32 [B] the largest return; -inf before the first
    current: jax.Array  # float32 [B] the return so far of the episode in progress


def new_tally(num_envs: int, num_groups: int) -> Tally:
    """B levels that nobody has played; G = `num_groups` count their own wins."""
    zeros = jnp.zeros(num_envs, jnp.float32)
    wins = jnp.zeros((num_envs, num_groups), jnp.float32)
    return Tally(jnp.zeros(num_envs, jnp.int32), wins, zeros, zeros, jnp.full_like(zeros, -jnp.inf), zeros)


def add_step(tally: Tally, reward: jax.Array, done: jax.Array, success: jax.Array) -> Tally:
    """The tally after one more step with `reward[B, N]`; `done[B]` says if the episode ended, `success[B, G]` who won.

    Moments are updated as in Welford 1962, so that returns far from 0 lose no digits.
    """
    total = tally.current + reward.reshape(reward.shape[0], -1).mean(1)
    plays = tally.plays + done
    step = jnp.where(done, total - tally.mean, 0.0)
    mean = tally.mean + step / jnp.maximum(plays, 1)
    return Tally(
        plays=plays,
        wins=tally.wins + (success & done[:, None]),
        mean=mean,
        spread=tally.spread + step * (total - mean),
        best=jnp.where(done, jnp.maximum(tally.best, total), tally.best),
        current=jnp.where(done, 0.0, total),
    )


def learnability(tally: Tally) -> jax.Array:
    """The sum of p (1 - p) over those who can win, `[B]` (Rutherford et al. 2024, https://arxiv.org/abs/2408.15099).

    p is a share of n episodes. The factor n / (n - 1) makes up for n being small: without it, levels of short episodes
    would score higher. It is -inf below two episodes.
    """
    plays = tally.plays.astype(jnp.float32)
    share = tally.wins / jnp.maximum(plays, 1.0)[:, None]
    score = (share * (1.0 - share)).sum(-1) * plays / jnp.maximum(plays - 1.0, 1.0)
    return jnp.where(tally.plays > 1, score, -jnp.inf)


def variance(tally: Tally) -> jax.Array:
    """The variance of the returns, `[B]`: the learnability where these are 0 and 1. It is -inf below two episodes."""
    return jnp.where(tally.plays > 1, tally.spread / jnp.maximum(tally.plays - 1, 1), -jnp.inf)


BY_OUTCOME = {"learnability": learnability, "variance": variance}
"""The scores that need no critic, by name."""


class Critique(NamedTuple):
    """What a critic says of the levels that B environments play, a number a step: its mean over episodes of means.

    All are 0 for a level that nobody has played.
    """

    steps: jax.Array  # float32 [B] of the episode in progress
    total: jax.Array  # float32 [B] the sum of the numbers of these steps
    means: jax.Array  # float32 [B] the sum of the means of the episodes that have ended on the level


def criticised(critique: Critique, numbers: jax.Array, cut: jax.Array, leaves: jax.Array) -> tuple[Critique, jax.Array]:
    """Follow a critic through a rollout in which each environment leaves its level at most once.

    `numbers[T, B]` is what it says of each step; an episode ended where `cut[T, B]`, and the level was left where
    `leaves[T, B]`. Returns the critique to continue from, and the sums `[B]` of the means of the episodes on the levels
    that were left.
    """

    def step(critique: Critique, inputs: tuple[jax.Array, ...]) -> tuple[Critique, jax.Array]:
        number, cut, leaves = inputs
        steps, total = critique.steps + 1, critique.total + number
        means = critique.means + jnp.where(cut, total / steps, 0.0)
        after = Critique(jnp.where(cut, 0.0, steps), jnp.where(cut, 0.0, total), jnp.where(leaves, 0.0, means))
        return after, jnp.where(leaves, means, 0.0)

    critique, left = jax.lax.scan(step, critique, (numbers, cut, leaves))
    return critique, left.sum(0)
