"""How near entities are to each other, as numbers that a network of entities can add up.

An entity's own features say where it is as the agent sees it, and sums over embeddings do not say who is next to whom:
whether an enemy has a team-mate nearer than the agent, say, at which it will shoot. Here is what follows from the
distances between all pairs: who is nearest, and how many are within reach. It takes no parameters.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxrl.entities import Entities, present

__all__ = ["Relations", "relations"]

_FAR = np.float32(2.0)
_TINY = 1e-12  # below the square of any distance, so that the square root has a slope everywhere


class Relations(NamedTuple):
    """What is around the agent and around each entity, for K kinds with places and R reaches.

    What is about the agent, in brackets, is left out where places are not relative to one.
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

    Only the agent and entities of different kinds are told about: who is next to their own kind made learning slower
    (`baselines/history.md`). Distances are in the units of places, and at most 2, which is what they are where nobody
    is. Being within a reach ends gradually, between three and five quarters of it. Numbers of a kind are divided by the
    square root of how many there are at most, like other sums over entities. All is 0 for absent entities.

    Args:
        entities: What observations are made of; groups without places are left out.
        obs: The observations.
    """
    reaches, groups = entities.reaches, {group.kind: group for group in entities.placed}
    rows = {kind: group.rows(obs) for kind, group in groups.items()}
    place = {kind: rows[kind][..., list(group.place)] for kind, group in groups.items()}
    there = {kind: present(row) for kind, row in rows.items()}
    scale = {kind: np.float32(group.count**-0.5) for kind, group in groups.items()}
    agent, around = [], {}
    for kind in groups:
        own, seen = _distance(place[kind], there[kind]), []
        if entities.relative:
            agent += [*(each * scale[kind] for each in _within(own, reaches)), own.min(axis=-1)]
            seen += [*_within(own[..., None], reaches), own]
        for other in [name for name in groups if name != kind]:
            both = there[kind][..., :, None] & there[other][..., None, :]
            distance = _distance(place[kind][..., :, None, :] - place[other][..., None, :, :], both)
            nearest = distance.min(axis=-1)
            seen += [*(each * scale[other] for each in _within(distance, reaches)), nearest]
            if entities.relative:
                agent_first = own < nearest
                seen.append(agent_first.astype(nearest.dtype))
                agent.append(agent_first.sum(axis=-1) * scale[kind])
            first = (distance <= distance.min(axis=-2, keepdims=True)) & (distance < _FAR)
            seen.append(first.sum(axis=-1) * scale[other])
        if seen:
            around[kind] = jnp.stack(seen, axis=-1) * there[kind][..., None]
    return Relations(jnp.stack(agent, axis=-1) if agent else jnp.zeros((*obs.shape[:-1], 0)), around)


def _distance(offset: jax.Array, valid: jax.Array) -> jax.Array:
    """`offset[..., X]` as distances `[...]`; far where it is of something that is not there."""
    distance = jnp.sqrt(jnp.maximum(jnp.square(offset).sum(axis=-1), _TINY))
    return jnp.where(valid, jnp.minimum(distance, _FAR), _FAR)


def _within(distance: jax.Array, reaches: tuple[float, ...]) -> list[jax.Array]:
    """For each reach, how many of `distance[..., J]` are within it, `[...]`."""
    return [jnp.clip(2.5 - distance * np.float32(2 / reach), 0.0, 1.0).sum(axis=-1) for reach in reaches]
