"""Space Invaders: a cannon and four rows of aliens (rules of Young and Tian 2019, https://arxiv.org/abs/1903.03176)."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxrl.envs.minatar.game import (
    COLUMNS,
    FIRE,
    LEFT,
    NOOP,
    RIGHT,
    RampedGame,
    RampParams,
    cell,
    moved_x,
    zeros,
)

__all__ = ["Board", "SpaceInvaders"]

_RELOAD = 5
_ALIEN_SHOT_INTERVAL = 10
_MOVE_INTERVAL, _SHORTEST_INTERVAL = 12, 6  # of the aliens, at the start and after many waves


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Board:
    """Scalars, and what is in each row of cells: a whole number whose bit c stands for column c."""

    cannon: jax.Array
    """The cannon's column; it is in the bottom row."""
    aliens: jax.Array
    """`[10]`."""
    right: jax.Array
    """True if the aliens move to the right; otherwise to the left."""
    bullets: jax.Array
    """`[10]`: the cannon's, which fly up."""
    alien_bullets: jax.Array
    """`[10]`: those that fly down."""
    move_timer: jax.Array
    """Steps until the aliens move."""
    move_interval: jax.Array
    """The most steps between two of their moves; there are no more than aliens."""
    alien_shot_timer: jax.Array
    """Steps until an alien fires."""
    shot_timer: jax.Array
    """Steps until the cannon can fire."""
    level: jax.Array
    """The number of times that it got harder."""


class SpaceInvaders(RampedGame):
    """A cannon shoots the aliens that come down on it, and they shoot back. Equal to MinAtar's Space Invaders.

    Observation bool `[10, 10, 6]`: cannon, aliens, aliens if they move to the left, aliens if they move to the right,
    own bullets, the aliens' bullets.
    Action Discrete(4): nothing, left, right, fire.
    Reward: 1 for each alien; the next wave comes when none is left. Terminated when a bullet or an alien hits the
    cannon, or the aliens turn in the bottom row.
    """

    channels = ("cannon", "alien", "alien to the left", "alien to the right", "bullet", "alien's bullet")
    minimal_actions = (NOOP, LEFT, RIGHT, FIRE)
    intended = ("same_start",)

    def start(self, draws: jax.Array) -> Board:
        number = jnp.int32
        return Board(
            cannon=number(5),
            aliens=jnp.asarray(_wave()),
            right=zeros(dtype=bool),
            bullets=zeros(10),
            alien_bullets=zeros(10),
            move_timer=number(_MOVE_INTERVAL),
            move_interval=number(_MOVE_INTERVAL),
            alien_shot_timer=number(_ALIEN_SHOT_INTERVAL),
            shot_timer=number(0),
            level=number(0),
        )

    def play(
        self, board: Board, action: jax.Array, draws: jax.Array, params: RampParams
    ) -> tuple[Board, jax.Array, jax.Array]:
        fires = (action == FIRE) & (board.shot_timer == 0)
        bullets = _up(board.bullets) | cell(8, board.cannon, fires)  # a new one leaves the cannon at once
        cannon = moved_x(board.cannon, action)
        alien_bullets = _down(board.alien_bullets)
        lost = _has(alien_bullets[9] | board.aliens[9], cannon)

        aliens, right, move_timer, invaded = _move_aliens(board)
        lost = lost | invaded | _has(aliens[9], cannon)
        shoots = board.alien_shot_timer == 0
        alien_bullets = alien_bullets | cell(*_nearest_alien(aliens, cannon), shoots)

        killed = aliens & bullets
        aliens = aliens & ~killed
        cleared = ~jnp.any(aliens != 0)
        harder = cleared & params.difficulty_ramping & (board.move_interval > _SHORTEST_INTERVAL)
        after = Board(
            cannon=cannon,
            aliens=jnp.where(cleared, _wave(), aliens),
            right=right,
            bullets=bullets & ~killed,
            alien_bullets=alien_bullets,
            move_timer=move_timer - 1,
            move_interval=board.move_interval - harder,
            alien_shot_timer=jnp.where(shoots, _ALIEN_SHOT_INTERVAL, board.alien_shot_timer) - 1,
            shot_timer=jnp.maximum(jnp.where(fires, _RELOAD, board.shot_timer) - 1, 0),
            level=board.level + harder,
        )
        return after, jax.lax.population_count(killed).sum(), lost

    def planes(self, board: Board) -> tuple[jax.Array, ...]:
        aliens = board.aliens
        to_left, to_right = jnp.where(board.right, 0, aliens), jnp.where(board.right, aliens, 0)
        return cell(9, board.cannon), aliens, to_left, to_right, board.bullets, board.alien_bullets


def _move_aliens(board: Board) -> tuple[jax.Array, jax.Array, jax.Array, jax.Array]:
    """The aliens after their move, if it is time; whether they then move to the right; their timer; whether they turn
    in the bottom row, which is the end.
    """
    moves = board.move_timer == 0
    aliens, right = board.aliens, board.right
    turns = moves & jnp.any(_has(aliens, jnp.where(right, 9, 0)))
    sideways = jnp.where(right, aliens << 1, aliens >> 1)  # none is at that edge, or they would turn
    moved = jnp.where(turns, jnp.roll(aliens, 1), sideways)
    count = jax.lax.population_count(aliens).sum(dtype=jnp.int32)
    timer = jnp.where(moves, jnp.minimum(count, board.move_interval), board.move_timer)
    return jnp.where(moves, moved, aliens), right ^ turns, timer, turns & (aliens[9] != 0)


def _nearest_alien(aliens: jax.Array, column: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Row and column of the lowest alien in the column that is nearest to `column`, the left one of two."""
    occupied = jnp.any(_has(aliens[:, None], COLUMNS), axis=0)
    nearest = jnp.argmin(jnp.where(occupied, jnp.abs(COLUMNS - column), 100)).astype(jnp.int32)
    row = jnp.max(jnp.where(_has(aliens, nearest), COLUMNS, 0))
    return row, nearest


def _has(row: jax.Array, column: Any) -> jax.Array:
    """True if there is something in that column of a row."""
    return (row >> column) & 1 != 0


def _up(rows: jax.Array) -> jax.Array:
    """Everything one row higher; what leaves the board is gone."""
    return jnp.pad(rows[1:], (0, 1))


def _down(rows: jax.Array) -> jax.Array:
    """Everything one row lower; what leaves the board is gone."""
    return jnp.pad(rows[:-1], (1, 0))


def _wave() -> np.ndarray:
    """Where aliens appear: `[10]`, columns 2 to 7 of rows 0 to 3."""
    return np.where(COLUMNS < 4, 0b0011111100, 0).astype(np.int32)
