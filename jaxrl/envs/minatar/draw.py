"""Pictures: a square for each thing in each cell, in its channel's colour; a small one where a thing comes from."""

from __future__ import annotations

from typing import Any

import numpy as np

from jaxrl.render.scene import Caption, Line, Rect, Scene, Shape, Tip

__all__ = ["draw_cells"]

_BOARD, _GRID, _AROUND = "#141b27", "#1d2736", "#0f141d"
_WHOLE, _SMALL, _BAR = (0.04, 0.04, 0.92, 0.92), (0.32, 0.32, 0.36, 0.36), (0.04, 0.3, 0.92, 0.4)
_PLAYER, _ENEMY, _GOOD, _TRAIL = "#4da3ff", "#e5534b", "#f2cc60", "#6b7a94"

_OWN = ("player", "paddle", "chicken", "cannon", "front", "back")  # what the agent moves

_LOOKS = {
    "player": (_PLAYER, _WHOLE),
    "paddle": (_PLAYER, (0.04, 0.5, 0.92, 0.42)),
    "chicken": (_GOOD, _WHOLE),
    "cannon": (_PLAYER, _WHOLE),
    "front": (_PLAYER, _WHOLE),
    "back": ("#2f68a8", _WHOLE),
    "ball": ("#e6edf7", (0.2, 0.2, 0.6, 0.6)),
    "brick": ("#d9825c", (0.04, 0.12, 0.92, 0.76)),
    "gold": (_GOOD, _WHOLE),
    "enemy": (_ENEMY, _WHOLE),
    "fish": (_ENEMY, (0.04, 0.2, 0.92, 0.6)),
    "submarine": ("#b062d9", _WHOLE),
    "diver": (_GOOD, _WHOLE),
    "alien": ("#57ab5a", _WHOLE),
    "alien to the left": (_BOARD, (0.12, 0.4, 0.2, 0.2)),  # an eye
    "alien to the right": (_BOARD, (0.68, 0.4, 0.2, 0.2)),
    "bullet": ("#e6edf7", _SMALL),
    "alien's bullet": ("#ff8f6b", _SMALL),
    "enemy's bullet": ("#ff8f6b", _SMALL),
    "car": (_ENEMY, (0.04, 0.16, 0.92, 0.68)),
    "oxygen": ("#4dd0c8", _BAR),
    "saved divers": (_GOOD, (0.32, 0.42, 0.36, 0.16)),
}
"""For each channel the colour, and the square in its cell: left, bottom, width, height. Others are trails."""


def draw_cells(name: str, channels: tuple[str, ...], cells: np.ndarray, fact: Any, step: Any) -> Scene:
    """An episode of any game.

    Args:
        name: The game, for the caption.
        channels: What each channel shows.
        cells: Bool `[F, 10, 10, C]`, the observations.
        fact: Another caption, one text or `[F]` of them.
        step: `[F]`, the step number.
    """
    shapes: list[Shape] = [Rect(x=0.0, y=0.0, width=10.0, height=10.0, fill=_BOARD)]
    for line in range(1, 10):
        shapes.append(Line(x=0.0, y=line, dx=10.0, dy=0.0, stroke=_GRID, stroke_width=0.04))
        shapes.append(Line(x=line, y=0.0, dx=0.0, dy=10.0, stroke=_GRID, stroke_width=0.04))
    behind = [channel for channel in channels if channel == "brick"]  # the ball flies through some of them
    trails = [channel for channel in channels if channel not in _LOOKS]
    order = [*behind, *trails, *(channel for channel in channels if channel in _LOOKS and channel not in behind)]
    order.sort(key=lambda channel: channel in _OWN)  # on top, so that a collision shows who collides
    for channel in order:
        shown = cells[..., channels.index(channel)]
        color, (left, bottom, width, height) = _LOOKS.get(channel, (_TRAIL, _SMALL))
        for row, column in np.argwhere(shown.any(axis=0)).tolist():
            shapes.append(
                Rect(
                    x=column + left,
                    y=9 - row + bottom,
                    width=width,
                    height=height,
                    fill=color,
                    corner=0.12,
                    alpha=_alpha(shown[:, row, column]),
                    tip=Tip(channel, {}),
                )
            )
    steps = np.array([f"step {number}" for number in np.asarray(step).tolist()])
    captions = (Caption(name), Caption(fact), Caption(steps))
    return Scene(len(cells), (-0.3, -0.3, 10.3, 10.3), tuple(shapes), captions, _AROUND, step_seconds=1 / 20)


def _alpha(there: np.ndarray) -> Any:
    """1 in the frames where there is something, `[F]`; one number if that never changes."""
    return 1.0 if there.all() else there.astype(np.float64)
