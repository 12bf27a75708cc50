"""The coin game and STORM in letters, for terminals that show no pictures."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np

from jaxrl.envs.social.storm_rules import COIN_CELLS, SIZE

__all__ = ["coin_game_board", "storm_board"]

_HEADINGS = "v>^<"  # those of `STEPS`; y goes down
_KINDS = "abcdefghijkl"
_THINGS = "RBrb"


def coin_game_board(state: Any) -> str:
    """One state as text: three rows, the upper one first, and a line that explains the letters."""
    cells = [["", "", ""] for _ in range(3)]
    for letter, (row, column) in zip(_THINGS, np.asarray(state.things).tolist(), strict=True):
        cells[2 - row][column] += letter
    rows = ["  " + "".join(f"{cell or '.':5}" for cell in row).rstrip() for row in cells]
    return "\n".join(
        [*rows, "  R red, B blue, r red's coin, b blue's coin; a step over an edge leads to the other side"]
    )


def storm_board(state: Any) -> str:
    """One state as text: eight rows with what the players in them hold, and a line that explains the characters.

    A player is its number and where it looks.
    """
    state = jax.tree.map(np.asarray, state)
    bits = state.beams[:, None] >> np.arange(32, dtype=np.uint32) & 1
    cells = np.where(bits.reshape(-1), "* ", ". ").reshape(SIZE, SIZE)  # [x, y]
    for cell, kind in zip(COIN_CELLS[state.there].tolist(), state.kind[state.there].tolist(), strict=True):
        cells[divmod(cell, SIZE)] = _KINDS[kind]
    notes = [[] for _ in range(SIZE)]
    for number, (x, y) in enumerate(state.position.tolist()):
        cells[x, y] = f"{number}{_HEADINGS[state.direction[number]]}"
        notes[y].append(_player(number, state.inventory[number].tolist(), int(state.frozen[number])))
    drawn = ["".join(f"{cell:3}" for cell in row) for row in cells.T.tolist()]
    rows = [f"  {row}  {'; '.join(told)}".rstrip() for row, told in zip(drawn, notes, strict=True)]
    coins = [f"{letter} coin of kind {kind}" for kind, letter in enumerate(_KINDS[: state.inventory.shape[1]])]
    return "\n".join([*rows, f"  {', '.join(coins)}, * lit by a zap"])


def _player(number: int, held: list[int], frozen: int) -> str:
    """What a player holds, such as `agent_0 holds 2 a, 0 b`."""
    coins = ", ".join(f"{count} {_KINDS[kind]}" for kind, count in enumerate(held))
    return f"agent_{number} holds {coins}" + (f", frozen, steps left {frozen}" if frozen else "")
