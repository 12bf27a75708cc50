"""Pictures of the tasks for memory, from an episode's states (NumPy leaves `[F, …]`)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from jaxrl.envs.memory.cards import RANKS, SUITS
from jaxrl.render.scene import Caption, Circle, Rect, Scene, Shape, Text, Tip

__all__ = [
    "ROW",
    "draw_autoencode",
    "draw_bandit",
    "draw_battleship",
    "draw_concentration",
    "draw_count_recall",
    "draw_higher_lower",
    "draw_minesweeper",
    "draw_repeat_first",
    "draw_repeat_previous",
]

_BOARD, _INK, _DIM, _AROUND = "#1c2738", "#e6edf7", "#6b7a94", "#0f141d"
_OPEN = "#3b4d6b"
_RIGHT, _WRONG = "#57ab5a", "#e5534b"
_LEGIBLE = 0.023  # of the width: 11 pixels of 480 for the smallest text
_KINDS = ("#4da3ff", "#f2cc60", "#4dd0c8", "#ff8f6b")
_FILLS = {2: ("#a3b1c8", "#f0716a"), 4: _KINDS}  # of black and red, and of suits; kinds of other cards look alike
_MOST = 9
"""Cards of a row, at most."""
ROW = 13
"""Cards of a row on a table."""


def draw_repeat_first(name: str, states: Any) -> Scene:
    """The newest card, and below it the first one, which is to name."""
    rows = [("shown", np.asarray(states.shown)), ("to name", np.asarray(states.first)[:, None])]
    return _scene(name, states, _rows(rows), (-0.3, -2.0, 2.4, 1.7))


def draw_repeat_previous(name: str, states: Any) -> Scene:
    """The cards that must be kept in mind, the newest on the left; a frame is around the one to name."""
    suits = np.asarray(states.shown)
    count = min(suits.shape[1], _MOST)
    frame = Rect(x=1.1 * (count - 1) - 0.05, y=-0.05, width=1.1, height=1.5, fill=_DIM, corner=0.12)
    return _scene(name, states, [frame, *_rows([("", suits)])], (-0.3, -0.3, 1.1 * max(count, 2) + 0.2, 1.7))


def draw_autoencode(name: str, states: Any) -> Scene:
    """The pile from the top, left to right; the first card is the next to name."""
    top = np.asarray(states.pile)[:, :_MOST]
    return _scene(name, states, _rows([("", top)]), (-0.3, -0.3, 1.1 * _MOST + 0.2, 1.7))


def draw_count_recall(name: str, states: Any, kinds: tuple[str, ...], each: int) -> Scene:
    """The newest card and the one that is asked for; below, how many of each kind have been dealt.

    Args:
        name: The title.
        states: Those of the episode.
        kinds: The names of the kinds.
        each: Cards of each kind.
    """
    card, dealt = np.asarray(states.card), each - np.asarray(states.left)[:, 0]
    width = max(1.1 * len(kinds), 4.4)
    shapes = [*_card(0.3, 0.0, card[:, 0], kinds), *_card(width - 1.3, 0.0, card[:, 1], kinds)]
    for x, text in ((0.8, "dealt"), (width - 0.8, "asked")):
        shapes.append(Text(x=x, y=1.6, text=text, size=0.22, fill=_DIM))
    for i, kind in enumerate(kinds):
        x, asked = (i + 0.5) * width / len(kinds), card[:, 1] == i
        count = np.array([str(number) for number in dealt[:, i].tolist()])
        shapes.append(Text(x=x, y=-0.4, text=count, size=0.3, fill=np.where(asked, _KINDS[1], _INK)))
        shapes.append(Text(x=x, y=-0.8, text=kind, size=0.2, fill=_DIM))
    return _scene(name, states, shapes, (-0.2, -1.1, width + 0.2, 1.9))


def draw_concentration(name: str, states: Any, kinds: tuple[str, ...]) -> Scene:
    """The cards on the table; those that were seen and lie face down are faint. Frames are around those of a try.

    Args:
        name: The title.
        states: Those of the episode.
        kinds: The names of the kinds.
    """
    kind, shown, found = (np.asarray(leaf) for leaf in (states.kind, states.shown, states.found))
    shapes: list[Shape] = []
    for place in range(kind.shape[1]):
        x, y = 1.1 * (place % ROW), -1.5 * (place // ROW)
        tried = np.where(shown[:, place] & ~found[:, place], 1.0, 0.0)
        shapes.append(Rect(x=x - 0.05, y=y - 0.05, width=1.1, height=1.5, fill=_INK, corner=0.12, alpha=tried))
        shapes.append(Rect(x=x, y=y, width=1.0, height=1.4, fill=_BOARD, corner=0.1))
        shapes += _card(x, y, kind[:, place], kinds, size=0.3, alpha=np.where(shown[:, place], 1.0, 0.4))
    bottom = -1.5 * (kind.shape[1] // ROW - 1)
    return _scene(name, states, shapes, (-0.3, bottom - 0.3, 1.1 * ROW + 0.2, 1.8))


def draw_higher_lower(name: str, states: Any, each: int) -> Scene:
    """The newest card; below it, bars tell how many of each rank are still to come.

    Args:
        name: The title.
        states: Those of the episode.
        each: Cards of each rank.
    """
    left, rank = np.asarray(states.left), np.asarray(states.rank)
    shapes = _card(3.1, 0.0, rank, RANKS)
    unit = min(0.12, 1.44 / each)  # of a bar; those of many decks have to stay below the card
    for i, kind in enumerate(RANKS):
        x = 0.6 * i
        height = unit * left[:, i]
        shapes.append(Rect(x=x, y=-1.5, width=0.45, height=height, fill=np.where(rank == i, _KINDS[1], _KINDS[0])))
        shapes.append(Text(x=x + 0.22, y=-1.7, text=kind, size=0.17, fill=_DIM))
    return _scene(name, states, shapes, (-0.3, -2.0, 7.9, 1.7))


def draw_bandit(name: str, states: Any) -> Scene:
    """An arm is a bar as high as its chance; the one that was pulled is green if it paid and red if not."""
    chance, pulled, paid = np.asarray(states.chance), np.asarray(states.pulled), np.asarray(states.paid)
    frames, arms = chance.shape
    color = np.where(paid, _RIGHT, _WRONG)
    shapes: list[Shape] = []
    for i in range(arms):
        fill = np.where(pulled == i, color, _KINDS[0])
        tip = Tip(f"arm {i}", {"chance": np.round(chance[:, i], 2)})
        shapes.append(Rect(x=i + 0.1, y=0.0, width=0.8, height=arms / 2, fill=_BOARD, corner=0.06))
        shapes.append(
            Rect(x=i + 0.1, y=0.0, width=0.8, height=chance[:, i] * arms / 2, fill=fill, corner=0.06, tip=tip)
        )
    won = np.cumsum(np.where(pulled >= 0, paid, False))
    count = _counts("{} of {} paid", won, np.asarray(states.step), states)
    view = (-0.2, -0.2, arms + 0.2, arms / 2 + 0.2)
    return Scene(frames, view, tuple(shapes), _captions(name, count, states)[:2], _AROUND, step_seconds=0.15)


def draw_battleship(name: str, states: Any, size: int) -> Scene:
    """The board: hidden ships are grey, hits red, misses rings; a frame is around the last shot.

    Args:
        name: The title.
        states: Those of the episode.
        size: Cells of a row.
    """
    ship, shot, target = np.asarray(states.ship), np.asarray(states.shot), np.asarray(states.target)
    shapes: list[Shape] = []
    for cell in range(size**2):
        x, y = cell % size, size - 1 - cell // size
        fill = np.where(ship[:, cell], np.where(shot[:, cell], _WRONG, _DIM), _BOARD)
        shapes += _tile(x, y, fill, target == cell)
        missed = np.where(shot[:, cell] & ~ship[:, cell], 1.0, 0.0)
        shapes.append(Circle(x=x + 0.5, y=y + 0.5, radius=0.18, stroke=_INK, stroke_width=0.06, alpha=missed))
    return _board(name, states, shapes, size, ship & shot, ship, "hit")


def draw_minesweeper(name: str, states: Any, size: int) -> Scene:
    """The board: open cells tell how many mines are beside them; mines are discs; a frame is around the last cell.

    Args:
        name: The title.
        states: Those of the episode.
        size: Cells of a row.
    """
    mine, opened, target = np.asarray(states.mine), np.asarray(states.opened), np.asarray(states.target)
    around = np.pad(mine.reshape(-1, size, size), ((0, 0), (1, 1), (1, 1))).astype(int)
    shapes: list[Shape] = []
    for cell in range(size**2):
        row, column = divmod(cell, size)
        x, y = column, size - 1 - row
        is_open, is_mine = opened[:, cell], mine[:, cell]
        fill = np.where(is_open, np.where(is_mine, _WRONG, _OPEN), _BOARD)
        shapes += _tile(x, y, fill, target == cell)
        count = around[:, row : row + 3, column : column + 3].sum((1, 2)).astype(str)
        alpha = np.where(is_open & ~is_mine, 1.0, 0.0)
        shapes.append(Text(x=x + 0.5, y=y + 0.5, text=count, size=0.42, fill=_INK, alpha=alpha))
        color = np.where(is_open, _AROUND, _DIM)
        shapes.append(Circle(x=x + 0.5, y=y + 0.5, radius=0.2, fill=color, alpha=np.where(is_mine, 1.0, 0.0)))
    return _board(name, states, shapes, size, opened & ~mine, ~mine, "open")


def _tile(x: float, y: float, fill: np.ndarray, last: np.ndarray) -> list[Shape]:
    """A cell of a board; a border is around it where `[F]` it is the last one."""
    return [
        Rect(x=x, y=y, width=1.0, height=1.0, fill=_INK, corner=0.12, alpha=np.where(last, 1.0, 0.0)),
        Rect(x=x + 0.06, y=y + 0.06, width=0.88, height=0.88, fill=fill, corner=0.1),
    ]


def _board(
    name: str, states: Any, shapes: list[Shape], size: int, done: np.ndarray, wanted: np.ndarray, verb: str
) -> Scene:
    """A game on a board; the caption counts the cells `[F, W W]` that are done, of those that are wanted."""
    counts = done.sum(1).tolist(), wanted.sum(1).tolist()
    text = np.array([f"{a} of {b} cells {verb}" for a, b in zip(*counts, strict=True)])
    view = (-0.2, -0.2, size + 0.2, size + 0.2)
    return Scene(len(done), view, tuple(shapes), _captions(name, text, states), _AROUND, step_seconds=0.2)


def _rows(rows: list[tuple[str, np.ndarray]]) -> list[Shape]:
    """Rows of suits `[F, L]`, each below the one before, with a title on the right; of many, the first and the last."""
    shapes: list[Shape] = []
    for number, (title, suits) in enumerate(rows):
        y, count = -1.7 * number, suits.shape[1]
        for place in range(min(count, _MOST)):
            last = place == _MOST - 1
            shapes += _card(1.1 * place, y, suits[:, -1 if last else place], SUITS)
        if title:
            shapes.append(Text(x=1.2, y=y + 0.7, text=title, size=0.22, fill=_DIM, align="left"))
    return shapes


def _card(
    x: float, y: float, kind: np.ndarray, kinds: tuple[str, ...], size: float = 0.2, alpha: Any = 1.0
) -> list[Shape]:
    """A card `[F]` with the name of its kind; none where the kind is -1."""
    fills = _FILLS.get(len(kinds), _KINDS[:1] * len(kinds))
    names, colors = (np.array([options[number] for number in kind.tolist()]) for options in (kinds, fills))
    alpha = np.where(kind >= 0, alpha, 0.0)
    return [
        Rect(x=x, y=y, width=1.0, height=1.4, fill=colors, corner=0.1, alpha=alpha),
        Text(x=x + 0.5, y=y + 0.7, text=names, size=size, fill=_AROUND, alpha=alpha),
    ]


def _scene(name: str, states: Any, shapes: list[Shape], view: tuple[float, float, float, float]) -> Scene:
    """A game with cards; the caption counts answers and is green or red after each."""
    right = np.asarray(states.right)
    text = _counts("{} right, {} wrong", np.cumsum(right > 0), np.cumsum(right < 0), states)
    x, y = view[2] - 0.15, view[3] - 0.12
    mark = Circle(x=x, y=y, radius=0.08, fill=np.where(right > 0, _RIGHT, _WRONG), alpha=np.where(right == 0, 0.0, 1.0))
    least = _LEGIBLE * (view[2] - view[0])
    shapes = [replace(shape, size=max(shape.size, least)) if isinstance(shape, Text) else shape for shape in shapes]
    return Scene(len(right), view, (*shapes, mark), _captions(name, text, states), _AROUND, step_seconds=0.4)


def _counts(form: str, first: np.ndarray, second: np.ndarray, states: Any) -> np.ndarray | str:
    """Two counts `[F]` as text; nothing if the frames begin later than the episode, of which they then miss a part."""
    if np.asarray(states.step)[0] > 0:
        return ""
    return np.array([form.format(a, b) for a, b in zip(first.tolist(), second.tolist(), strict=True)])


def _captions(name: str, text: np.ndarray | str, states: Any) -> tuple[Caption, ...]:
    """The task without its family, so that the long names leave room for the text `[F]`; and the step."""
    steps = np.array([f"step {step}" for step in np.asarray(states.step).tolist()])
    return Caption(name.removeprefix("memory/")), Caption(text), Caption(steps)
