"""Freeway: a chicken crosses eight lanes of cars (rules of Young and Tian 2019, https://arxiv.org/abs/1903.03176)."""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp

from jaxrl.envs.minatar.game import DOWN, NOOP, UP, Game, Params, cell, lanes, moved_y, zeros

__all__ = ["Board", "Freeway"]

_COLUMN = 4  # of the chicken
_REST = 3  # steps from one of its moves to the next


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Board:
    """The chicken, and a car in each of the lanes, rows 1 to 8."""

    y: jax.Array
    """The chicken's row; its column never changes."""
    rest: jax.Array
    """Steps until the chicken can move."""
    x: jax.Array
    """`[8]`: the cars' columns."""
    interval: jax.Array
    """`[8]`: each car waits so many steps, 1 to 5, between two moves."""
    right: jax.Array
    """Bool `[8]`: whether the car moves to the right."""
    timer: jax.Array
    """`[8]`: steps until the car moves."""


class Freeway(Game):
    """A chicken walks up through the traffic, again and again. Equal to MinAtar's Freeway.

    Observation bool `[10, 10, 7]`: chicken, cars, and five channels for where cars come from, one for each interval.
    Action Discrete(3): nothing, up, down.
    Reward: 1 for each time at the top; then the chicken is back at the bottom, and all cars draw intervals and
    directions anew. A car that hits the chicken sends it back. Only the clock ends an episode.
    """

    channels = ("chicken", "car", "speed 1", "speed 2", "speed 3", "speed 4", "speed 5")
    minimal_actions = (NOOP, UP, DOWN)
    start_draws = 16
    step_draws = 16

    def __init__(
        self, *, use_minimal_action_set: bool = True, sticky_action_prob: float = 0.1, max_steps: int = 2501
    ) -> None:
        super().__init__(
            use_minimal_action_set=use_minimal_action_set, sticky_action_prob=sticky_action_prob, max_steps=max_steps
        )

    def start(self, draws: jax.Array) -> Board:
        interval, right = _traffic(draws)
        return Board(y=jnp.int32(9), rest=jnp.int32(_REST), x=zeros(8), interval=interval, right=right, timer=interval)

    def play(
        self, board: Board, action: jax.Array, draws: jax.Array, params: Params
    ) -> tuple[Board, jax.Array, jax.Array]:
        walks = (board.rest == 0) & ((action == UP) | (action == DOWN))
        y = jnp.where(walks, moved_y(board.y, action, 0, 9), board.y)
        across = y == 0
        y = jnp.where(across, 9, y)
        new_interval, new_right = _traffic(draws)
        interval, right = jnp.where(across, new_interval, board.interval), jnp.where(across, new_right, board.right)
        timer = jnp.where(across, new_interval, board.timer)

        moves = timer == 0
        x = (board.x + jnp.where(moves, jnp.where(right, 1, -1), 0)) % 10
        hit = jnp.any((jnp.arange(1, 9) == y) & ((board.x == _COLUMN) | (x == _COLUMN)))
        after = Board(
            y=jnp.where(hit, 9, y),
            rest=jnp.maximum(jnp.where(walks, _REST, board.rest) - 1, 0),
            x=x,
            interval=interval,
            right=right,
            timer=jnp.where(moves, interval, timer - 1),
        )
        return after, across, jnp.zeros((), bool)

    def planes(self, board: Board) -> tuple[jax.Array, ...]:
        behind = (board.x + jnp.where(board.right, -1, 1)) % 10
        speeds = (lanes(behind, board.interval == interval) for interval in range(1, 6))
        return cell(board.y, _COLUMN), lanes(board.x, True), *speeds


def _traffic(draws: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Intervals and directions of the eight cars, `[8]` each, from `draws[16]`."""
    return 1 + jnp.floor(5 * draws[:8]).astype(jnp.int32), draws[8:] >= 0.5
