"""The rules of STORM: moving, collecting, zapping, and coming back (see `jaxrl.envs.social.storm` for the game).

A cell is a number from 0 to 63, x * 8 + y, and a set of cells is a board: two words of 32 bits, uint32 `[2]`. A player
sees the 5 x 5 cells ahead, turned with the player, and which players are ready to meet.

Payoffs are two tables each, of the row player and of the column player, for K choices each. The prisoners' dilemma has
the numbers of JaxMARL's STORM; stag hunt, chicken and Bach or Stravinsky have those of Melting Pot 2.0 (Agapiou et al.
2022, https://arxiv.org/abs/2211.13746); the others are the textbook's.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxrl.envs import options

__all__ = [
    "COIN_CELLS",
    "FORWARD",
    "INTERACT",
    "LEFT",
    "MATRICES",
    "RIGHT",
    "SIZE",
    "SPAWN_CELLS",
    "STAY",
    "STEPS",
    "VIEW",
    "Params",
    "State",
    "as_payoff",
    "board_of",
    "collect",
    "facts",
    "holds",
    "match",
    "move",
    "place",
    "planes",
    "respawn",
    "targets",
]

Table = tuple[tuple[float, ...], ...]


def _symmetric(table: Table) -> tuple[Table, Table]:
    """Both players have the same choices and payoffs: the column player's table is the transposed one."""
    return table, tuple(zip(*table, strict=True))


MATRICES: dict[str, tuple[Table, Table]] = {
    "prisoners_dilemma": _symmetric(((3, 0), (5, 1))),
    "stag_hunt": _symmetric(((4, 0), (2, 2))),
    "chicken": _symmetric(((3, 2), (5, 0))),
    "coordination": _symmetric(((1, 0), (0, 1))),
    "bach_or_stravinsky": (((3, 0), (0, 2)), ((2, 0), (0, 3))),
    "matching_pennies": (((1, -1), (-1, 1)), ((-1, 1), (1, -1))),
    "rock_paper_scissors": _symmetric(((0, -1, 1), (1, 0, -1), (-1, 1, 0))),
}
"""Rows and columns are the kinds of coins; in the dilemmas the first kind stands for cooperation."""


def as_payoff(value: Any, places: int) -> np.ndarray:
    """`value` as a table float32 `[2, K, K]`; one `[K, K]` table stands for a symmetric game.

    Args:
        value: What the user gave.
        places: Of coins; K must divide their number, so that there are as many coins of each kind.

    Raises:
        ValueError: It is not such a table.
    """
    table = options.table("payoff", value)
    if table.ndim == 2:
        table = np.stack([table, table.T]) if table.shape[0] == table.shape[1] else table
    kinds = table.shape[-1] if table.ndim else 0
    if table.shape != (2, kinds, kinds) or kinds < 2 or places % kinds:
        raise ValueError(
            f"payoff must be two square tables, [2, K, K], or one for a symmetric game, with K "
            f"kinds of coins, at least 2, that divide the {places} places; got the shape {np.shape(value)}."
        )
    return table


SIZE = 8
LEFT, RIGHT, FORWARD, INTERACT, STAY = range(5)
STEPS = np.array([[0, 1], [1, 0], [0, -1], [-1, 0]], np.int32)
"""The step forward in each direction; the next direction is the one to the left."""

# The places in the corners, as (x, y): coins near the middle of the board, players around them. Two cells are both.
_COINS = ((1, 1), (1, 2), (2, 1), (1, 6), (2, 6), (1, 5), (6, 2), (5, 1), (6, 1), (6, 6), (6, 5), (5, 6))
_SPAWNS = (
    *((0, 0), (0, 1), (0, 2), (1, 0), (1, 2), (0, 7), (0, 6), (0, 5), (1, 7)),
    *((7, 0), (7, 1), (7, 2), (6, 0), (7, 7), (7, 6), (7, 5), (6, 7), (6, 5)),
)
COIN_CELLS = np.array([x * SIZE + y for x, y in _COINS], np.int32)
SPAWN_CELLS = np.array([x * SIZE + y for x, y in _SPAWNS], np.int32)


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Params:
    """The numbers that may vary."""

    payoff: Any
    """float32 `[2, K, K]`: what the row player and the column player get, for each pair of pure inventories."""
    freeze_steps: Any
    """Steps that two players stand still after they have met."""
    refill_steps: Any
    """int32 `[2]`: the fewest and the most steps between two tries to put a new coin in a place."""
    inner_steps: Any
    """Steps of a round, after which everything starts anew, if the environment was made for several rounds."""
    max_steps: Any
    """Steps of an episode."""


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class State:
    """N players, and 12 places for coins of K kinds."""

    position: jax.Array
    """int32 `[N, 2]`: x and y."""
    direction: jax.Array
    """int32 `[N]`, 0 to 3, see `STEPS`."""
    inventory: jax.Array
    """int32 `[N, K]`: the coins that each one has collected."""
    frozen: jax.Array
    """int32 `[N]`: the steps for which a player still stands still; 0 if it is free."""
    kind: jax.Array
    """int32 `[12]`: the kind of coin of each place."""
    there: jax.Array
    """Bool `[12]`: whether the coin is in its place."""
    timer: jax.Array
    """int32 `[12]`: the steps until a missing coin comes back, if its cell is free then."""
    beams: jax.Array
    """uint32 `[2]`, a board: the empty cells that players aimed at in the last step."""
    step: jax.Array


def board_of(cells: jax.Array | np.ndarray, there: Any = True) -> jax.Array:
    """The board of those of the cells `[M]` that are there, bool `[M]`."""
    bit = jnp.where(there, jnp.uint32(1) << (cells % 32).astype(jnp.uint32), jnp.uint32(0))
    upper = cells >= 32
    return jnp.stack([jnp.bitwise_or.reduce(jnp.where(half, bit, 0), axis=0) for half in (~upper, upper)])


def holds(board: jax.Array, cells: Any) -> jax.Array:
    """True where each of the cells `[…]`, 0 to 63, is on the board: bool `[…]`."""
    word = jnp.where(cells >= 32, board[1], board[0])
    return (word >> (cells % 32).astype(jnp.uint32)) & 1 != 0


def move(state: State, action: jax.Array, luck: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Where the players are, and where they look, after they have turned and walked: int32 `[N, 2]`, `[N]`.

    Nobody enters a cell in which another player stays. If several players want the same cell, the luckiest gets it.
    A player who cannot go stays, which may stop those behind.

    Args:
        state: The state before.
        action: `[N]`; frozen players must stay.
        luck: float32 `[N]`, uniform draws.
    """
    turn = jnp.where(action == LEFT, 1, jnp.where(action == RIGHT, -1, 0))
    forward = (action == FORWARD)[:, None]
    wanted = jnp.clip(state.position + jnp.where(forward, jnp.asarray(STEPS)[state.direction], 0), 0, SIZE - 1)
    old, new = place(state.position), place(wanted)
    goes = old != new
    n = len(action)
    number = np.arange(n)
    luckier = (luck > luck[:, None]) | ((luck == luck[:, None]) & (number < number[:, None]))  # [i, j]: j than i
    rival = (new[:, None] == new) & luckier
    enters = new[:, None] == old  # [i, j]: i wants to be where j was
    others = ~np.eye(n, dtype=bool)
    goes &= ~jnp.any(rival & goes, 1)
    for _ in range(n - 1):  # the length of the longest row in which each player stops the next
        goes &= ~jnp.any(enters & others & ~goes, 1)
    position = jnp.where(goes[:, None], wanted, state.position)
    return position, (state.direction + turn) % 4


def place(position: jax.Array) -> jax.Array:
    """The numbers of cells `[…]` at positions `[…, 2]`."""
    return position[..., 0] * SIZE + position[..., 1]


def collect(state: State, cells: jax.Array, kinds: int) -> tuple[jax.Array, jax.Array]:
    """The inventories and which coins are left, int32 `[N, K]` and bool `[12]`, with players in `cells[N]`."""
    takes = (cells[:, None] == COIN_CELLS) & state.there  # [N, 12]
    of_kind = state.kind[:, None] == np.arange(kinds)
    gained = jnp.sum(takes[:, :, None] & of_kind, axis=1, dtype=jnp.int32)
    return state.inventory + gained, state.there & ~jnp.any(takes, 0)


def targets(position: jax.Array, direction: jax.Array) -> jax.Array:
    """The four cells that a zap reaches, int32 `[N, 4, 2]`: one and two ahead, and beside the first on either side.

    A cell behind a wall is replaced: one ahead by the last cell before the wall, one beside by the first cell ahead.
    """
    ahead, left, right = (jnp.asarray(STEPS)[(direction + turn) % 4] for turn in (0, 1, -1))
    first = jnp.clip(position + ahead, 0, SIZE - 1)
    second = jnp.clip(position + 2 * ahead, 0, SIZE - 1)
    beside = [position + ahead + side for side in (right, left)]
    beside = [jnp.where(jnp.any((x < 0) | (x >= SIZE), -1, keepdims=True), first, x) for x in beside]
    return jnp.stack([first, second, *beside], 1)


def match(wants: jax.Array, luck: jax.Array) -> jax.Array:
    """Who meets whom, bool `[N, N]`, symmetric, with at most one partner each.

    Pairs are formed in the order of their luck, the highest first, as long as both are free.

    Args:
        wants: Bool `[N, N]`, symmetric: the pairs that can be formed.
        luck: float32 `[N (N - 1) / 2]`, uniform draws, one for each pair.
    """
    n = len(wants)
    if n == 2:
        return wants
    rows, columns = np.triu_indices(n, 1)
    number = np.zeros((n, n), np.int32)
    number[rows, columns] = number[columns, rows] = np.arange(len(rows))
    rank = (luck * 2**20).astype(jnp.int32) * 64 + np.arange(len(rows))  # no two are equal
    rank = jnp.where(wants, rank[number], -1)
    met = jnp.zeros((n, n), bool)
    for _ in range(n // 2):
        best = rank.max(1)
        met |= (rank >= 0) & (rank == best[:, None]) & (rank == best)
        busy = jnp.any(met, 1)
        rank = jnp.where(busy[:, None] | busy, -1, rank)
    return met


def respawn(again: jax.Array, cells: jax.Array, coins: jax.Array, luck: jax.Array) -> jax.Array:
    """The players' cells after some of them move to free places for players, int32 `[N]`.

    Args:
        again: Bool `[N]`: the players who move.
        cells: `[N]`, the cells of all players before.
        coins: A board; nobody moves to a coin.
        luck: float32 `[N]`, uniform draws.
    """
    stays = (cells[:, None] == SPAWN_CELLS) & ~again[:, None]
    free = ~holds(coins, SPAWN_CELLS) & ~jnp.any(stays, 0)
    result = []
    for i in range(len(cells)):
        rank = jnp.cumsum(free, dtype=jnp.int32)
        chosen = (luck[i] * rank[-1]).astype(jnp.int32) + 1
        here = free & (rank == chosen)
        result.append(jnp.where(again[i], jnp.sum(jnp.where(here, SPAWN_CELLS, 0), dtype=jnp.int32), cells[i]))
        free &= ~(here & again[i])
    return jnp.stack(result)


VIEW = 5
_SIDE, _AHEAD = (grid.reshape(-1) for grid in np.meshgrid(np.arange(VIEW) - VIEW // 2, np.arange(VIEW), indexing="ij"))


def _others(n: int) -> np.ndarray:
    """Int `[N, N]`: for each player itself first, then the others in their order."""
    return np.array([[i, *(j for j in range(n) if j != i)] for i in range(n)])


def planes(state: State, kinds: int) -> jax.Array:
    """Bool `[N, 5, 5, N + K + 6]`: cells by how far to the side and how far ahead, and what is in them.

    That is: myself, each of the others, a coin of each kind, a wall, a beam, and if another player is there, the
    quarter turns from my direction to its own, 0 to 3, one-hot.
    """
    n = len(state.direction)
    ahead, side = (jnp.asarray(STEPS)[(state.direction + turn) % 4][:, None] for turn in (0, 1))
    seen = state.position[:, None] + _AHEAD[:, None] * ahead + _SIDE[:, None] * side  # [N, 25, 2]
    inside = jnp.all((seen >= 0) & (seen < SIZE), -1)
    cell = jnp.clip(place(seen), 0, SIZE * SIZE - 1)

    order = _others(n)
    player = inside[:, :, None] & (cell[:, :, None] == place(state.position)[order][:, None])  # [N, 25, N]
    turns = (state.direction[order] - state.direction[:, None]) % 4  # [N, N]
    looks = [jnp.any(player[:, :, 1:] & (turns[:, None, 1:] == turn), -1) for turn in range(4)]
    coins = [board_of(COIN_CELLS, state.there & (state.kind == kind)) for kind in range(kinds)]
    things = [inside & holds(board, cell) for board in (*coins, state.beams)]
    rest = jnp.stack([*things[:-1], ~inside, things[-1], *looks], -1)
    return jnp.concatenate([player, rest], -1).reshape(n, VIEW, VIEW, -1)


def facts(state: State) -> jax.Array:
    """float32 `[N, N (K + 1)]`: my coins by kind, whether I am ready; for each of the others whether it is ready, and
    while it is frozen its coins by kind.
    """
    n, kinds = state.inventory.shape
    held = state.inventory.astype(jnp.float32)
    ready = (held.sum(1, keepdims=True) > 0).astype(jnp.float32)
    shown = jnp.where(state.frozen[:, None] > 0, held, 0)
    own = jnp.concatenate([held, ready], 1)
    others = jnp.concatenate([ready, shown], 1)[_others(n)[:, 1:]]
    return jnp.concatenate([own, others.reshape(n, (n - 1) * (kinds + 1))], 1)
