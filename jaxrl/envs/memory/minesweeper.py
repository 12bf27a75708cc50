"""MineSweeper: open all cells without a mine, keeping in mind what the open ones have told."""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np

from jaxrl.environment import Step
from jaxrl.envs.draws import uniform_rows
from jaxrl.envs.memory.board import BoardGame, Params
from jaxrl.envs.memory.cards import one_hot
from jaxrl.envs.memory.draw import draw_minesweeper
from jaxrl.envs.options import whole
from jaxrl.render.scene import Scene
from jaxrl.spaces import Box

__all__ = ["MineSweeper", "State", "place_mines"]


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class State:
    """A board of W x W cells, row by row."""

    mine: jax.Array
    """Bool `[W W]`: where a mine is."""
    opened: jax.Array
    """Bool `[W W]`: what the agent has opened."""
    target: jax.Array
    """int32: the cell that was opened last, -1 before the first."""
    step: jax.Array


class MineSweeper(BoardGame):
    """Open all cells but the mines, seeing only how many are beside the last one. Equal to POPGym's MineSweeper.

    Observation bool `[K]`: how many mines are among the 3 x 3 cells around the last one, one-hot from 0 on; 0 before
    the first cell. A mine counts itself. K is M + 1, at most 10. With `observe_action`, also the row and the column of
    the last cell, one-hot `[2 W]`.
    Action Discrete(W W): the cell to open, row by row. (POPGym takes row and column apart.)
    Reward: 1 / C for a new cell, with C = W W - M cells to open, -0.5 / (C - 2) for one that is open already, and
    -0.5 - 1 / C for a mine. Terminated by a mine, and when all other cells are open. By default the clock allows C
    steps, so only play without a mistake opens all cells, and an episode earns between -1 and 1.

    Args:
        size: W.
        num_mines: M.
        max_steps: Steps; None for one for each cell without a mine.
        observe_action: Whether the observation tells the last cell. Without it, as in POPGym, only a memory that is
            given the last action knows which cell has how many mines around it.

    Raises:
        ValueError: An option is out of its range.
    """

    def __init__(
        self, *, size: int = 4, num_mines: int = 2, max_steps: int | None = None, observe_action: bool = True
    ) -> None:
        size = whole("size", size, 2)
        self.num_mines = whole("num_mines", num_mines, 1, size**2 - 3)  # C - 2 divides
        self.num_clear = size**2 - self.num_mines
        super().__init__(size, self.num_clear if max_steps is None else max_steps, observe_action)
        self.num_counts = min(self.num_mines, 9) + 1

    def observation_space(self, params: Params | None = None) -> Box:
        return Box(0, 1, (self.num_counts + 2 * self.size * self.observes_action,), bool)

    def reset_env(self, key: jax.Array, params: Params) -> tuple[jax.Array, State]:
        mine = place_mines(uniform_rows(key, self.num_mines), self.size**2)
        state = State(mine, jnp.zeros_like(mine), jnp.full((), -1, jnp.int32), jnp.zeros((), jnp.int32))
        return self.observation(state), state

    def step_env(self, key: jax.Array, state: State, action: jax.Array, params: Params) -> Step:
        target = self.action_space().clip(action)
        cell = one_hot(target, self.size**2)
        exploded, again = jnp.any(cell & state.mine), jnp.any(cell & state.opened)
        after = State(state.mine, state.opened | cell, target, state.step + 1)
        gain = 1.0 / self.num_clear
        reward = jnp.where(exploded, -0.5 - gain, jnp.where(again, -0.5 / (self.num_clear - 2), gain))
        terminated = exploded | jnp.all(after.opened | after.mine)
        truncated = (after.step >= params.max_steps) & ~terminated
        return self.observation(after), after, reward.astype(jnp.float32), terminated, truncated, {}

    def observation(self, state: State, params: Params | None = None) -> jax.Array:
        """Bool `[K]`, or `[K + 2 W]` with the last cell."""
        return jnp.concatenate([one_hot(self.count(state), self.num_counts), self.seen_cell(state.target)])

    def count(self, state: State) -> jax.Array:
        """int32: the mines in the 3 x 3 cells around the last one, itself included."""
        near_row, near_column = (
            jnp.abs(np.arange(self.size) - place) <= 1
            for place in (state.target // self.size, state.target % self.size)
        )
        near = (near_row[:, None] & near_column).reshape(-1)
        return jnp.sum((state.target >= 0) & near & state.mine, dtype=jnp.int32)

    def text(self, state: State, viewer: int = 0, params: Params | None = None) -> str:
        """One state as text, as the player knows it: without the mines, which pictures show."""
        if state.target < 0:
            return "No cell was opened yet."
        row, column = divmod(int(state.target), self.size)
        if state.mine[state.target]:
            return f"The cell at row {row}, column {column} is a mine."
        count = int(self.count(state))
        return f"The cell at row {row}, column {column} has {count} {'mine' if count == 1 else 'mines'} beside it."

    def draw(self, states: State, params: Params | None = None) -> Scene:
        return draw_minesweeper(self.name, states, self.size)


def place_mines(draws: jax.Array, cells: int) -> jax.Array:
    """Where the mines are, bool `[cells]`: each choice of M cells is as likely as another.

    Robert Floyd's way of drawing without a second try (Bentley and Floyd 1987, https://doi.org/10.1145/30401.315746).

    Args:
        draws: In [0, 1), one for each of M mines.
        cells: How many there are.
    """
    mine, places = jnp.zeros(cells, bool), np.arange(cells)
    for draw, newest in zip(draws, range(cells - len(draws), cells), strict=True):
        cell = places == jnp.floor(draw * (newest + 1))  # one of those up to the newest
        mine = mine | jnp.where(jnp.any(mine & cell), places == newest, cell)
    return mine
