"""Breakout: a ball, a paddle and three rows of bricks (rules of Young and Tian 2019, https://arxiv.org/abs/1903.03176)."""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp

from jaxrl.envs.minatar.game import LEFT, NOOP, RIGHT, Game, Params, cell, moved_x

__all__ = ["Board", "Breakout"]

_FULL = 2**10 - 1  # a row of bricks


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Board:
    """Scalars, and the bricks."""

    paddle: jax.Array
    """The paddle's column; it is in the bottom row."""
    x: jax.Array
    """The ball's column."""
    y: jax.Array
    """The ball's row."""
    last_x: jax.Array
    last_y: jax.Array
    right: jax.Array
    """True if the ball moves to the right; otherwise to the left."""
    down: jax.Array
    """True if the ball moves down; otherwise up."""
    struck: jax.Array
    """True if the last step met a brick; the ball then flies through the next one without breaking it."""
    bricks: jax.Array
    """`[3]`: what is left of rows 1 to 3, whole numbers whose bit c stands for column c."""


class Breakout(Game):
    """A ball must be kept above the bottom and breaks bricks. Equal to MinAtar's Breakout.

    Observation bool `[10, 10, 4]`: paddle, ball, where the ball was (trail), bricks.
    Action Discrete(3): nothing, left, right.
    Reward: 1 for each brick. Once all are broken, and the ball is down, there are new ones. Terminated when the ball
    passes the paddle.
    """

    channels = ("paddle", "ball", "trail", "brick")
    minimal_actions = (NOOP, LEFT, RIGHT)
    start_draws = 1

    def start(self, draws: jax.Array) -> Board:
        """The ball starts on the left or on the right edge, and flies to the middle."""
        right_edge = draws[0] >= 0.5
        x, y = jnp.where(right_edge, 9, 0).astype(jnp.int32), jnp.full((), 3, jnp.int32)
        return Board(
            paddle=jnp.full((), 4, jnp.int32),
            x=x,
            y=y,
            last_x=x,
            last_y=y,
            right=~right_edge,
            down=jnp.ones((), bool),
            struck=jnp.zeros((), bool),
            bricks=jnp.full(3, _FULL, jnp.int32),
        )

    def play(
        self, board: Board, action: jax.Array, draws: jax.Array, params: Params
    ) -> tuple[Board, jax.Array, jax.Array]:
        paddle = moved_x(board.paddle, action)
        x, y = board.x + jnp.where(board.right, 1, -1), board.y + jnp.where(board.down, 1, -1)
        right = jnp.where((x < 0) | (x > 9), ~board.right, board.right)
        x = jnp.clip(x, 0, 9)

        at_top, at_bottom = y < 0, y == 9
        y = jnp.maximum(y, 0)
        target = cell(y, x)[1:4]
        met = ~at_top & jnp.any(board.bricks & target != 0)
        breaks = met & ~board.struck
        bricks = jnp.where(breaks, board.bricks & ~target, board.bricks)
        bricks = jnp.where(at_bottom & jnp.all(bricks == 0), _FULL, bricks)

        under_it = at_bottom & (board.x == paddle)  # the ball comes down beside the paddle's end or on its edge
        on_edge = at_bottom & ~under_it & (x == paddle)
        bounces = breaks | under_it | on_edge
        after = Board(
            paddle=paddle,
            x=x,
            y=jnp.where(bounces, board.y, y),
            last_x=board.x,
            last_y=board.y,
            right=right ^ on_edge,
            down=board.down ^ (bounces | at_top),
            struck=met,
            bricks=bricks,
        )
        return after, breaks, at_bottom & ~bounces

    def planes(self, board: Board) -> tuple[jax.Array, ...]:
        trail = cell(board.last_y, board.last_x)
        return cell(9, board.paddle), cell(board.y, board.x), trail, jnp.pad(board.bricks, (1, 6))
