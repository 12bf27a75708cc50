"""How near entities are to each other, as numbers that a network of entities can add up.

An entity's own features say where it is as the agent sees it, and sums over embeddings do not say who is next to whom:
for example, whether an enemy is nearer to a team-mate, and so will shoot at that one. These numbers come from the
distances between all pairs: who is nearest, and how many are within reach. They need no parameters.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import jax
import jax.export
import jax.numpy as jnp
import numpy as np

from jaxrl.entities import Entities, present
from jaxrl.rl.devices import target

__all__ = ["Relations", "relations"]

_FAR = np.float32(2.0)
_TINY = 1e-12  # below the square of any distance, so that the square root has a slope everywhere
_BLOCK = 512  # observations whose pairs fit a CPU's cache


class Relations(NamedTuple):
    """What is around the agent and around each entity, for K kinds with places and R reaches.

    The numbers about the agent, in brackets, are left out where places are not relative to it.
    """

    agent: jax.Array
    """`[..., K (R + K)]`, or `[..., 0]`. For each kind: how many are within each reach; how far the nearest is; for
    each other kind, of how many the agent is nearer than all of that kind."""
    entities: dict[str, jax.Array]
    """For each kind, `[..., count, (R + 1 +) (K - 1) (R + 2 (+ 1))]`. For each of the kind (whether it is within each
    reach of the agent, and how far from it); then, for each other kind: how many are within each reach of it, how far
    the nearest is, (whether the agent is nearer than that), and for how many it is the nearest of its own kind."""


def relations(entities: Entities, obs: jax.Array) -> Relations:
    """Who is near whom in observations `[..., D]`.

    These numbers are about the agent and about entities of different kinds; distances within a kind made learning
    slower (`baselines/history.md`). Distances are in the units of places, and at most 2, also where nobody is. Being
    within a reach ends gradually, between three and five quarters of it. Counts of a kind are divided by the square
    root of the kind's size, like other sums over entities. All is 0 for absent entities.

    Args:
        entities: What observations are made of; groups without places are left out.
        obs: The observations.
    """
    rows = obs.reshape(-1, obs.shape[-1])
    found = _in_blocks(partial(_relations, entities), rows)
    return jax.tree.map(lambda leaf: leaf.reshape(*obs.shape[:-1], *leaf.shape[1:]), found)


def _relations(entities: Entities, obs: jax.Array) -> Relations:
    """`relations` for observations `[B, D]`.

    Inside, the batch axis comes last, so that each pair is computed for many observations at once. All reductions are
    over the axis before it, because XLA is many times slower on a CPU over an axis farther away; so the pairs of two
    kinds are computed twice, with either kind first.
    """
    reaches, groups = entities.reaches, {group.kind: group for group in entities.placed}
    rows = {kind: group.rows(obs) for kind, group in groups.items()}
    place = {kind: jnp.moveaxis(rows[kind][..., list(group.place)], 0, -1) for kind, group in groups.items()}
    there = {kind: jnp.moveaxis(present(row), 0, -1) for kind, row in rows.items()}
    scale = {kind: np.float32(group.count**-0.5) for kind, group in groups.items()}
    squares = {(one, other): _pairs(place, there, one, other) for one, other in itertools.permutations(groups, 2)}
    nearest = {pair: square.min(axis=1) for pair, square in squares.items()}
    agent, around = [], {}
    for kind in groups:
        from_agent = _square(place[kind], there[kind])
        own, seen = jnp.sqrt(from_agent), []
        if entities.relative:
            agent += [*(each.sum(axis=0) * scale[kind] for each in _within(own, reaches)), own.min(axis=0)]
            seen += [*_within(own, reaches), own]
        for other in [name for name in groups if name != kind]:
            square, near = squares[kind, other], nearest[kind, other]
            seen += [each.sum(axis=1) * scale[other] for each in _within(jnp.sqrt(square), reaches)]
            seen.append(jnp.sqrt(near))
            if entities.relative:
                agent_first = from_agent < near
                seen.append(agent_first.astype(near.dtype))
                agent.append(agent_first.sum(axis=0) * scale[kind])
            first = (square <= nearest[other, kind]) & (square < _FAR**2)
            seen.append(first.sum(axis=1) * scale[other])
        if seen:
            around[kind] = jnp.moveaxis(jnp.stack(seen, axis=1) * there[kind][:, None], -1, 0)
    about_agent = jnp.stack(agent, axis=-1) if agent else jnp.zeros((obs.shape[0], 0))
    return Relations(about_agent, around)


def _pairs(place: dict[str, jax.Array], there: dict[str, jax.Array], one: str, other: str) -> jax.Array:
    """How far each of one kind is from each of another, squared: `[K, K', B]`."""
    offset = place[one][:, None] - place[other]
    return _square(offset, there[one][:, None] & there[other])


def _square(offset: jax.Array, valid: jax.Array) -> jax.Array:
    """`offset[..., X, B]` as squares of distances `[..., B]`; far where an entity is absent."""
    square = jnp.square(offset).sum(axis=-2)
    return jnp.where(valid, jnp.clip(square, _TINY, _FAR**2), _FAR**2)


def _within(distance: jax.Array, reaches: tuple[float, ...]) -> list[jax.Array]:
    """For each reach, how much each of `distance[...]` is within it, from 0 to 1."""
    return [jnp.clip(2.5 - distance * np.float32(2 / reach), 0.0, 1.0) for reach in reaches]


def _in_blocks(function: Callable[[jax.Array], Relations], rows: jax.Array) -> Relations:
    """`function(rows)` for `rows[B, D]`, on a CPU for so many of them at once that all stays in its cache."""
    count = rows.shape[0]
    if jax.export.is_symbolic_dim(count) or count <= _BLOCK or target() != "cpu":
        return function(rows)
    blocks = -(-count // _BLOCK)
    size = -(-count // blocks)
    padded = jnp.pad(rows, ((0, blocks * size - count), (0, 0))).reshape(blocks, size, -1)
    found = jax.lax.map(function, padded)
    return jax.tree.map(lambda leaf: leaf.reshape(blocks * size, *leaf.shape[2:])[:count], found)
