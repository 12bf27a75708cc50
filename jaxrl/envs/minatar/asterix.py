"""Asterix: gold and enemies come from both sides (rules of Young and Tian 2019, https://arxiv.org/abs/1903.03176)."""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp

from jaxrl.envs.minatar.game import (
    DOWN,
    LEFT,
    NOOP,
    RIGHT,
    UP,
    RampedGame,
    RampParams,
    cell,
    lanes,
    moved_x,
    moved_y,
    trail,
    zeros,
)

__all__ = ["Asterix", "Board"]

_RAMP_INTERVAL = 100
_SPAWN_INTERVAL, _MOVE_INTERVAL = 10, 5  # at the start


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Board:
    """Scalars, and what is in each of the lanes, rows 1 to 8, which hold one thing each."""

    player_x: jax.Array
    player_y: jax.Array
    filled: jax.Array
    """Bool `[8]`: whether there is something in the lane; if not, the next three mean nothing."""
    x: jax.Array
    """`[8]`."""
    right: jax.Array
    """Bool `[8]`: whether it moves to the right."""
    gold: jax.Array
    """Bool `[8]`: whether it is gold, or an enemy."""
    spawn_timer: jax.Array
    """Steps until something appears."""
    spawn_interval: jax.Array
    move_timer: jax.Array
    """Steps until everything moves."""
    move_interval: jax.Array
    ramp_timer: jax.Array
    """Steps until it gets harder."""
    level: jax.Array
    """The number of times that it got harder."""


class Asterix(RampedGame):
    """The player collects gold and avoids enemies, both crossing in eight lanes. Equal to MinAtar's Asterix.

    Observation bool `[10, 10, 4]`: player, enemies, trails (where a thing comes from), gold.
    Action Discrete(5): nothing, left, up, right, down.
    Reward: 1 for gold. Terminated when an enemy and the player meet.
    """

    channels = ("player", "enemy", "trail", "gold")
    minimal_actions = (NOOP, LEFT, UP, RIGHT, DOWN)
    step_draws = 3
    intended = ("same_start",)

    def start(self, draws: jax.Array) -> Board:
        number = jnp.int32
        return Board(
            player_x=number(5),
            player_y=number(5),
            filled=zeros(8, dtype=bool),
            x=zeros(8),
            right=zeros(8, dtype=bool),
            gold=zeros(8, dtype=bool),
            spawn_timer=number(_SPAWN_INTERVAL),
            spawn_interval=number(_SPAWN_INTERVAL),
            move_timer=number(_MOVE_INTERVAL),
            move_interval=number(_MOVE_INTERVAL),
            ramp_timer=number(_RAMP_INTERVAL),
            level=number(0),
        )

    def play(
        self, board: Board, action: jax.Array, draws: jax.Array, params: RampParams
    ) -> tuple[Board, jax.Array, jax.Array]:
        board = _spawn(board, draws)
        player_x, player_y = moved_x(board.player_x, action), moved_y(board.player_y, action, 1, 8)
        at_player = jnp.arange(1, 9) == player_y
        moves = board.move_timer == 0

        met = board.filled & at_player & (board.x == player_x)  # the player walks into it
        filled = board.filled & ~(met & board.gold)
        x = board.x + jnp.where(moves, jnp.where(board.right, 1, -1), 0)
        run_into = filled & at_player & (x == player_x) & moves
        filled = filled & (x >= 0) & (x <= 9) & ~(run_into & board.gold)
        met = met | run_into

        board = dataclasses.replace(
            board,
            player_x=player_x,
            player_y=player_y,
            filled=filled,
            x=x,
            spawn_timer=board.spawn_timer - 1,
            move_timer=jnp.where(moves, board.move_interval, board.move_timer) - 1,
        )
        return _ramp(board, params), jnp.any(met & board.gold), jnp.any(met & ~board.gold)

    def planes(self, board: Board) -> tuple[jax.Array, ...]:
        enemy, gold = board.filled & ~board.gold, board.filled & board.gold
        return (
            cell(board.player_y, board.player_x),
            lanes(board.x, enemy),
            trail(board.x, board.right, board.filled),
            lanes(board.x, gold),
        )


def _spawn(board: Board, draws: jax.Array) -> Board:
    """Perhaps something appears at an end of a free lane. `draws[3]`: the side, gold or enemy, the lane."""
    due = board.spawn_timer == 0
    free = ~board.filled
    number = jnp.floor(draws[2] * free.sum()).astype(jnp.int32)  # among the free lanes
    here = due & free & (jnp.cumsum(free) - 1 == number)
    right = draws[0] < 0.5
    return dataclasses.replace(
        board,
        filled=board.filled | here,
        x=jnp.where(here, jnp.where(right, 0, 9), board.x),
        right=jnp.where(here, right, board.right),
        gold=jnp.where(here, draws[1] < 1 / 3, board.gold),
        spawn_timer=jnp.where(due, board.spawn_interval, board.spawn_timer),
    )


def _ramp(board: Board, params: RampParams) -> Board:
    """Every so often, things appear sooner, and every other time they also move faster."""
    ramps = params.difficulty_ramping & ((board.spawn_interval > 1) | (board.move_interval > 1))
    harder = ramps & (board.ramp_timer < 0)
    faster = harder & (board.level % 2 == 1) & (board.move_interval > 1)
    return dataclasses.replace(
        board,
        spawn_interval=board.spawn_interval - (harder & (board.spawn_interval > 1)),
        move_interval=board.move_interval - faster,
        ramp_timer=jnp.where(harder, _RAMP_INTERVAL, board.ramp_timer - ramps),
        level=board.level + harder,
    )
