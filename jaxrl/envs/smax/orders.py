"""The orders of a team's M units, `[M, …]` with batch axes last: decoded from the agents' actions, or by the script.

The scripted fighter shoots a target in range, or else walks towards one it sees, or else to the mirrored spawn. Its
rules are those of JaxMARL's `HeuristicEnemySMAX`. Against a copy of itself, it wins about half its battles.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp

from jaxrl.envs.smax.dynamics import Bodies, Field, Orders, gather

__all__ = [
    "FIRST_ATTACK",
    "Memory",
    "Sometimes",
    "TeamOrders",
    "action_names",
    "attack_action",
    "continuous",
    "continuous_jaxmarl",
    "decide",
    "discrete",
    "join",
    "last_targets",
    "new_memory",
]

FIRST_ATTACK = 5  # actions: 0 up, 1 right, 2 down, 3 left, 4 stop, 5+k attack opponent k


class TeamOrders(NamedTuple):
    """The orders of the units of one team, `[M, …]`."""

    move_x: jax.Array
    move_y: jax.Array
    target: jax.Array  # index of the attacked opponent in its team, or -1


def action_names(num_opponents: int) -> tuple[str, ...]:
    """The names of the discrete actions."""
    return ("up", "right", "down", "left", "stop", *(f"attack {number}" for number in range(num_opponents)))


def discrete(action: jax.Array, num_opponents: int) -> TeamOrders:
    """Orders from actions `[M, …]` (0 up, 1 right, 2 down, 3 left, 4 stop, 5+k attack opponent k).

    Actions outside are clipped; NaN counts as 0.
    """
    if jnp.issubdtype(action.dtype, jnp.floating):
        action = jnp.where(jnp.isnan(action), 0, action)
    action = jnp.clip(action, 0, FIRST_ATTACK + num_opponents - 1).astype(jnp.int32)
    return TeamOrders(
        move_x=(action == 1).astype(jnp.float32) - (action == 3),
        move_y=(action == 0).astype(jnp.float32) - (action == 2),
        target=jnp.maximum(action - FIRST_ATTACK, -1),
    )


def continuous(
    action: jax.Array, own: Bodies, opponents: Bodies, reach: jax.Array, last_target: jax.Array
) -> TeamOrders:
    """Orders from actions `[M, 4, …]` in 0 … 1: (keep target, shoot, radius r, angle / 2 pi). Nothing is random here.

    `shoot > 0.5` shoots; otherwise, the unit walks in the direction of the angle at the fraction r of its speed. A shot
    is aimed at the living opponent nearest to the point r times the attack range away in that direction or, with
    `keep target > 0.5`, at the last target while it is alive.
    """
    keep, shoot, radius, angle = action[:, 0], action[:, 1], action[:, 2], action[:, 3]
    x, y = _polar(radius, angle)
    nearest, alive = _nearest(own, opponents, x * reach, y * reach, only_living=True)
    last_lives = gather(opponents.health, last_target) > 0
    target = jnp.where((keep > 0.5) & last_lives, last_target, jnp.where(alive, nearest, -1))
    return _walk_or_shoot(x, y, shoot > 0.5, target)


def continuous_jaxmarl(
    action: jax.Array, own: Bodies, opponents: Bodies, last_target: jax.Array, uniform: jax.Array
) -> TeamOrders:
    """JaxMARL 0.2's interpretation of actions `[M, 4, …]`, from draws `uniform[2, M, …]`.

    A unit shoots with probability `1 - shoot` and keeps its target (even none) with probability `1 - keep target`;
    it aims at the opponent, dead or alive, nearest to a point at most one map unit away.
    """
    x, y = _polar(action[:, 2], action[:, 3])
    nearest, _ = _nearest(own, opponents, x, y, only_living=False)
    target = jnp.where(uniform[1] >= action[:, 0], last_target, nearest)
    return _walk_or_shoot(x, y, uniform[0] >= action[:, 1], target)


def join(allies: TeamOrders, enemies: TeamOrders) -> Orders:
    """The orders of both teams, `[N, …]`."""
    return Orders(
        move_x=jnp.concatenate([allies.move_x, enemies.move_x]),
        move_y=jnp.concatenate([allies.move_y, enemies.move_y]),
        ally_target=allies.target,
        enemy_target=enemies.target,
    )


def attack_action(orders: Orders) -> jax.Array:
    """The attacks of all units as action numbers `[N, …]`, 0 for none.

    Enemies number the allies from the last to the first: the convention of JaxMARL's states and observations.
    """
    num_allies = orders.ally_target.shape[0]
    of_enemies = jnp.where(orders.enemy_target >= 0, num_allies - 1 - orders.enemy_target, -1)
    target = jnp.concatenate([orders.ally_target, of_enemies])
    return jnp.where(target >= 0, FIRST_ATTACK + target, 0)


def last_targets(attack: jax.Array, num_allies: int) -> tuple[jax.Array, jax.Array]:
    """The targets of the attacks `[N, …]` of `attack_action`, as indices or -1: `([A, …], [E, …])`."""
    target = jnp.maximum(attack - FIRST_ATTACK, -1)
    of_enemies = target[num_allies:]
    return target[:num_allies], jnp.where(of_enemies >= 0, num_allies - 1 - of_enemies, -1)


def _polar(radius: jax.Array, turns: jax.Array) -> tuple[jax.Array, jax.Array]:
    return radius * jnp.cos(2 * math.pi * turns), radius * jnp.sin(2 * math.pi * turns)


def _nearest(
    own: Bodies, opponents: Bodies, x: jax.Array, y: jax.Array, *, only_living: bool
) -> tuple[jax.Array, jax.Array]:
    """The opponent nearest to the point (x, y) away from each unit, and whether there is one: `[M, …]` each."""
    dx = opponents.x[None] - (own.x + x)[:, None]
    dy = opponents.y[None] - (own.y + y)[:, None]
    square = dx * dx + dy * dy
    if only_living:
        square = jnp.where(opponents.health[None] > 0, square, jnp.inf)
    return jnp.argmin(square, axis=1).astype(jnp.int32), jnp.isfinite(square).any(1)


def _walk_or_shoot(x: jax.Array, y: jax.Array, shoots: jax.Array, target: jax.Array) -> TeamOrders:
    return TeamOrders(jnp.where(shoots, 0.0, x), jnp.where(shoots, 0.0, y), jnp.where(shoots, target, -1))


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
