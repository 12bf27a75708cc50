"""Additions to every picture: a strip of captions at the top, and a banner at the end."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from jaxrl.render.scene import Rect, Scene, Shape, Text

__all__ = ["with_banner", "with_captions"]

_STRIP = 0.058  # height of the strip, and other lengths, as fractions of the picture's width
_TEXT = 0.029
_STRIP_FILL = "#0a0e15"
_BANNER_FILL = "#0a0e15"


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
