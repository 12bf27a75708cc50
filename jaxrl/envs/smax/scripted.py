"""The scripted fighter: shoots a target in range, or else walks towards one it sees, or else to the mirrored spawn.

Its rules are those of JaxMARL's `HeuristicEnemySMAX`. Against a copy of itself, it wins about half its battles.
Arrays are `[E, …]` with batch axes last, as in `dynamics`.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

from jaxrl.envs.smax.dynamics import Bodies, Field

__all__ = ["Memory", "Sometimes", "decide", "new_memory"]


class Memory(NamedTuple):
    """The memory of each scripted unit within an episode."""

    goal: jax.Array  # [E, 2, …] where it walks while it sees no one: its first place, rotated about the map's centre
    target: jax.Array  # [E, …] the last opponent it shot at, or -1


class Sometimes(NamedTuple):
    """The memory where the script plays some of the battles only."""

    memory: Memory
    plays: jax.Array  # bool […]


def new_memory(bodies: Bodies, field: Field) -> Memory:
    """The memory at the start of an episode, from the units' initial positions."""
    goal = jnp.stack([field.width - bodies.x, field.height - bodies.y], axis=1)
    return Memory(goal, jnp.full(bodies.x.shape, -1, jnp.int32))


def decide(
    memory: Memory,
    bodies: Bodies,
    opponents: Bodies,
    reach: jax.Array,
    sight: jax.Array,
    uniform: jax.Array,
    *,
    shoots: bool = True,
    attack_mode: str = "closest",
) -> tuple[jax.Array, jax.Array, Memory]:
    """The decision of each unit: `(move [E, …] action 0 … 3, target [E, …] opponent or -1, memory)`.

    Args:
        memory: The memory after the last step.
        bodies: The deciding units, `[E, …]`.
        opponents: Their opponents, `[A, …]`.
        reach: Attack ranges, `[E, …]`.
        sight: Sight ranges, `[E, …]`.
        uniform: Two draws in [0, 1) per unit, `[2, E, …]`: whom to chase, whom to shoot.
        shoots: False for a harmless opponent that only walks.
        attack_mode: `"closest"` or `"random"`; a target is kept while it stays in range.
    """
    dx = opponents.x[None] - bodies.x[:, None]
    dy = opponents.y[None] - bodies.y[:, None]
    square = dx * dx + dy * dy
    visible = (square < jnp.square(sight)[:, None]) & (opponents.health > 0)[None] & (bodies.health > 0)[:, None]
    shootable = visible & (square < jnp.square(reach)[:, None])

    if attack_mode == "closest":
        choice = jnp.argmin(jnp.where(shootable, square, jnp.inf), axis=1)
    else:
        choice = _random_true(shootable, uniform[1])
    kept = _at(shootable, memory.target) & (memory.target >= 0)
    target = jnp.where(kept, memory.target, jnp.where(shootable.any(1), choice, -1)).astype(jnp.int32)

    chased = _random_true(visible, uniform[0])
    sees = visible.any(1)
    to_x = jnp.where(sees, _at(dx, chased), memory.goal[:, 0] - bodies.x)
    to_y = jnp.where(sees, _at(dy, chased), memory.goal[:, 1] - bodies.y)
    move = _towards(to_x, to_y)
    return move, (target if shoots else jnp.full_like(target, -1)), memory._replace(target=target)


def _towards(to_x: jax.Array, to_y: jax.Array) -> jax.Array:
    """The axis direction nearest to a vector: 0 up, 1 right, 2 down, 3 left; ties go to the lowest."""
    horizontal, vertical = jnp.abs(to_x), jnp.abs(to_y)
    along_y = jnp.where(to_y >= 0, 0, 2)
    along_x = jnp.where(to_x >= 0, 1, 3)
    tie = jnp.minimum(along_x, along_y)
    return jnp.where(vertical > horizontal, along_y, jnp.where(horizontal > vertical, along_x, tie))


def _random_true(mask: jax.Array, uniform: jax.Array) -> jax.Array:
    """The index of a uniformly drawn True of `mask[E, A, …]`, from `uniform[E, …]` in [0, 1): `[E, …]`."""
    rows = [mask[:, a] for a in range(mask.shape[1])]
    rank = jnp.floor(uniform * sum(row.astype(jnp.int32) for row in rows)).astype(jnp.int32)
    chosen, before = jnp.zeros(uniform.shape, jnp.int32), jnp.zeros(uniform.shape, jnp.int32)
    for a, row in enumerate(rows):  # written out, it becomes one kernel
        chosen = jnp.where(row & (before == rank), a, chosen)
        before += row
    return chosen


def _at(values: jax.Array, index: jax.Array) -> jax.Array:
    """`values[e, index[e]]` for `values[E, A, …]` and `index[E, …]`: `[E, …]`."""
    out = values[:, 0]
    for a in range(1, values.shape[1]):
        out = jnp.where(index == a, values[:, a], out)
    return out
