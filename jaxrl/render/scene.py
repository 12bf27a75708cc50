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
    "Ellipse",
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
    "jumps",
    "resample",
    "with_banner",
    "with_captions",
]

Value = Any  # a number or string, or an array [F] of them
_FAR = 0.4  # parts of the picture's longer side: what moves farther in one frame has not gone there (respawn, torus)
_STRIP = 0.058  # height of the strip of captions, and other lengths, as fractions of the picture's width
_TEXT = 0.029
_STRIP_FILL = _BANNER_FILL = "#0a0e15"


@dataclasses.dataclass(frozen=True)
class Tip:
    """The text that the HTML player shows while the pointer is over a shape."""

    title: str
    rows: Mapping[str, Value]
    """Maps labels to values, e.g. `{"health": health}` with `health[F]`."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Shape:
    """The common fields of all shapes: the anchor, the opacity, the tooltip, and where motion is not smooth."""

    x: Value
    y: Value
    alpha: Value = 1.0
    tip: Tip | None = None
    jump: Value = False
    """Frames from which the shape does not glide to the next one, such as a card that is dealt anew; far moves are
    jumps anyway, see `jumps`."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Circle(Shape):
    """A disc (`fill`), a ring (`stroke`) or both, around the anchor. Colours are `"#rrggbb"`."""

    radius: Value
    fill: Value | None = None
    stroke: Value | None = None
    stroke_width: Value = 0.0


@dataclasses.dataclass(frozen=True, kw_only=True)
class Polygon(Circle):
    """A regular polygon with its corners on the circle; `angle` (radians) turns the first one from the x axis.

    From frame to frame it turns the shorter way, whatever full turns the angles leave out.
    """

    sides: int
    angle: Value = 0.0

    def __post_init__(self) -> None:
        if np.ndim(self.angle):
            object.__setattr__(self, "angle", np.unwrap(np.asarray(self.angle, np.float64)))


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
class Ellipse(Rect):
    """The ellipse that fits into such a box (`corner` says nothing here)."""


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


def jumps(shape: Shape, scene: Scene) -> np.ndarray:
    """The frames from which a shape jumps to the next one, bool `[F]`: where it says so, and where it moves far."""
    x, y = (np.broadcast_to(value, scene.num_frames).astype(np.float64) for value in (shape.x, shape.y))
    far = np.hypot(np.diff(x), np.diff(y)) > _FAR * max(scene.width, scene.height)
    return np.append(far, False) | np.asarray(shape.jump, bool)


def resample(scene: Scene, times: np.ndarray) -> Scene:
    """The scene with G frames at `times[G]`, given in frames (0 … F-1, fractions allowed).

    Numbers are interpolated between two frames, but only for a shape that is visible in both and does not jump;
    otherwise, and for values that are not numbers, the earlier frame applies. The HTML player does the same.
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
        smooth = (alpha[before] > 0) & (alpha[after] > 0) & ~jumps(shape, scene)[before]
        fraction = np.where(smooth, times - before, 0.0)
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


def with_captions(scene: Scene) -> Scene:
    """The scene with its captions as shapes in a strip added above its view (unchanged if it has none)."""
    if not scene.captions:
        return scene
    left, bottom, right, top = scene.view
    strip = _STRIP * scene.width
    middle = (left + right) / 2
    margin = 0.02 * scene.width
    places = ((left + margin, "left"), (middle, "middle"), (right - margin, "right"))
    # A long caption may need more room than its third. The strip is opaque, so it is drawn after the picture.
    shapes: list[Shape] = [Rect(x=left, y=top, width=scene.width, height=strip, fill=_STRIP_FILL)]
    for caption, (x, align) in zip(scene.captions, places, strict=False):
        y = top + strip / 2
        size = _TEXT * scene.width
        shapes.append(Text(x=x, y=y, text=caption.text, size=size, fill=caption.color, align=align))
    view = (left, bottom, right, top + strip)
    return dataclasses.replace(scene, view=view, shapes=(*scene.shapes, *shapes), captions=())


def with_banner(scene: Scene, text: str, color: str) -> Scene:
    """The scene with an extra frame: the last one with the banner `text`."""
    num_frames = scene.num_frames + 1

    def extended(value: Any) -> Any:
        return np.append(value, value[-1:], axis=0) if isinstance(value, np.ndarray) and value.ndim else value

    def longer(shape: Shape) -> Shape:
        fields = {field.name: extended(getattr(shape, field.name)) for field in dataclasses.fields(shape)}
        if shape.tip is not None:
            rows = {label: extended(value) for label, value in shape.tip.rows.items()}
            fields["tip"] = dataclasses.replace(shape.tip, rows=rows)
        return type(shape)(**fields)

    left, bottom, right, _ = scene.view
    at_end = np.arange(num_frames) == num_frames - 1
    height = 0.1 * scene.width
    y = bottom + 0.75 * height + 0.02 * scene.width  # low, so as not to hide the action
    size = min(0.055, 1.4 / max(len(text), 1))  # a long text is shrunk to fit
    banner = (
        Rect(x=left, y=y, dy=-height / 2, width=scene.width, height=height, fill=_BANNER_FILL, alpha=0.72 * at_end),
        Rect(
            x=left, y=y, dy=-height / 2, width=scene.width, height=0.004 * scene.width, fill=color, alpha=1.0 * at_end
        ),
        Rect(x=left, y=y, dy=height / 2, width=scene.width, height=0.004 * scene.width, fill=color, alpha=1.0 * at_end),
        Text(x=(left + right) / 2, y=y, text=text, size=size * scene.width, fill=color, alpha=1.0 * at_end),
    )
    captions = tuple(dataclasses.replace(caption, text=extended(caption.text)) for caption in scene.captions)
    shapes = (*map(longer, scene.shapes), *banner)
    return dataclasses.replace(scene, num_frames=num_frames, shapes=shapes, captions=captions)
