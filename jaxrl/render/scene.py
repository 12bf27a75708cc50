"""Scenes: an episode as simple shapes, from which both GIFs and HTML replays are made.

An environment's `draw` returns a `Scene` of F frames. Every field of a shape with the type `Value` is either one value
for the whole episode or an array `[F]` with one per frame. A shape is placed at its anchor (x, y); its other fields are
relative to that. Lengths are in the environment's own units, x to the right and y up. A shape with alpha 0 is hidden.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np

__all__ = [
    "Caption",
    "Circle",
    "Film",
    "Line",
    "Picture",
    "Polygon",
    "Rect",
    "Scene",
    "Shape",
    "Text",
    "Tip",
    "Value",
    "at",
    "resample",
]

Value = Any  # a number or string, or an array [F] of them


@dataclasses.dataclass(frozen=True)
class Tip:
    """The text that the HTML player shows while the pointer is over a shape."""

    title: str
    rows: Mapping[str, Value]
    """Maps labels to values, e.g. `{"health": health}` with `health[F]`."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Shape:
    """The common fields of all shapes: the anchor, the opacity and the tooltip."""

    x: Value
    y: Value
    alpha: Value = 1.0
    tip: Tip | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Circle(Shape):
    """A disc (`fill`), a ring (`stroke`) or both, around the anchor. Colours are `"#rrggbb"`."""

    radius: Value
    fill: Value | None = None
    stroke: Value | None = None
    stroke_width: Value = 0.0


@dataclasses.dataclass(frozen=True, kw_only=True)
class Polygon(Circle):
    """A regular polygon with its corners on the circle; `angle` (radians) turns the first one from the x axis."""

    sides: int
    angle: Value = 0.0


@dataclasses.dataclass(frozen=True, kw_only=True)
class Rect(Shape):
    """An upright box; its lower left corner is at the anchor plus (dx, dy). `corner` is the radius of its corners."""

    width: Value
    height: Value
    fill: Value
    dx: Value = 0.0
    dy: Value = 0.0
    corner: float = 0.0


@dataclasses.dataclass(frozen=True, kw_only=True)
class Line(Shape):
    """A straight line from the anchor to the anchor plus (dx, dy), with round ends."""

    dx: Value
    dy: Value
    stroke: Value
    stroke_width: Value


@dataclasses.dataclass(frozen=True, kw_only=True)
class Text(Shape):
    """A line of text of height `size`, vertically centred at the anchor; `align` is "left", "middle" or "right"."""

    text: Value
    size: float
    fill: Value = "#ffffff"
    align: str = "middle"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Picture(Shape):
    """A picture with its lower left corner at the anchor, for what others have drawn."""

    png: Value
    """The content of a PNG file, `bytes`, or an array `[F]` of them (dtype object)."""
    width: float
    height: float


@dataclasses.dataclass(frozen=True)
class Caption:
    """One of the texts in the strip above the picture."""

    text: Value
    color: str = "#c9d4e5"


@dataclasses.dataclass(frozen=True)
class Scene:
    """F frames of shapes, drawn in the order given."""

    num_frames: int
    view: tuple[float, float, float, float]
    """The visible area: left, bottom, right, top."""
    shapes: tuple[Shape, ...]
    captions: tuple[Caption, ...] = ()
    """Up to three texts above the picture: left, middle, right."""
    background: str = "#0f141d"
    step_seconds: float = 0.1
    """Duration of an environment step on screen: real time, or slower or faster if that is better to watch."""

    @property
    def width(self) -> float:
        """The width of the view."""
        return self.view[2] - self.view[0]

    @property
    def height(self) -> float:
        """The height of the view."""
        return self.view[3] - self.view[1]


def at(value: Value, frame: int) -> Any:
    """The value of a shape's field in one frame."""
    return value[frame] if isinstance(value, np.ndarray) and value.ndim else value


def resample(scene: Scene, times: np.ndarray) -> Scene:
    """The scene with G frames at `times[G]`, given in frames (0 … F-1, fractions allowed).

    Numbers are interpolated between two frames, but only for a shape that is visible in both; otherwise, and for
    values that are not numbers, the earlier frame applies. The HTML player does the same.
    """
    times = np.clip(np.asarray(times, np.float64), 0, scene.num_frames - 1)
    before = np.floor(times).astype(int)
    after = np.minimum(before + 1, scene.num_frames - 1)

    def at_times(value: Value, fraction: np.ndarray) -> Value:
        if not isinstance(value, np.ndarray) or not value.ndim:
            return value
        if not np.issubdtype(value.dtype, np.number):
            return value[before]
        return value[before] * (1 - fraction) + value[after] * fraction

    def shape_at_times(shape: Shape) -> Shape:
        alpha = np.broadcast_to(shape.alpha, (scene.num_frames,))
        fraction = np.where((alpha[before] > 0) & (alpha[after] > 0), times - before, 0.0)
        fields = {field.name: getattr(shape, field.name) for field in dataclasses.fields(shape)}
        return type(shape)(**{name: at_times(value, fraction) for name, value in fields.items()})

    captions = tuple(dataclasses.replace(c, text=at_times(c.text, times - before)) for c in scene.captions)
    shapes = tuple(map(shape_at_times, scene.shapes))
    return dataclasses.replace(scene, num_frames=len(times), shapes=shapes, captions=captions)


class Film(Protocol):
    """Something that can be shown: a scene, and the number of its frames per step."""

    @property
    def title(self) -> str:
        """The title, one line of text."""
        ...

    @property
    def frames_per_step(self) -> int:
        """Frames of the scene from one step to the next."""
        ...

    def scene(self) -> Scene:
        """The shapes and captions, frame by frame."""
        ...
