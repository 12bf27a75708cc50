"""Battleship: find the ships of a board that nobody sees."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import jax
import jax.numpy as jnp

from jaxrl.environment import Step
from jaxrl.envs.draws import uniform_rows
from jaxrl.envs.memory.board import BoardGame, Params
from jaxrl.envs.memory.cards import one_hot
from jaxrl.envs.memory.draw import draw_battleship
from jaxrl.envs.options import whole
from jaxrl.render.scene import Scene
from jaxrl.spaces import Box

__all__ = ["Battleship", "State", "place_ships"]


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class State:
    """A board of W x W cells, row by row."""

    ship: jax.Array
    """Bool `[W W]`: where a ship is."""
    shot: jax.Array
    """Bool `[W W]`: where the agent has shot."""
    hit: jax.Array
    """Whether the last shot was the first one on a ship's cell."""
    target: jax.Array
    """int32: the cell of the last shot, -1 before the first."""
    step: jax.Array


class Battleship(BoardGame):
    """Sink all ships with few shots, knowing of each shot whether it hits. Equal to POPGym's Battleship.

    Observation bool `[1]`: whether the last shot was a hit; with `observe_action`, also its row and its column, one-hot
    `[2 W]`. A second shot at a cell is a miss.
    Action Discrete(W W): the cell to shoot at, row by row. (POPGym takes row and column apart.)
    Reward: 1 / H for a hit, with H cells under ships, and -1 / (W W - H) for a miss, so that shooting at every cell
    once earns nothing. Terminated when all ships are sunk.

    Args:
        size: W.
        ships: The lengths of the ships, which lie in rows and columns and may touch.
        max_steps: Shots; None for one for each cell.
        observe_action: Whether the observation tells the last shot. Without it, as in POPGym, only a memory that is
            given the last action knows where it has shot.

    Raises:
        ValueError: An option is out of its range.
    """

    def __init__(
        self,
        *,
        size: int = 8,
        ships: Sequence[int] = (2, 3, 3, 4),
        max_steps: int | None = None,
        observe_action: bool = True,
    ) -> None:
        size = whole("size", size, 2)
        super().__init__(size, size**2 if max_steps is None else max_steps, observe_action)
        if not isinstance(ships, Sequence) or isinstance(ships, str):
            raise ValueError(f"ships must be a list of lengths, such as [2, 3], got {ships!r}.")
        self.ships = tuple(whole("ships", length, 1, self.size) for length in ships)
        # Of the places in rows that share no cell, each cell of another ship can block one.
        room = [sum(self.ships[:i]) < self.size * (self.size // length) for i, length in enumerate(self.ships)]
        if not self.ships or not all(room) or sum(self.ships) == size**2:  # some shots have to miss
            raise ValueError(
                f"ships={ships!r} must be one or more that always find room and leave some; "
                "take fewer, or a larger size."
            )

    def observation_space(self, params: Params | None = None) -> Box:
        return Box(0, 1, (1 + 2 * self.size * self.observes_action,), bool)

    def reset_env(self, key: jax.Array, params: Params) -> tuple[jax.Array, State]:
        ship = place_ships(uniform_rows(key, len(self.ships)), self.size, self.ships).reshape(-1)
        state = State(
            ship=ship,
            shot=jnp.zeros_like(ship),
            hit=jnp.zeros((), bool),
            target=jnp.full((), -1, jnp.int32),
            step=jnp.zeros((), jnp.int32),
        )
        return self.observation(state), state

    def step_env(self, key: jax.Array, state: State, action: jax.Array, params: Params) -> Step:
        cell = self.action_space().clip(action)
        aimed = one_hot(cell, self.size**2)
        hit = jnp.any(aimed & state.ship & ~state.shot)
        after = State(state.ship, state.shot | aimed, hit, cell, state.step + 1)
        count = sum(self.ships)
        reward = jnp.where(hit, 1.0 / count, -1.0 / (self.size**2 - count))
        terminated = jnp.all(after.shot | ~after.ship)
        truncated = (after.step >= params.max_steps) & ~terminated
        return self.observation(after), after, reward.astype(jnp.float32), terminated, truncated, {}

    def observation(self, state: State, params: Params | None = None) -> jax.Array:
        """Bool `[1]`, or `[1 + 2 W]` with the last shot."""
        return jnp.concatenate([state.hit[None], self.seen_cell(state.target)])

    def text(self, state: State, viewer: int = 0, params: Params | None = None) -> str:
        """One state as text, as the player knows it: without the ships, which pictures show."""
        if state.target < 0:
            return "No shot was fired yet."
        row, column = divmod(int(state.target), self.size)
        return f"The shot at row {row}, column {column} was a {'hit' if state.hit else 'miss'}."

    def draw(self, states: State, params: Params | None = None) -> Scene:
        return draw_battleship(self.name, states, self.size)


def place_ships(draws: jax.Array, size: int, ships: tuple[int, ...]) -> jax.Array:
    """A board with ships, bool `[W, W]`: one after the other takes a free place, each place as likely as another.

    Args:
        draws: In [0, 1), one for each ship.
        size: W.
        ships: Their lengths.
    """
    board = jnp.zeros((size, size), bool)
    for draw, length in zip(draws, ships, strict=True):
        starts = size - length + 1
        lines = jnp.concatenate([board, board.T])  # the board's rows, then its columns, [2 W, W]
        free = jnp.stack([~lines[:, i : i + starts] for i in range(length)]).all(0)  # by a ship's first cell
        # First the line, then the place in it: two short sums are much faster than one over all places.
        in_line = free.sum(-1)
        line, number = _pick(in_line, jnp.floor(draw * in_line.sum()).astype(jnp.int32))
        start, _ = _pick(jnp.where(line[:, None], free, False).any(0).astype(jnp.int32), number)
        cells = jnp.stack([jnp.pad(start, (i, length - 1 - i)) for i in range(length)]).any(0)
        rows, columns = (line[:, None] & cells).reshape(2, size, size)
        board = board | rows | columns.T
    return board


def _pick(counts: jax.Array, number: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Of K heaps of `counts` things, the one that has the thing of this number, one-hot, and its number there."""
    after = jnp.cumsum(counts)
    before = after - counts
    picked = (before <= number) & (number < after)
    return picked, number - jnp.sum(jnp.where(picked, before, 0))
