"""The book of a pool of levels: their scores, how often each is drawn, and which new ones take whose place."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxrl.levels.options import Levels

__all__ = ["Book", "chances", "draw", "fingerprints", "inserted", "new_book", "noted"]


class Book(NamedTuple):
    """What is known of the P levels of a pool; or of the visits to B levels, which were left in this rollout or not."""

    score: jax.Array  # float32 [P]; -inf for an empty slot. Of visits for maxmc the mean value; -inf if it was not left
    best: jax.Array  # float32 [P] the largest return on the level: ever, or in this visit
    stamp: jax.Array  # int32 [P] the update in which it was last begun, or this one
    print: jax.Array  # uint32 [P, 2] its fingerprint


def new_book(size: int) -> Book:
    """P empty slots."""
    nothing = jnp.full(size, -jnp.inf, jnp.float32)
    return Book(nothing, nothing, jnp.zeros(size, jnp.int32), jnp.zeros((size, 2), jnp.uint32))


def fingerprints(levels: Any) -> jax.Array:
    """Two independent hashes of each level's leaves `[B, …]`, uint32 `[B, 2]`: sums of their bits times odd numbers."""
    numbers = np.random.RandomState(0)
    total: Any = 0
    for leaf in jax.tree.leaves(levels):
        leaf = jax.random.key_data(leaf) if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key) else leaf
        is_float = jnp.issubdtype(leaf.dtype, jnp.floating)
        bits = jax.lax.bitcast_convert_type(leaf.astype(jnp.float32), jnp.uint32) if is_float else leaf
        bits = bits.reshape(bits.shape[0], -1).astype(jnp.uint32)
        bits = (bits ^ (bits >> 15)) * np.uint32(0x2C1B3C6D)  # spreads what small numbers have in common
        odd = numbers.randint(0, 2**32, (2, bits.shape[1]), np.uint32) | np.uint32(1)
        total = total + jnp.stack([(bits * row).sum(1, dtype=jnp.uint32) for row in odd], axis=1)
    return total


def chances(book: Book, options: Levels, clock: jax.Array | int) -> jax.Array:
    """The probability of each level to be drawn from the pool, `[P]`; 0 for empty slots, and everywhere if all are.

    Prioritised level replay, https://arxiv.org/abs/2010.03934, section 3: a mixture of score and staleness, after
    `clock` updates. Sampling for learnability draws all alike.
    """
    filled = book.score > -jnp.inf
    if options.kind == "sfl":
        return _shares(filled.astype(jnp.float32), filled)
    if options.priority == "rank":
        order = jnp.argsort(-book.score)
        rank = jnp.zeros_like(order).at[order].set(jnp.arange(1, order.size + 1))
        weight = (1.0 / rank) ** (1.0 / options.temperature)
    else:
        weight = jnp.maximum(book.score, 0.0) ** (1.0 / options.temperature)
    by_score = _shares(weight, filled)
    by_age = _shares((clock - book.stamp).astype(jnp.float32), filled)
    return (1.0 - options.staleness) * by_score + options.staleness * by_age


def _shares(weight: jax.Array, filled: jax.Array) -> jax.Array:
    """Weights as shares of their sum over filled slots; equal ones if all are 0."""
    weight = jnp.where(filled, weight, 0.0)
    total, count = weight.sum(), jnp.maximum(filled.sum(), 1)
    return jnp.where(total > 0, weight / jnp.where(total > 0, total, 1.0), filled / count)


def draw(chance: jax.Array, uniform: jax.Array) -> jax.Array:
    """Slots `[B]` drawn with these chances `[P]`, from numbers `[B]` in [0, 1)."""
    reached = jnp.cumsum(chance)
    slot = jnp.searchsorted(reached, uniform * reached[-1], side="right")
    last = chance.size - 1 - jnp.argmax(chance[::-1] > 0)  # rounding must not lead to an empty slot
    return jnp.minimum(slot, last).astype(jnp.int32)


def noted(book: Book, visits: Book, options: Levels) -> tuple[Book, jax.Array]:
    """The book with new scores for those levels of the pool that were left, the mean if several environments did.

    Returns:
        The book, and the scores `[B]` of levels that are not in the pool, -inf for others and for repetitions.
    """
    # A level is recognised by what it is: its slot may have gone to another one since it was drawn.
    same = (visits.print[:, None] == book.print).all(-1) & (book.score > -jnp.inf)
    known, slot = same.any(1), jnp.argmax(same, axis=1)
    best = jnp.where(known, jnp.maximum(book.best[slot], visits.best), visits.best)
    score = visits.score
    if options.score == "maxmc":  # R_max - the mean value; R_max is the largest return ever on the level
        score = jnp.where(score > -jnp.inf, best - score, -jnp.inf)
    scored = score > -jnp.inf

    into = jnp.where(known & scored, slot, book.score.size)  # out of range for the others, which are dropped
    count = jnp.zeros_like(book.score).at[into].add(1.0, mode="drop")
    total = jnp.zeros_like(book.score).at[into].add(jnp.where(scored, score, 0.0), mode="drop")
    book = book._replace(
        score=jnp.where(count > 0, total / jnp.maximum(count, 1.0), book.score),
        best=book.best.at[into].max(best, mode="drop"),
    )
    new = scored & ~known
    twins = (visits.print[:, None] == visits.print).all(-1) & new
    first = jnp.argmax(twins, axis=1) == jnp.arange(new.size)
    return book, jnp.where(new & first, score, -jnp.inf)


def inserted(
    book: Book, visits: Book, candidate: jax.Array, options: Levels, clock: jax.Array
) -> tuple[Book, jax.Array]:
    """The book with new levels in the place of those that are least likely to be drawn, if they score higher.

    The best candidate meets the slot with the least chance, the next one the next slot, and so on: for one candidate at
    a time, this is the rule of the paper. The scores `candidate[B]` are -inf for levels that are no candidates.

    Returns:
        The book, and the slot of each of the B levels, P for those that found none.
    """
    size, count = book.score.size, min(book.score.size, candidate.size)
    order = jnp.argsort(-candidate)[:count]
    chance = jnp.where(book.score > -jnp.inf, chances(book, options, clock), -1.0)  # empty ones first
    slots = jnp.argsort(chance)[:count]
    slots = jnp.where(candidate[order] > book.score[slots], slots, size)
    into = jnp.full(candidate.size, size, slots.dtype).at[order].set(slots)
    new = visits._replace(score=candidate)
    return jax.tree.map(lambda old, row: old.at[into].set(row, mode="drop"), book, new), into
