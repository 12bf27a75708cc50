"""The orders of a team's M units, `[M, …]` with batch axes last: decoded from the agents' actions, or by the script.

The scripted fighter shoots a target in range, or else walks towards one it sees, or else to the mirrored spawn. Its
rules are those of JaxMARL's `HeuristicEnemySMAX`. Against a copy of itself, it wins about half its battles.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxrl.envs.smax.dynamics import Bodies, Field, Orders, gather

__all__ = [
    "FIRST_ATTACK",
    "MIXTURES",
    "NUM_SCRIPT_DRAWS",
    "SCRIPTS",
    "Memory",
    "Script",
    "Sometimes",
    "TeamOrders",
    "TeamView",
    "action_names",
    "attack_action",
    "care",
    "continuous",
    "continuous_jaxmarl",
    "decide",
    "discrete",
    "join",
    "last_targets",
    "new_memory",
    "possible",
]

FIRST_ATTACK = 5  # actions: 0 up, 1 right, 2 down, 3 left, 4 stop, 5+k attack opponent k


class TeamOrders(NamedTuple):
    """The orders of the units of one team, `[M, …]`."""

    move_x: jax.Array
    move_y: jax.Array
    target: jax.Array  # index of the attacked opponent in its team, or -1
    patient: jax.Array | None = None  # index of the healed mate in its team, or -1; None without healers


def action_names(num_opponents: int, num_mates: int) -> tuple[str, ...]:
    """The names of the discrete actions; a healer heals mates by their number among the others of its team."""
    attacks, heals = ([f"{verb} {k}" for k in range(n)] for verb, n in (("attack", num_opponents), ("heal", num_mates)))
    return ("up", "right", "down", "left", "stop", *attacks, *heals)


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
    patient = None
    if allies.patient is not None and enemies.patient is not None:
        num_allies = len(allies.patient)
        theirs = jnp.where(enemies.patient >= 0, num_allies + enemies.patient, -1)
        patient = jnp.concatenate([allies.patient, theirs])
    return Orders(
        move_x=jnp.concatenate([allies.move_x, enemies.move_x]),
        move_y=jnp.concatenate([allies.move_y, enemies.move_y]),
        ally_target=allies.target,
        enemy_target=enemies.target,
        patient=patient,
    )


def possible(orders: TeamOrders, heals: jax.Array | None, allowed: jax.Array | None, num_opponents: int) -> TeamOrders:
    """The orders of a team without what its units cannot do.

    Targets beyond the opponents are mates, without the unit itself, and become orders to heal.

    Args:
        orders: As decoded, or of a script.
        heals: Who is a healer, bool `[M, …]`; None without healers.
        allowed: Who can shoot whom, bool `[M, J, …]`; None: everybody.
        num_opponents: J.
    """
    target, patient = orders.target, orders.patient
    if heals is not None:
        if patient is None:
            mate = target - num_opponents
            patient = mate + (mate >= _numbers(target)[0])
            patient = jnp.where(heals & (mate >= 0), patient, -1)
        target = jnp.where(heals | (target >= num_opponents), -1, target)
    if allowed is not None:
        target = jnp.where(_at(allowed, target), target, -1)
    return orders._replace(target=target, patient=patient)


def _numbers(like: jax.Array) -> np.ndarray:
    """The numbers of the units of `like[M, …]`: `[1, M, …]` with axes of length 1 for the batch."""
    return np.arange(len(like)).reshape(1, -1, *(1,) * (like.ndim - 1))


def attack_action(orders: Orders) -> jax.Array:
    """The attacks of all units as action numbers `[N, …]`, 0 for none.

    Enemies number the allies from the last to the first: the convention of JaxMARL's states and observations.
    """
    num_allies = orders.ally_target.shape[0]
    of_enemies = jnp.where(orders.enemy_target >= 0, num_allies - 1 - orders.enemy_target, -1)
    target = jnp.concatenate([orders.ally_target, of_enemies])
    if orders.patient is not None:
        numbers = _numbers(target)[0]
        is_enemy = numbers >= num_allies
        mate = orders.patient - (orders.patient > numbers) - np.where(is_enemy, num_allies, 0)
        opponents = np.where(is_enemy, num_allies, len(numbers) - num_allies)
        target = jnp.where(orders.patient >= 0, opponents + mate, target).astype(jnp.int32)
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
    script: jax.Array | None = None  # int32 […] the script that plays this episode; None without a choice


class Script(NamedTuple):
    """A row of numbers that says how a scripted unit fights; arrays `[R]` for R scripts, one of which is drawn.

    The defaults are those of JaxMARL's script.
    """

    random: Any = 0.0  # the share of its decisions that are any possible action
    kite: Any = 0.0  # it backs off from opponents of shorter reach that are nearer than this share of its own reach
    focus: Any = 0  # whom it shoots: 0 the nearest, and then the same one; 1 the weakest; 2 healers, then the weakest
    chase: Any = 0  # whom it chases: 0 anyone that it sees, 1 whom it would shoot
    retreat: Any = 0.0  # it backs off while its health is below this share


SCRIPTS = {
    "classic": Script(),
    "random": Script(random=1.0),
    "novice": Script(random=0.5, chase=1),
    "medium": Script(random=0.2, kite=0.3, chase=1),
    "advanced": Script(random=0.1, kite=0.5, focus=1, chase=1),
    "expert": Script(random=0.01, kite=0.7, focus=2, chase=1),
    # Never met in training by `mixed`.
    "coward": Script(random=0.05, focus=1, chase=1, retreat=0.4),
    "sniper": Script(random=0.05, kite=0.95, focus=2, chase=0),
    "brute": Script(random=0.05, focus=0, chase=1),
}
MIXTURES = {
    "mixed": ("classic", "novice", "medium", "advanced", "expert"),
    "held_out": ("coward", "sniper", "brute"),
}
NUM_SCRIPT_DRAWS = 2  # of a step: whether to act at random, and how


class Sometimes(NamedTuple):
    """The memory where the script plays some of the battles only."""

    memory: Memory
    plays: jax.Array  # bool […]


def new_memory(bodies: Bodies, field: Field) -> Memory:
    """The memory at the start of an episode, from the units' initial positions."""
    goal = jnp.stack([field.width - bodies.x, field.height - bodies.y], axis=1)
    return Memory(goal, jnp.full(bodies.x.shape, -1, jnp.int32))


class TeamView(NamedTuple):
    """What a team's scripts decide from: M units and their J opponents."""

    own: Bodies
    opponents: Bodies
    reach: jax.Array  # attack ranges, [M, …]
    sight: jax.Array  # [M, …]
    seen: jax.Array | None = None  # who is not hidden from whom, bool [M, J, …]; None: nobody is hidden
    can_hit: jax.Array | None = None  # who can hit whom, bool [M, J, …]; None: everybody
    # Only for scripts.
    their_reach: Any = None  # [J, …]
    max_health: Any = None  # [M, …]
    they_heal: jax.Array | None = None  # which opponents are healers, bool [J, …]; None: none


def decide(
    memory: Memory,
    view: TeamView,
    uniform: jax.Array,
    *,
    shoots: bool = True,
    attack_mode: str = "closest",
    script: Script | None = None,
    draws: jax.Array | None = None,
) -> tuple[jax.Array, jax.Array, Memory]:
    """The decision of each unit: `(move [M, …] action 0 … 4, target [M, …] opponent or -1, memory)`.

    Args:
        memory: The memory after the last step.
        view: The deciding units and their opponents.
        uniform: Two draws in [0, 1) per unit, `[2, M, …]`: whom to chase, whom to shoot.
        shoots: False for a harmless opponent that only walks.
        attack_mode: `"closest"` or `"random"`; a target is kept while it stays in range.
        script: The script that plays, scalars or `[…]`; None for JaxMARL's.
        draws: For a script, two more draws per unit, `[NUM_SCRIPT_DRAWS, M, …]`.
    """
    bodies, opponents = view.own, view.opponents
    dx = opponents.x[None] - bodies.x[:, None]
    dy = opponents.y[None] - bodies.y[:, None]
    square = dx * dx + dy * dy
    visible = (square < jnp.square(view.sight)[:, None]) & (opponents.health > 0)[None] & (bodies.health > 0)[:, None]
    if view.seen is not None:
        visible &= view.seen
    shootable = visible & (square < jnp.square(view.reach)[:, None])
    if view.can_hit is not None:
        shootable &= view.can_hit

    if attack_mode == "closest":
        choice = jnp.argmin(
            jnp.where(shootable, square if script is None else _worth(view, script, square), jnp.inf), 1
        )
    else:
        choice = _random_true(shootable, uniform[1])
    kept = _at(shootable, memory.target) & (memory.target >= 0)
    if script is not None:
        kept &= script.focus == 0
    target = jnp.where(kept, memory.target, jnp.where(shootable.any(1), choice, -1)).astype(jnp.int32)

    chased = _random_true(visible, uniform[0])
    if script is not None:
        best = jnp.argmin(jnp.where(visible, _worth(view, script, square), jnp.inf), axis=1)
        chased = jnp.where(script.chase == 0, chased, best)
    sees = visible.any(1)
    to_x = jnp.where(sees, _at(dx, chased), memory.goal[:, 0] - bodies.x)
    to_y = jnp.where(sees, _at(dy, chased), memory.goal[:, 1] - bodies.y)
    move = _towards(to_x, to_y)
    if script is not None and draws is not None:
        nearest = jnp.argmin(jnp.where(visible, square, jnp.inf), axis=1)
        backs_off = _backs_off(view, script, jnp.sqrt(_at(square, nearest)), _row(view.their_reach, nearest)) & sees
        move = jnp.where(backs_off, _towards(-_at(dx, nearest), -_at(dy, nearest)), move)
        target = jnp.where(backs_off, -1, target)
        move, target = _at_random(move, target, shootable, script, draws)
    return move, (target if shoots else jnp.full_like(target, -1)), memory._replace(target=target)


def _worth(view: TeamView, script: Script, square: jax.Array) -> jax.Array:
    """What a script shoots first has the least of: `[M, J, …]`."""
    health = jnp.broadcast_to(view.opponents.health[None], square.shape)
    weakest = health + 1e-4 * square  # of equally weak ones the nearest
    healers = weakest if view.they_heal is None else weakest - jnp.where(view.they_heal, 1e6, 0.0)[None]
    return jnp.where(script.focus == 0, square, jnp.where(script.focus == 1, weakest, healers))


def _backs_off(view: TeamView, script: Script, distance: jax.Array, their_reach: jax.Array) -> jax.Array:
    """Who walks away from the nearest opponent: the wounded, and who reloads and shoots farther: bool `[M, …]`."""
    kites = (distance < script.kite * view.reach) & (their_reach < view.reach) & (view.own.cooldown > 0.25)
    return kites | (view.own.health < script.retreat * view.max_health)


def _at_random(
    move: jax.Array, target: jax.Array, shootable: jax.Array, script: Script, draws: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """The decisions, some of them replaced by any possible action: a way to walk, to stop, or a target in range."""
    instead = draws[0] < script.random
    rank = jnp.floor(draws[1] * (FIRST_ATTACK + shootable.sum(1))).astype(jnp.int32)
    shot = _random_true(shootable, (rank - FIRST_ATTACK + 0.5) / jnp.maximum(shootable.sum(1), 1))
    attacks = rank >= FIRST_ATTACK
    move = jnp.where(instead, jnp.minimum(rank, FIRST_ATTACK - 1), move)
    return move, jnp.where(instead, jnp.where(attacks, shot, -1), target)


def care(healers: jax.Array, own: Bodies, max_health: jax.Array, orders: TeamOrders) -> TeamOrders:
    """The orders of a scripted team in which healers, bool `[M, …]`, look after the mate with the least health.

    While nobody is hurt they follow the nearest fighter. They get near, and heal all the way.
    """
    numbers = _numbers(own.x)
    dx, dy = own.x[None] - own.x[:, None], own.y[None] - own.y[:, None]
    square, part = dx * dx + dy * dy, own.health / max_health
    healers = jnp.broadcast_to(healers, part.shape)
    others = (own.health > 0)[None] & (numbers != numbers.swapaxes(0, 1))
    hurt = others & (part < 1.0)[None]
    worst = jnp.argmin(jnp.where(hurt, part[None], jnp.inf), axis=1)
    leader = jnp.argmin(jnp.where(others & ~healers[None], square, jnp.inf), axis=1)
    someone = hurt.any(1)
    goal = jnp.where(someone, worst, leader)
    far = _at(square, goal) > 1.0
    walk = discrete(jnp.where(far & (own.health > 0), _towards(_at(dx, goal), _at(dy, goal)), 4), 1)
    return TeamOrders(
        jnp.where(healers, walk.move_x, orders.move_x),
        jnp.where(healers, walk.move_y, orders.move_y),
        orders.target,
        jnp.where(healers & someone, worst, -1).astype(jnp.int32),
    )


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


def _row(values: jax.Array, index: jax.Array) -> jax.Array:
    """`values[index]` for `values[J, …]` and `index[M, …]`: `[M, …]`."""
    return _at(jnp.broadcast_to(values[None], (len(index), len(values), *index.shape[1:])), index)


def _at(values: jax.Array, index: jax.Array) -> jax.Array:
    """`values[e, index[e]]` for `values[E, A, …]` and `index[E, …]`: `[E, …]`."""
    out = values[:, 0]
    for a in range(1, values.shape[1]):
        out = jnp.where(index == a, values[:, a], out)
    return out
