"""Seaquest: a submarine shoots, saves divers and needs air (rules of Young and Tian 2019,
https://arxiv.org/abs/1903.03176).
"""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxrl.envs.minatar.game import (
    COLUMNS,
    DOWN,
    FIRE,
    LEFT,
    NOOP,
    RIGHT,
    UP,
    RampedGame,
    RampParams,
    cell,
    moved_x,
    moved_y,
    zeros,
)
from jaxrl.envs.minatar.things import Things, moved, nothing, put, rows

__all__ = ["Board", "Seaquest"]

_MAX_OXYGEN, _MAX_DIVERS = 200, 6
_RELOAD, _ENEMY_RELOAD = 5, 10
_SPAWN_INTERVAL, _MOVE_INTERVAL, _SHORTEST_MOVE_INTERVAL = 20, 5, 2  # of enemies
_DIVER_SPAWN_INTERVAL, _DIVER_MOVE_INTERVAL = 30, 5

# Places for what may be there at once. Where it is hardest, an enemy appears at every step and is gone 29 steps later;
# a bullet leaves every 5 steps and is gone 9 steps later, a diver comes every 30 steps and is gone 59 steps later.
_ENEMIES, _BULLETS, _DIVERS = 32, 2, 2


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Board:
    """Scalars, and what is in the water."""

    x: jax.Array
    """The player's column: that of the submarine's front."""
    y: jax.Array
    right: jax.Array
    """True if the submarine looks to the right."""
    oxygen: jax.Array
    """Steps it lasts."""
    saved: jax.Array
    """Divers on board. After the bonus for six it is -1, as in the package."""
    at_surface: jax.Array
    """True if the submarine has been at the surface since the step before."""
    bullets: Things
    """The player's, `[2]`."""
    divers: Things
    """`[2]`, the younger first."""
    diver_timers: jax.Array
    """`[2]`: steps until each diver moves."""
    enemies: Things
    """Fish and submarines, `[32]`. Each takes the place after the last one's, and after the 32nd the first."""
    armed: jax.Array
    """Bool `[32]`: whether an enemy is a submarine, which shoots, or a fish."""
    move_timers: jax.Array
    """`[32]`: steps until each enemy moves."""
    shot_timers: jax.Array
    """`[32]`: steps until each enemy shoots, if it is armed."""
    next_place: jax.Array
    """Where the next enemy goes in these arrays."""
    shots_left: jax.Array
    """`[10]`: enemies' bullets that fly to the left, a whole number for each row whose bit c stands for column c."""
    shots_right: jax.Array
    """`[10]`: those that fly to the right."""
    spawn_timer: jax.Array
    """Steps until an enemy appears."""
    spawn_interval: jax.Array
    move_interval: jax.Array
    """Steps an enemy waits between two moves."""
    diver_spawn_timer: jax.Array
    shot_timer: jax.Array
    """Steps until the player can fire."""
    level: jax.Array
    """The number of times that it got harder."""


class Seaquest(RampedGame):
    """A submarine shoots fish and submarines and saves divers. Equal to MinAtar's Seaquest.

    Observation bool `[10, 10, 10]`: front and back of the submarine, its bullets, trails (where fish, submarines and
    divers come from), enemies' bullets, fish, enemy submarines, oxygen and saved divers (in the bottom row), divers.
    Action Discrete(6): nothing, left, up, right, down, fire.
    Reward: 1 for each enemy; for coming up with six divers up to 10, as much as is left of the oxygen. Coming up with
    fewer costs one diver, and each time it gets harder. Terminated when an enemy or a bullet hits the submarine, when
    it has no oxygen left, or when it comes up without a diver.
    """

    channels = (
        *("front", "back", "bullet", "trail", "enemy's bullet"),
        *("fish", "submarine", "oxygen", "saved divers", "diver"),
    )
    minimal_actions = (NOOP, LEFT, UP, RIGHT, DOWN, FIRE)
    step_draws = 5
    intended = ("same_start",)

    def start(self, draws: jax.Array) -> Board:
        number = jnp.int32
        return Board(
            x=number(5),
            y=number(0),
            right=zeros(dtype=bool),
            oxygen=number(_MAX_OXYGEN),
            saved=number(0),
            at_surface=jnp.ones((), bool),
            bullets=nothing(_BULLETS),
            divers=nothing(_DIVERS),
            diver_timers=zeros(_DIVERS),
            enemies=nothing(_ENEMIES),
            armed=zeros(_ENEMIES, dtype=bool),
            move_timers=zeros(_ENEMIES),
            shot_timers=zeros(_ENEMIES),
            next_place=number(0),
            shots_left=zeros(10),
            shots_right=zeros(10),
            spawn_timer=number(_SPAWN_INTERVAL),
            spawn_interval=number(_SPAWN_INTERVAL),
            move_interval=number(_MOVE_INTERVAL),
            diver_spawn_timer=number(_DIVER_SPAWN_INTERVAL),
            shot_timer=number(0),
            level=number(0),
        )

    def play(
        self, board: Board, action: jax.Array, draws: jax.Array, params: RampParams
    ) -> tuple[Board, jax.Array, jax.Array]:
        board = _act(_spawn_diver(_spawn_enemy(board, draws[:3]), draws[3:]), action)
        board, hits = _fly(board)
        board, later_hits, rammed = _move_enemies(_move_divers(board))
        board, shot = _fly_shots(board)
        out_of_air = board.oxygen <= 0
        board, bonus, drowned = _breathe(board, params)
        board = dataclasses.replace(
            board,
            spawn_timer=board.spawn_timer - 1,
            diver_spawn_timer=board.diver_spawn_timer - 1,
            shot_timer=jnp.maximum(board.shot_timer - 1, 0),
        )
        return board, hits + later_hits + bonus, rammed | shot | out_of_air | drowned

    def planes(self, board: Board) -> tuple[jax.Array, ...]:
        enemies, divers, bullets = board.enemies, board.divers, board.bullets
        trails = rows(enemies, enemies.there, behind=True) | rows(divers, divers.there, behind=True)
        bar = (1 << (jnp.maximum(board.oxygen, 0) * 10 // _MAX_OXYGEN)) - 1
        saved = jnp.maximum(board.saved, 0)
        return (
            cell(board.y, board.x),
            cell(board.y, board.x + jnp.where(board.right, -1, 1)),
            rows(bullets, bullets.there),
            trails,
            board.shots_left | board.shots_right,
            rows(enemies, enemies.there & ~board.armed),
            rows(enemies, enemies.there & board.armed),
            jnp.where(COLUMNS == 9, bar, 0),
            jnp.where(COLUMNS == 9, ((1 << saved) - 1) << (9 - saved), 0),
            rows(divers, divers.there),
        )

    def fact(self, boards: Any) -> Any:
        pairs = zip(np.asarray(boards.oxygen).tolist(), np.asarray(boards.saved).tolist(), strict=True)
        return np.array([f"oxygen {max(oxygen, 0)}, divers {max(saved, 0)}" for oxygen, saved in pairs])


def _spawn_enemy(board: Board, draws: jax.Array) -> Board:
    """If it is time, an enemy appears, unless its row has one from the other side. `draws[3]`: side, kind, row."""
    enemies, due = board.enemies, board.spawn_timer == 0
    right, y = draws[0] < 0.5, _row(draws[2])
    appears = due & ~jnp.any(enemies.there & (enemies.y == y) & (enemies.right != right))
    here = appears & (jnp.arange(_ENEMIES) == board.next_place)
    return dataclasses.replace(
        board,
        enemies=put(enemies, here, jnp.where(right, 0, 9), y, right),
        armed=jnp.where(here, draws[1] < 1 / 3, board.armed),
        move_timers=jnp.where(here, board.move_interval, board.move_timers),
        shot_timers=jnp.where(here, _ENEMY_RELOAD, board.shot_timers),
        next_place=(board.next_place + appears) % _ENEMIES,
        spawn_timer=jnp.where(due, board.spawn_interval, board.spawn_timer),
    )


def _spawn_diver(board: Board, draws: jax.Array) -> Board:
    """If it is time, a diver appears. `draws[2]`: the side, the row."""
    due, right = board.diver_spawn_timer == 0, draws[0] < 0.5
    first = np.arange(_DIVERS) == 0
    older = jax.tree.map(lambda leaf: jnp.where(due, leaf[0], leaf), board.divers)  # moves up
    timers = jnp.where(first, _DIVER_MOVE_INTERVAL, board.diver_timers[0])
    return dataclasses.replace(
        board,
        divers=put(older, due & first, jnp.where(right, 0, 9), _row(draws[1]), right),
        diver_timers=jnp.where(due, timers, board.diver_timers),
        diver_spawn_timer=jnp.where(due, _DIVER_SPAWN_INTERVAL, board.diver_spawn_timer),
    )


def _act(board: Board, action: jax.Array) -> Board:
    """The player moves or fires."""
    fires = (action == FIRE) & (board.shot_timer == 0)
    free = ~board.bullets.there
    here = fires & free & (jnp.cumsum(free) == 1)
    return dataclasses.replace(
        board,
        x=moved_x(board.x, action),
        y=moved_y(board.y, action, 0, 8),
        right=(board.right | (action == RIGHT)) & (action != LEFT),
        bullets=put(board.bullets, here, board.x, board.y, board.right),
        shot_timer=jnp.where(fires, _RELOAD, board.shot_timer),
    )


def _fly(board: Board) -> tuple[Board, jax.Array]:
    """The player's bullets fly; each hits the oldest fish in its cell, or else the oldest submarine: `board, hits`."""
    board = dataclasses.replace(board, bullets=moved(board.bullets, jnp.array(True)))
    return _hit(board, board.enemies.there, _age(board) + jnp.where(board.armed, 0, _ENEMIES))


def _move_divers(board: Board) -> Board:
    """Divers swim, and come on board where they meet the player, as long as there is room."""
    divers, saved, comes = board.divers, board.saved, []
    moves = board.diver_timers == 0
    after = moved(divers, moves)
    reached = divers.there & (divers.y == board.y) & ((divers.x == board.x) | (after.x == board.x))
    for i in range(_DIVERS):  # the younger one first, which matters if there is room for one
        comes.append(reached[i] & (saved < _MAX_DIVERS))
        saved = saved + comes[i]
    return dataclasses.replace(
        board,
        divers=dataclasses.replace(after, there=after.there & ~jnp.stack(comes)),
        diver_timers=jnp.where(moves, _DIVER_MOVE_INTERVAL, board.diver_timers - 1),
        saved=saved,
    )


def _move_enemies(board: Board) -> tuple[Board, jax.Array, jax.Array]:
    """Enemies move, perhaps into bullets, and submarines shoot, even those that are hit: board, hits, player rammed."""
    enemies, moves, shoots = board.enemies, board.move_timers == 0, board.shot_timers == 0
    after = moved(enemies, moves)
    in_row = enemies.there & (enemies.y == board.y)
    met = in_row & (after.x == board.x)
    rammed = jnp.any(met | (in_row & (enemies.x == board.x)))
    shooting = after.there & board.armed & shoots
    board = dataclasses.replace(
        board,
        enemies=after,
        move_timers=jnp.where(moves, board.move_interval, board.move_timers - 1),
        shot_timers=jnp.where(shoots, _ENEMY_RELOAD, board.shot_timers - 1),
        shots_left=board.shots_left | rows(after, shooting & ~after.right),
        shots_right=board.shots_right | rows(after, shooting & after.right),
    )
    # The youngest submarine in a bullet's cell is hit, or else the youngest fish.
    board, hits = _hit(board, after.there & moves & ~met, jnp.where(board.armed, 2, 1) * _ENEMIES - _age(board))
    return board, hits, rammed


def _fly_shots(board: Board) -> tuple[Board, jax.Array]:
    """The enemies' bullets fly; whether one hits the player, before or after it has moved."""
    left, right = board.shots_left >> 1, (board.shots_right << 1) & 1023
    hit = jnp.any((board.shots_left | board.shots_right | left | right) & cell(board.y, board.x) != 0)
    return dataclasses.replace(board, shots_left=left, shots_right=right), hit


def _breathe(board: Board, params: RampParams) -> tuple[Board, jax.Array, jax.Array]:
    """Under water oxygen gets less; coming up costs a diver, and it gets harder: board, bonus, drowned."""
    under = board.y > 0
    comes_up = ~under & ~board.at_surface
    drowned = comes_up & (board.saved == 0)
    surfaces = comes_up & ~drowned
    full = surfaces & (board.saved == _MAX_DIVERS)
    can_speed_up = board.move_interval > _SHORTEST_MOVE_INTERVAL
    harder = surfaces & params.difficulty_ramping & ((board.spawn_interval > 1) | can_speed_up)
    after = dataclasses.replace(
        board,
        oxygen=jnp.where(surfaces, _MAX_OXYGEN, board.oxygen - under),
        at_surface=~under & (board.at_surface | surfaces),
        saved=jnp.where(full, 0, board.saved) - surfaces,
        spawn_interval=board.spawn_interval - (harder & (board.spawn_interval > 1)),
        move_interval=board.move_interval - (harder & can_speed_up & (board.level % 2 == 1)),
        level=board.level + harder,
    )
    return after, jnp.where(full, board.oxygen * 10 // _MAX_OXYGEN, 0), drowned


def _hit(board: Board, candidates: jax.Array, rank: jax.Array) -> tuple[Board, jax.Array]:
    """Each bullet and the enemy of the highest rank in its cell destroy each other: the board, the number of hits.

    `candidates` (bool `[32]`) can be hit; `rank[32]` has 32 different numbers from 0 on.
    """
    bullets, enemies = board.bullets, board.enemies
    same_cell = (bullets.x[:, None] == enemies.x) & (bullets.y[:, None] == enemies.y)  # [2, 32]
    ranks = jnp.where(bullets.there[:, None] & candidates & same_cell, rank, -1)
    best = ranks.max(axis=1, keepdims=True)
    hits, hit = best[:, 0] >= 0, jnp.any((ranks == best) & (best >= 0), axis=0)
    bullets = dataclasses.replace(bullets, there=bullets.there & ~hits)
    enemies = dataclasses.replace(enemies, there=enemies.there & ~hit)
    return dataclasses.replace(board, bullets=bullets, enemies=enemies), hits.sum()


def _age(board: Board) -> jax.Array:
    """The order of the enemies, `[32]`: 0 for the one that appeared last."""
    return (board.next_place - 1 - jnp.arange(_ENEMIES)) % _ENEMIES


def _row(draw: jax.Array) -> jax.Array:
    """One of the rows 1 to 8."""
    return 1 + jnp.floor(8 * draw).astype(jnp.int32)
