"""The games on a board, on which one cell after the other is chosen: Battleship, MineSweeper, Concentration."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np

from jaxrl.environment import Environment, Step, as_arrays
from jaxrl.envs.batching import same_key, uniform_rows
from jaxrl.envs.memory.cards import COLORS, DECK, RANKS, CardGame, one_hot
from jaxrl.envs.memory.draw import ROW, draw_battleship, draw_concentration, draw_minesweeper
from jaxrl.envs.options import flag, one_of, whole
from jaxrl.render.scene import Scene
from jaxrl.spaces import Box, Discrete

__all__ = [
    "Battleship",
    "BattleshipState",
    "BoardGame",
    "Concentration",
    "ConcentrationState",
    "MineSweeper",
    "MineSweeperState",
    "Params",
    "place_mines",
    "place_ships",
]


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Params:
    """The numbers that may vary."""

    max_steps: Any


class BoardGame(Environment):
    """A board of W x W cells, numbered row by row.

    Args:
        size: W.
        max_steps: Steps after which an episode is truncated.
        observe_action: Whether the observation tells the last cell.
    """

    def __init__(self, size: int, max_steps: int, observe_action: bool) -> None:
        self.size = size
        self.observes_action = flag("observe_action", observe_action)
        self._default_params = as_arrays(Params(whole("max_steps", max_steps)))

    @property
    def default_params(self) -> Params:
        return self._default_params

    def action_space(self, params: Params | None = None) -> Discrete:
        return Discrete(self.size**2)

    split_key = same_key  # steps draw nothing

    def seen_cell(self, cell: jax.Array) -> jax.Array:
        """The last cell in an observation: its row and its column, bool `[2 W]`, or nothing, `[0]`.

        Args:
            cell: int32: its number, -1 before the first.
        """
        if not self.observes_action:
            return jnp.zeros(0, bool)
        row, column = cell // self.size, cell % self.size
        return (cell >= 0) & jnp.concatenate([one_hot(row, self.size), one_hot(column, self.size)])


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class BattleshipState:
    """A board of W x W cells, row by row."""

    ship: jax.Array
    """Bool `[W W]`: where a ship is."""
    shot: jax.Array
    """Bool `[W W]`: where the agent has shot."""
    hit: jax.Array
    """True if the last shot was the first one on a ship's cell."""
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

    def reset_env(self, key: jax.Array, params: Params) -> tuple[jax.Array, BattleshipState]:
        ship = place_ships(uniform_rows(key, len(self.ships)), self.size, self.ships).reshape(-1)
        state = BattleshipState(
            ship=ship,
            shot=jnp.zeros_like(ship),
            hit=jnp.zeros((), bool),
            target=jnp.full((), -1, jnp.int32),
            step=jnp.zeros((), jnp.int32),
        )
        return self.observation(state), state

    def step_env(self, key: jax.Array, state: BattleshipState, action: jax.Array, params: Params) -> Step:
        cell = self.action_space().clip(action)
        aimed = one_hot(cell, self.size**2)
        hit = jnp.any(aimed & state.ship & ~state.shot)
        after = BattleshipState(state.ship, state.shot | aimed, hit, cell, state.step + 1)
        count = sum(self.ships)
        reward = jnp.where(hit, 1.0 / count, -1.0 / (self.size**2 - count))
        terminated = jnp.all(after.shot | ~after.ship)
        truncated = (after.step >= params.max_steps) & ~terminated
        return self.observation(after), after, reward.astype(jnp.float32), terminated, truncated, {}

    def observation(self, state: BattleshipState, params: Params | None = None) -> jax.Array:
        """Bool `[1]`, or `[1 + 2 W]` with the last shot."""
        return jnp.concatenate([state.hit[None], self.seen_cell(state.target)])

    def text(self, state: BattleshipState, viewer: int = 0, params: Params | None = None) -> str:
        """One state as text, as the player knows it: without the ships, which pictures show."""
        if state.target < 0:
            return "No shot was fired yet."
        row, column = divmod(int(state.target), self.size)
        return f"The shot at row {row}, column {column} was a {'hit' if state.hit else 'miss'}."

    def draw(self, states: BattleshipState, params: Params | None = None) -> Scene:
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


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class MineSweeperState:
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

    def reset_env(self, key: jax.Array, params: Params) -> tuple[jax.Array, MineSweeperState]:
        mine = place_mines(uniform_rows(key, self.num_mines), self.size**2)
        state = MineSweeperState(mine, jnp.zeros_like(mine), jnp.full((), -1, jnp.int32), jnp.zeros((), jnp.int32))
        return self.observation(state), state

    def step_env(self, key: jax.Array, state: MineSweeperState, action: jax.Array, params: Params) -> Step:
        target = self.action_space().clip(action)
        cell = one_hot(target, self.size**2)
        exploded, again = jnp.any(cell & state.mine), jnp.any(cell & state.opened)
        after = MineSweeperState(state.mine, state.opened | cell, target, state.step + 1)
        gain = 1.0 / self.num_clear
        reward = jnp.where(exploded, -0.5 - gain, jnp.where(again, -0.5 / (self.num_clear - 2), gain))
        terminated = exploded | jnp.all(after.opened | after.mine)
        truncated = (after.step >= params.max_steps) & ~terminated
        return self.observation(after), after, reward.astype(jnp.float32), terminated, truncated, {}

    def observation(self, state: MineSweeperState, params: Params | None = None) -> jax.Array:
        """Bool `[K]`, or `[K + 2 W]` with the last cell."""
        return jnp.concatenate([one_hot(self.count(state), self.num_counts), self.seen_cell(state.target)])

    def count(self, state: MineSweeperState) -> jax.Array:
        """int32: the mines in the 3 x 3 cells around the last one, itself included."""
        near_row, near_column = (
            jnp.abs(np.arange(self.size) - place) <= 1
            for place in (state.target // self.size, state.target % self.size)
        )
        near = (near_row[:, None] & near_column).reshape(-1)
        return jnp.sum((state.target >= 0) & near & state.mine, dtype=jnp.int32)

    def text(self, state: MineSweeperState, viewer: int = 0, params: Params | None = None) -> str:
        """One state as text, as the player knows it: without the mines, which pictures show."""
        if state.target < 0:
            return "No cell was opened yet."
        row, column = divmod(int(state.target), self.size)
        if state.mine[state.target]:
            return f"The cell at row {row}, column {column} is a mine."
        count = int(self.count(state))
        return f"The cell at row {row}, column {column} has {count} {'mine' if count == 1 else 'mines'} beside it."

    def draw(self, states: MineSweeperState, params: Params | None = None) -> Scene:
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


_KINDS = {"colors": COLORS, "ranks": RANKS}  # of each suit there are 13 cards, which are no pairs


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class ConcentrationState:
    """N cards on a table, of K kinds. What a card is, is drawn when it is turned for the first time."""

    left: jax.Array
    """int32 `[K]`: the cards of each kind among those that were never turned."""
    kind: jax.Array
    """int8 `[N]`: the kind of each card; -1 if it was never turned."""
    found: jax.Array
    """Bool `[N]`: the cards of pairs, which stay face up."""
    first: jax.Array
    """Bool `[N]`: the first card of a try, while the second is still to come."""
    shown: jax.Array
    """Bool `[N]`: the cards that lie face up."""
    step: jax.Array
    right: jax.Array
    """int8: 1 if the last card makes a pair, -1 if a try fails by it, 0 if it is the first of a try."""


class Concentration(CardGame):
    """Turn two cards that are alike, again and again, until all lie face up. Equal to POPGym's Concentration.

    Two cards of a kind stay face up. Others still show in the observation after the second card, and lie face down in
    the next. A try also fails by turning the same card twice, or one that is face up for good; if that is the first of
    a try, no second follows.

    Observation bool `[N K]`: for each of N cards its kind, one-hot; nothing for a card that lies face down. (In POPGym,
    face down is one more kind.) The card that turns tells the last action, so no option adds it.
    Action Discrete(N): the card to turn.
    Reward: 2 / N for a pair, so 1 for all pairs; in episodes of T steps, -1 / T for each card of a try that fails.
    Terminated when all cards are face up.

    Args:
        num_decks: Decks of 52 cards, N cards in all.
        kinds: What makes cards alike: two `"colors"` or thirteen `"ranks"`.
        max_steps: T; None for two for each card.

    Raises:
        ValueError: An option is out of its range.
    """

    intended = ("same_start",)  # all cards face down

    def __init__(
        self, *, num_decks: int = 1, kinds: Literal["colors", "ranks"] = "colors", max_steps: int | None = None
    ) -> None:
        kinds = one_of("kinds", kinds, tuple(_KINDS))
        super().__init__(DECK * whole("num_decks", num_decks), _KINDS[kinds])
        # POPGym's formula rounds 2 N - N / (2 N - 1) up, which is always 2 N.
        steps = 2 * self.num_cards if max_steps is None else whole("max_steps", max_steps)
        self._default_params = as_arrays(Params(steps))

    @property
    def default_params(self) -> Params:
        return self._default_params

    def observation_space(self, params: Params | None = None) -> Box:
        return Box(0, 1, (self.num_cards * len(self.kinds),), bool)

    def action_space(self, params: Params | None = None) -> Discrete:
        return Discrete(self.num_cards)

    def reset_env(self, key: jax.Array, params: Params) -> tuple[jax.Array, ConcentrationState]:
        none = jnp.zeros(self.num_cards, bool)
        state = ConcentrationState(
            left=jnp.asarray(self.full_deck()),
            kind=jnp.full(self.num_cards, -1, jnp.int8),
            found=none,
            first=none,
            shown=none,
            step=jnp.zeros((), jnp.int32),
            right=jnp.zeros((), jnp.int8),
        )
        return self.observation(state), state

    def step_env(self, key: jax.Array, state: ConcentrationState, action: jax.Array, params: Params) -> Step:
        card = one_hot(self.action_space().clip(action), self.num_cards)
        drawn, left = self.next_card(key, state.left)
        new = card & (state.kind < 0)
        kind = jnp.where(new, drawn.astype(jnp.int8), state.kind)
        second, lay_up = jnp.any(state.first), jnp.any(card & state.found)
        alike = kind == jnp.max(jnp.where(card, kind, -1))
        pair = jnp.any(state.first & alike & ~card) & ~lay_up
        ends = second | lay_up  # the try
        after = ConcentrationState(
            left=jnp.where(jnp.any(new), left, state.left),
            kind=kind,
            found=state.found | (pair & (state.first | card)),
            first=card & ~ends,
            shown=state.found | state.first | card,
            step=state.step + 1,
            right=jnp.where(pair, 1, jnp.where(ends, -1, 0)).astype(jnp.int8),
        )
        cost = (1 + second) / params.max_steps
        reward = jnp.where(pair, 2 / self.num_cards, jnp.where(ends, -cost, 0.0))
        terminated = jnp.all(after.found)
        truncated = (after.step >= params.max_steps) & ~terminated
        return self.observation(after), after, reward.astype(jnp.float32), terminated, truncated, {}

    def observation(self, state: ConcentrationState, params: Params | None = None) -> jax.Array:
        """Bool `[N K]`: the kinds of the cards that lie face up."""
        return (state.shown[:, None] & (state.kind[:, None] == np.arange(len(self.kinds)))).reshape(-1)

    def sight(self, state: ConcentrationState) -> str:
        """The table in rows: numbers are cards that lie face down."""
        cards = [
            f"[{self.kinds[kind]}]" if shown else str(number)
            for number, (kind, shown) in enumerate(zip(state.kind.tolist(), state.shown.tolist(), strict=True))
        ]
        rows = ["".join(f"{card:>8}" for card in cards[i : i + ROW]) for i in range(0, self.num_cards, ROW)]
        return "\n".join([f"Turn {'another' if state.first.any() else 'a'} card.", *rows])

    def draw(self, states: ConcentrationState, params: Params | None = None) -> Scene:
        return draw_concentration(self.name, states, self.kinds)
