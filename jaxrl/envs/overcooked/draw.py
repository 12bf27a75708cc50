"""Pictures: the kitchen from above, with what lies on counters, is in pots and in hands."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from jaxrl.envs.overcooked.items import DISH, ITEMS, ONION, SOUP, TOMATO
from jaxrl.envs.overcooked.layout import TILES, Layout
from jaxrl.envs.overcooked.rules import State
from jaxrl.render.scene import Caption, Circle, Line, Rect, Scene, Shape, Text, Tip

__all__ = ["BROTH", "PLATE", "center", "cook", "dishes", "draw", "film", "ground", "hatch", "heap", "pot"]

_FLOOR, _SEAM, _AROUND = "#e9dcc3", "#d8c8a8", "#0f141d"
_COUNTER, _EDGE, _METAL, PLATE = "#a9774c", "#8d5f3a", "#4b5563", "#f7f9fb"
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
    """What never changes in a cell."""
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
        yield Circle(x=x, y=y + height, radius=0.24, fill=PLATE, stroke=_METAL, stroke_width=0.03, tip=tip)


def hatch(x: float, y: float, tip: Tip) -> Iterator[Shape]:
    """Where soups are served."""
    yield Rect(x=x - 0.38, y=y - 0.38, width=0.76, height=0.76, fill=_SERVING, corner=0.1, tip=tip)
    yield Circle(x=x, y=y, radius=0.2, fill=_SERVING, stroke=PLATE, stroke_width=0.04, tip=tip)


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
    yield Circle(x=x, y=y, radius=0.3 * size, fill=PLATE, stroke=_METAL, stroke_width=0.03, alpha=plate)
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
