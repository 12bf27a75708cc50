"""Converts the agents' actions to orders. Arrays are `[M, …]` for the M units of one team."""

from __future__ import annotations

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp

from jaxrl.envs.smax.dynamics import Bodies, Orders, gather

__all__ = [
    "FIRST_ATTACK",
    "TeamOrders",
    "action_names",
    "attack_action",
    "continuous",
    "continuous_jaxmarl",
    "discrete",
    "join",
    "last_targets",
]

FIRST_ATTACK = 5  # actions: 0 up, 1 right, 2 down, 3 left, 4 stop, 5+k attack opponent k


class TeamOrders(NamedTuple):
    """The orders of the units of one team, `[M, …]`."""

    move_x: jax.Array
    move_y: jax.Array
    target: jax.Array  # index of the attacked opponent in its team, or -1


def action_names(num_opponents: int) -> tuple[str, ...]:
    """What the discrete actions are called."""
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
