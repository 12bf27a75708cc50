"""Grabbing and locking: which object is within reach, who holds it, and whose lock is on it.

Arrays are `[A, …]`, `[O, …]` or `[A, O, …]`, with any batch axes last.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxrl.envs.hide_and_seek.bodies import Agents, Objects, any_of
from jaxrl.envs.hide_and_seek.geometry import FAR, Rect, disc_out
from jaxrl.envs.hide_and_seek.world import HIDER, SEEKER, Cast, Params, State

__all__ = ["distances", "gripped", "holding", "let_go", "locking", "nearest", "use"]


def use(
    state: State, agents: Agents, objects: Objects, asks: jax.Array, acting: jax.Array, cast: Cast, params: Params
) -> tuple[State, jax.Array]:
    """Grab and lock as agents ask, bool `[A, 2, …]`, with what they saw: the state, and who holds what `[A, O, …]`."""
    rects = objects.rect(params)
    grabs, locks = asks[:, 0] & acting, asks[:, 1] & acting
    near = nearest(distances(agents.x, agents.y, rects), state.sight[:, cast.num_agents :], params)
    old = holding(state.held, cast.num_objects)
    attends = old | near & (state.held < 0)[:, None]
    locked_by = locking(state.locked_by, attends, locks, acting, cast.num_hiders)
    free = (state.locked_by < 0) & (locked_by < 0)  # what has just been opened can be taken in the next step
    holds = attends & grabs[:, None] & free
    new = any_of(jnp.moveaxis(holds & ~old, 1, 0))
    grip = jnp.where(new[:, None], gripped(agents.x, agents.y, agents.cos, agents.sin, rects, holds), state.grip)
    return dataclasses.replace(state, locked_by=locked_by, held=_number(holds), grip=grip), holds


def let_go(state: State, agents: Agents, objects: Objects, holds: jax.Array, params: Params) -> State:
    """The state without the grips that are stretched too far."""
    far = distances(agents.x, agents.y, objects.rect(params)) > params.grip_length * params.reach
    return dataclasses.replace(state, held=_number(holds & ~far))


def _number(holds: jax.Array) -> jax.Array:
    """The object that each agent holds, or -1: int32 `[A, …]`."""
    held = jnp.full_like(holds[:, 0], -1, jnp.int32)
    for o in range(holds.shape[1]):
        held = jnp.where(holds[:, o], o, held)
    return held


def distances(x: jax.Array, y: jax.Array, objects: Rect) -> jax.Array:
    """From the middle of each agent to the surface of each object, 0 inside: `[A, O, …]`."""
    return jnp.maximum(-disc_out(objects, x[:, None], y[:, None], 0.0)[2], 0.0)


def nearest(distance: jax.Array, seen: jax.Array, params: Params) -> jax.Array:
    """The object nearest to each agent among those that it sees and can reach, bool `[A, O, …]`, at most one each."""
    distance = jnp.where(seen & (distance <= params.reach), distance, FAR)
    closest, found = jnp.full_like(distance[:, 0], FAR), []
    for o in range(distance.shape[1]):  # the first of several that are equally near
        found.append(distance[:, o] < closest)
        closest = jnp.minimum(closest, distance[:, o])
    taken, chosen = jnp.zeros_like(found[0]), []
    for better in reversed(found):
        chosen.append(better & ~taken)
        taken = taken | better
    return jnp.stack(chosen[::-1], 1)


def holding(held: jax.Array, num_objects: int) -> jax.Array:
    """Who holds what, bool `[A, O, …]`, from `held[A, …]`."""
    number = np.arange(num_objects).reshape(num_objects, *(1,) * (held.ndim - 1))
    return held[:, None] == number


def gripped(x: Any, y: Any, cos: Any, sin: Any, objects: Rect, holds: jax.Array) -> jax.Array:
    """The place and heading of what each agent holds, as seen from it: `[A, 4, …]`, zeros without an object."""
    dx, dy = objects.x - x[:, None], objects.y - y[:, None]
    c, s = cos[:, None], sin[:, None]
    parts = (
        c * dx + s * dy,
        c * dy - s * dx,
        c * objects.cos + s * objects.sin,
        c * objects.sin - s * objects.cos,
    )
    kept = [jnp.moveaxis(jnp.where(holds, part, 0.0), 1, 0).sum(0) for part in parts]
    return jnp.stack(kept, 1)


def locking(locked_by: jax.Array, attends: jax.Array, asks: jax.Array, acting: jax.Array, num_hiders: int) -> jax.Array:
    """The owner of each object's lock after this step, int32 `[O, …]`.

    A team locks a free object if all of its agents that attend to the object ask for it, and opens its own lock if none
    of them does. Where both teams would lock it, neither does; the other team's lock cannot be opened.

    Args:
        locked_by: The owner before, -1 for none.
        attends: Which object each agent holds, or else could reach, bool `[A, O, …]`.
        asks: Who asks for locks, bool `[A, …]`.
        acting: Who can act at all, bool `[A, …]`.
        num_hiders: The first agents are hiders.
    """
    attends = attends & acting[:, None]
    locks, opens = [], []
    for team in (slice(0, num_hiders), slice(num_hiders, None)):
        present, dissent = any_of(attends[team]), any_of(attends[team] & ~asks[team, None])
        assent = any_of(attends[team] & asks[team, None])
        locks.append(present & ~dissent)
        opens.append(present & ~assent)
    free = locked_by < 0
    owner = jnp.where(free & locks[HIDER] & ~locks[SEEKER], HIDER, locked_by)
    owner = jnp.where(free & locks[SEEKER] & ~locks[HIDER], SEEKER, owner)
    opened = (locked_by == HIDER) & opens[HIDER] | (locked_by == SEEKER) & opens[SEEKER]
    return jnp.where(opened, -1, owner).astype(jnp.int32)
