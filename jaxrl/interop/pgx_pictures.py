"""Pictures of pgx's boards and of its MinAtar. pgx itself draws SVG, which needs a browser."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from jaxrl.envs.minatar.asterix import Asterix
from jaxrl.envs.minatar.breakout import Breakout
from jaxrl.envs.minatar.draw import draw_cells
from jaxrl.envs.minatar.freeway import Freeway
from jaxrl.envs.minatar.seaquest import Seaquest
from jaxrl.envs.minatar.space_invaders import SpaceInvaders
from jaxrl.render.scene import Caption, Circle, Rect, Scene, Shape, Text

__all__ = ["board", "draw"]

_STEP_SECONDS = 0.5  # of a move on screen
_CELL, _OTHER_CELL, _BLACK, _WHITE = "#33415a", "#3c4c68", "#0b0e14", "#f0ece0"
_PIECES = np.array([*"·PNBRQKkqrbnp"])  # white's and black's, by pgx's numbers modulo 13
_STONES = np.array([*"·XO"])  # the first player's and the second's
_MINATAR = {
    "minatar-asterix": Asterix,
    "minatar-breakout": Breakout,
    "minatar-freeway": Freeway,
    "minatar-seaquest": Seaquest,
    "minatar-space_invaders": SpaceInvaders,
}


def draw(game: str, states: Any, name: str) -> Scene:
    """Successive states of the game that pgx calls `game` (NumPy leaves `[F, …]`) as a scene named `name`.

    Raises:
        NotImplementedError: There is no picture of this game.
    """
    steps = np.asarray(states._step_count)
    if game in _MINATAR:
        return draw_cells(name, _MINATAR[game].channels, np.asarray(states.observation), "", steps)
    letters = _letters(game, states)
    if letters is None:
        raise NotImplementedError(f"{name} has no picture: pgx draws it as SVG alone, which needs a browser.")
    _, height, width = letters.shape
    slant = 0.5 if game == "hex" else 0.0
    shapes: list[Shape] = []
    for row, column in np.ndindex(height, width):
        x, y = column + slant * row, height - 1 - row
        fill = _CELL if (row + column) % 2 else _OTHER_CELL
        shapes.append(Rect(x=x + 0.02, y=y + 0.02, width=0.96, height=0.96, fill=fill, corner=0.06))
        shapes += _things(letters[:, row, column], x + 0.5, y + 0.5)
    view = (-0.3, -0.3, width + slant * (height - 1) + 0.3, height + 0.3)
    moves = np.array([f"move {step}" for step in steps.tolist()])
    return Scene(
        len(steps), view, tuple(shapes), (Caption(name), Caption(""), Caption(moves)), "#0f141d", _STEP_SECONDS
    )


def board(game: str, state: Any) -> str:
    """One state in letters, empty without a board: X moves first, O second; white pieces are capitals."""
    letters = _letters(game, jax.tree.map(lambda leaf: np.asarray(leaf)[None], state))
    if letters is None:
        return ""
    cell = max(len(text) for text in letters.ravel())
    indent = " " if game == "hex" else ""
    return "\n".join(
        indent * number + " ".join(text.rjust(cell) for text in row.tolist()) for number, row in enumerate(letters[0])
    )


def _things(texts: np.ndarray, x: float, y: float) -> list[Shape]:
    """What lies on a cell: a stone, a chess piece or a number, `texts[F]`."""
    shapes: list[Shape] = []
    for text in np.unique(texts[texts != "·"]).tolist():
        alpha = (texts == text).astype(float)
        white = text == "O" or (text.isupper() and text != "X")
        fill, ink = (_WHITE, _BLACK) if white else (_BLACK, _WHITE)
        shapes.append(Circle(x=x, y=y, radius=0.4, fill=fill, stroke=_WHITE, stroke_width=0.03, alpha=alpha))
        if text not in "XO":
            shapes.append(Text(x=x, y=y, text=text.upper(), size=0.4, fill=ink, alpha=alpha))
    return shapes


def _letters(game: str, states: Any) -> np.ndarray | None:
    """What lies on each cell `[F, H, W]`: texts of one or more letters; None for games without a board here."""
    kind = game.partition("_")[0] if game.startswith("go_") else game
    return _BOARDS[kind](states) if kind in _BOARDS else None


def _squares(cells: Any, width: int | None = None) -> np.ndarray:
    """Cells `[F, H W]` as `[F, H, W]`; a square without a width."""
    cells = np.asarray(cells)
    width = width or round(cells.shape[1] ** 0.5)
    return cells.reshape(len(cells), -1, width)


def _marked(states: Any, width: int | None = None) -> np.ndarray:
    """Boards with -1 for nothing and the number of the player."""
    return _STONES[_squares(states._x.board, width) + 1]


def _from_mover(states: Any, turn: Any) -> np.ndarray:
    """Boards that say what is the mover's, above 0, and the other's, below."""
    signs = np.sign(_squares(states._x.board)) * np.where(np.asarray(turn) == 0, 1, -1)[:, None, None]
    return _STONES[signs]


def _from_black(states: Any) -> np.ndarray:
    """Boards that say what is the first player's, above 0, and the other's, below."""
    return _STONES[np.sign(_squares(states._x.board))]


def _chess(board: Any, turn: Any) -> np.ndarray:
    """Boards by columns, seen by the mover, with white below."""
    cells = np.rot90(_squares(board), axes=(1, 2))
    mine = np.asarray(turn)[:, None, None] == 0
    return _PIECES[np.where(mine, cells, -cells[:, ::-1])]


def _numbers(states: Any) -> np.ndarray:
    powers = _squares(states._board)
    return np.where(powers > 0, (2**powers).astype(str), "·")


_BOARDS: dict[str, Callable[[Any], np.ndarray]] = {
    "2048": _numbers,
    "chess": lambda states: _chess(states._x.board, states._x.color),
    "connect_four": lambda states: _marked(states, 7),
    "gardner_chess": lambda states: _chess(states._board, states._turn),
    "go": _from_black,
    "hex": lambda states: _from_mover(states, states._x.color),
    "othello": lambda states: _from_mover(states, states._x.turn),
    "tic_tac_toe": _marked,
}
