"""The kitchen from above, with what lies on counters, is in pots and in hands; and the same in letters."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

from jaxrl.envs.overcooked.layout import DISH, ITEMS, NOTHING, ONION, SOUP, TILES, TOMATO, Layout
from jaxrl.envs.overcooked.rules import State
from jaxrl.render.scene import Caption, Circle, Line, Rect, Scene, Shape, Text, Tip

__all__ = [
    "BROTH",
    "CHINA",
    "Thing",
    "board",
    "center",
    "cook",
    "cooking",
    "dishes",
    "draw",
    "film",
    "ground",
    "hatch",
    "heap",
    "lettered",
    "pot",
]

_FLOOR, _SEAM, _AROUND = "#e9dcc3", "#d8c8a8", "#0f141d"
_COUNTER, _EDGE, _METAL, CHINA = "#a9774c", "#8d5f3a", "#4b5563", "#f7f9fb"
_ONION, _TOMATO, BROTH, _SERVING = "#e8b93b", "#dc4a3d", "#8a4b1f", "#5f9e6e"
_COOKS = ("#3b82f6", "#22a06b", "#a855f7", "#ec4899", "#f97316", "#14b8a6", "#64748b", "#eab308", "#ef4444")
_FACING = np.array([(0.0, 1.0), (0.0, -1.0), (1.0, 0.0), (-1.0, 0.0)])  # up, down, right, left; y goes up
_CORNERS = ((-0.11, -0.06), (0.11, -0.06), (0.0, 0.12))  # of the three ingredients


DrawItem = Callable[[Any, Any, Any, float], Iterator[Shape]]


def draw(layout: Layout, states: State) -> Scene:
    """An episode: NumPy leaves `[F, …]`."""
    shapes = [shape for cell, tile in enumerate(layout.tiles.tolist()) for shape in _tile(layout, cell, tile)]
    for i, cell in enumerate(layout.cells("P")):
        (x, y), contents, timer = (
            center(layout, cell),
            np.asarray(states.contents[:, i]),
            np.asarray(states.timer[:, i]),
        )
        tip = Tip("pot", {"onions": contents & 3, "tomatoes": contents >> 2, "steps left": np.maximum(timer, 0)})
        shapes += pot(x, y, timer, timer == 0, _ingredients(x, y, contents, np.ones(len(contents), bool)), tip)
    for cell in layout.cells("X"):
        if states.counters[:, cell].any():
            shapes += _item(*center(layout, cell), states.counters[:, cell], 1.0)
    for i in range(len(layout.starts)):
        names = np.array([ITEMS.get(item, "a soup") for item in states.held[:, i].tolist()])
        shapes += cook(layout, i, states, names, _item)
    return film("Overcooked", layout, states, shapes)


def _tile(layout: Layout, cell: int, tile: str) -> Iterator[Shape]:
    """The parts of a cell that never change."""
    x, y = center(layout, cell)
    tip = Tip(TILES[tile], {})
    yield from ground(x, y, tile == " ", tip)
    if tile in "OT":
        yield from heap(x, y, _ONION if tile == "O" else _TOMATO, tip)
    elif tile == "D":
        yield from dishes(x, y, tip)
    elif tile == "S":
        yield from hatch(x, y, tip)


def ground(x: float, y: float, is_floor: bool, tip: Tip) -> Iterator[Shape]:
    """The floor, or a counter."""
    yield Rect(x=x - 0.5, y=y - 0.5, width=1.0, height=1.0, fill=_SEAM if is_floor else _EDGE)
    if is_floor:
        yield Rect(x=x - 0.48, y=y - 0.48, width=0.96, height=0.96, fill=_FLOOR)
    else:
        yield Rect(x=x - 0.46, y=y - 0.46, width=0.92, height=0.92, fill=_COUNTER, corner=0.06, tip=tip)


def heap(x: float, y: float, color: str, tip: Tip) -> Iterator[Shape]:
    """A dispenser of an ingredient."""
    for dx, dy in ((-0.17, -0.14), (0.17, -0.14), (0.0, 0.15)):
        yield Circle(x=x + dx, y=y + dy, radius=0.17, fill=color, tip=tip)


def dishes(x: float, y: float, tip: Tip) -> Iterator[Shape]:
    """A pile of dishes."""
    for height in (-0.14, 0.0, 0.14):
        yield Circle(x=x, y=y + height, radius=0.24, fill=CHINA, stroke=_METAL, stroke_width=0.03, tip=tip)


def hatch(x: float, y: float, tip: Tip) -> Iterator[Shape]:
    """Where soups are served."""
    yield Rect(x=x - 0.38, y=y - 0.38, width=0.76, height=0.76, fill=_SERVING, corner=0.1, tip=tip)
    yield Circle(x=x, y=y, radius=0.2, fill=_SERVING, stroke=CHINA, stroke_width=0.04, tip=tip)


def pot(x: float, y: float, timer: Any, done: Any, inside: Iterator[Shape], tip: Tip) -> Iterator[Shape]:
    """A pot with its contents, and while it cooks the steps that are left; a green rim when the soup is done."""
    rim = np.where(done, "#35d07f", "#1f2937")
    yield Circle(x=x, y=y, radius=0.4, fill=_METAL, stroke=rim, stroke_width=0.06, tip=tip)
    yield Circle(x=x, y=y, radius=0.3, fill=BROTH, alpha=((timer > 0) | done).astype(float))
    yield from inside
    time = np.array([str(number) for number in timer.tolist()])
    yield Text(x=x + 0.33, y=y - 0.34, text=time, size=0.28, alpha=(timer > 0).astype(float))


def cook(layout: Layout, i: int, states: Any, names: np.ndarray, draw_item: DrawItem) -> Iterator[Shape]:
    """A cook: a disc with a white hat, a mark where it looks, and what it holds in front of it.

    Args:
        layout: The kitchen.
        i: The number of the cook.
        states: NumPy leaves `[F, …]`, with `position`, `direction` and `held`.
        names: What it holds, in words, `[F]`.
        draw_item: `draw_item(x, y, item, size)`: its shapes.
    """
    x, y = center(layout, states.position[:, i])
    dx, dy = _FACING[states.direction[:, i]].T
    color, tip = _COOKS[i % len(_COOKS)], Tip(f"agent_{i}", {"holds": names})
    yield Line(x=x, y=y, dx=0.34 * dx, dy=0.34 * dy, stroke=color, stroke_width=0.24)
    yield Circle(x=x, y=y, radius=0.32, fill=color, stroke="#1f2937", stroke_width=0.03, tip=tip)
    yield Circle(x=x - 0.06 * dx, y=y - 0.06 * dy, radius=0.17, fill="#ffffff")
    yield from draw_item(x + 0.3 * dx, y + 0.3 * dy, states.held[:, i], 0.8)


def film(name: str, layout: Layout, states: Any, shapes: list[Shape]) -> Scene:
    """The scene, with the soups served and the step in its captions."""
    served, step = texts("served {}", states.delivered), texts("step {}", states.step)
    view = (-0.1, -0.1, layout.width + 0.1, layout.height + 0.1)
    captions = (Caption(name), Caption(served), Caption(step))
    return Scene(len(states.step), view, tuple(shapes), captions, _AROUND, step_seconds=1 / 6)


def _item(x: Any, y: Any, item: Any, size: float) -> Iterator[Shape]:
    """Whatever lies or is held there in each frame, `[F]`."""
    on_plate = (item == DISH) | (item >= SOUP)
    plate = on_plate.astype(float)
    yield Circle(x=x, y=y, radius=0.3 * size, fill=CHINA, stroke=_METAL, stroke_width=0.03, alpha=plate)
    yield Circle(x=x, y=y, radius=0.22 * size, fill=BROTH, alpha=(item >= SOUP).astype(float))
    for kind, color in ((ONION, _ONION), (TOMATO, _TOMATO)):
        alpha = (item == kind).astype(float)
        yield Circle(x=x, y=y, radius=0.2 * size, fill=color, stroke="#1f2937", stroke_width=0.02, alpha=alpha)
    yield from _ingredients(x, y, item & 15, item >= SOUP)


def _ingredients(x: Any, y: Any, contents: np.ndarray, there: np.ndarray) -> Iterator[Shape]:
    """Up to three ingredients, onions first: a dot each."""
    onions, tomatoes = contents & 3, contents >> 2
    for number, (dx, dy) in enumerate(_CORNERS):
        for color, shown in ((_ONION, number < onions), (_TOMATO, (number >= onions) & (number < onions + tomatoes))):
            yield Circle(x=x + dx, y=y + dy, radius=0.09, fill=color, alpha=(shown & there).astype(float))


def center(layout: Layout, cell: Any) -> tuple[Any, Any]:
    """The middle of a cell; row 0 is at the top."""
    return cell % layout.width + 0.5, layout.height - cell // layout.width - 0.5


def texts(form: str, numbers: Any) -> np.ndarray:
    return np.array([form.format(number) for number in np.asarray(numbers).tolist()])


_HEADINGS = "^v><"  # up, down, right, left
_SIGNS = {NOTHING: "", DISH: "d", ONION: "o", TOMATO: "t"}


class Thing(NamedTuple):
    """A thing in a cell or in hands."""

    sign: str
    """Up to three characters, or two in hands."""
    words: str


def board(layout: Layout, state: State) -> str:
    """One state as text: a line per row and one that explains the characters.

    A cell is the character of its layout, or a cook's number and where it looks; behind it is what lies or is held
    there, and what is in a pot. To the right of a row the same stands in words.
    """
    state = jax.tree.map(np.asarray, state)
    things = {cell: _thing(item) for cell, item in enumerate(state.counters.tolist()) if item}
    pots = zip(layout.cells("P").tolist(), state.contents.tolist(), state.timer.tolist(), strict=True)
    for cell, contents, timer in pots:
        inside = Thing("o" * (contents & 3) + "t" * (contents >> 2), _in_words(contents))
        things[cell] = cooking(inside, timer) if timer >= 0 else inside
    return lettered(layout, state, things, [_thing(item) for item in state.held.tolist()], TILES)


def cooking(inside: Thing, steps: int) -> Thing:
    """A pot that cooks for some steps more, or, after 0 of them, is done."""
    return Thing("~", f"{inside.words}, steps left {steps}") if steps else Thing("!", f"{inside.words}, done")


def lettered(
    layout: Layout, state: Any, things: Mapping[int, Thing], held: Sequence[Thing], tiles: Mapping[str, str]
) -> str:
    """The rows of a kitchen of C cells and N cooks, and a line that explains the characters.

    Args:
        layout: The kitchen.
        state: One state, NumPy leaves, with `position` and `direction`, `[N]` each.
        things: What is in some of the cells, by their numbers, 0 to C - 1.
        held: What each cook holds, `[N]`.
        tiles: What the characters of the layout mean.
    """
    cells = ["." if tile == " " else tile for tile in layout.tiles.tolist()]
    notes = [""] * len(cells)
    for cell, thing in things.items():
        notes[cell] = f"{tiles[cells[cell]]}: {thing.words}"
        cells[cell] += thing.sign
    cooks = zip(state.position.tolist(), state.direction.tolist(), held, strict=True)
    for number, (cell, direction, thing) in enumerate(cooks):
        notes[cell] = f"agent_{number} holds {thing.words}"
        cells[cell] = f"{number}{_HEADINGS[direction]}{thing.sign}"
    lines = []
    for first in range(0, len(cells), layout.width):
        row = slice(first, first + layout.width)
        drawn, told = "".join(f"{cell:5}" for cell in cells[row]), "; ".join(filter(None, notes[row]))
        lines.append(f"  {drawn} {told}".rstrip())
    known = [f"{'.' if tile == ' ' else tile} {meaning}" for tile, meaning in tiles.items() if tile in layout.tiles]
    return "\n".join([*lines, f"  {', '.join(known)}"])


def _thing(item: int) -> Thing:
    """The thing that lies or is held there."""
    return Thing("s", f"a soup of {_in_words(item & 15)}") if item >= SOUP else Thing(_SIGNS[item], ITEMS[item])


def _in_words(contents: int) -> str:
    """Contents in words, such as `2 onions and 1 tomato`."""
    onions, tomatoes = contents & 3, contents >> 2
    parts = [f"{onions} onion{'s' * (onions > 1)}"] * (onions > 0)
    parts += [f"{tomatoes} tomato{'es' * (tomatoes > 1)}"] * (tomatoes > 0)
    return " and ".join(parts) or "empty"
