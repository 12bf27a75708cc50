"""A self-contained HTML page that plays an episode without a network."""

from __future__ import annotations

import base64
import dataclasses
import html as html_text
import json
import os
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np

from jaxrl.render.scene import Film, Picture, Scene, Shape, Value, jumps

__all__ = ["encode", "save_html", "to_html"]

_WIDTH = 4000  # lengths are written as whole numbers, in units of the view's width over this
_LENGTHS = frozenset({"radius", "stroke_width", "width", "height", "dx", "dy", "corner", "size"})


def save_html(film: Film, path: str | os.PathLike[str]) -> None:
    """Write an episode as one HTML file: play, pause, scrub, speed; pointing at a unit shows what it is doing."""
    Path(path).write_text(to_html(film), encoding="utf-8")


def to_html(film: Film) -> str:
    """The HTML page as text."""
    data = encode(film.scene(), film.frames_per_step)
    # "<" can only occur inside a JSON string, where this escape is equivalent; so no text can end the script element.
    text = json.dumps(data, separators=(",", ":")).replace("<", "\\u003c")
    template = resources.files("jaxrl.render").joinpath("player.html").read_text(encoding="utf-8")
    before, between, after = template.replace("{{title}}", html_text.escape(film.title)).partition("{{replay}}")
    assert between, "the template lost its place for the data"
    return before + text + after


def encode(scene: Scene, frames_per_step: int) -> dict[str, Any]:
    """The scene as plain JSON values, for the player.

    Returns:
        `frames`, `framesPerStep`, `stepSeconds`, `background`, `width`, `height`; `captions`, a list of objects with
        `text` and `color`; `shapes`, a list of objects with `kind` and the fields of the shape, x from the left and y
        from the top; and `series`, to which fields that change refer as `{"s": index}`. A series is a list with one
        value per frame or, if few change, `{"at": frames, "to": values}`: the values that apply from these frames on.
    """
    table = _Series(scene.num_frames)
    left, _, _, top = scene.view
    scale = _WIDTH / scene.width
    shapes = []
    for shape in scene.shapes:
        shapes.append(_encode_shape(shape, table, left, top, scale))
        if (jump := jumps(shape, scene)).any():
            shapes[-1]["jump"] = table.put(jump)
    return {
        "frames": scene.num_frames,
        "framesPerStep": frames_per_step,
        "stepSeconds": scene.step_seconds,
        "background": scene.background,
        "width": _WIDTH,
        "height": round(scene.height * scale),
        "captions": [{"text": table.put(caption.text), "color": caption.color} for caption in scene.captions],
        "shapes": shapes,
        "series": table.series,
    }


def _encode_shape(shape: Shape, table: _Series, left: float, top: float, scale: float) -> dict[str, Any]:
    """The shape's fields; those that are None are left out."""
    out: dict[str, Any] = {"kind": type(shape).__name__.lower()}
    for field in dataclasses.fields(shape):
        value = getattr(shape, field.name)
        if field.name in ("tip", "jump") or value is None:
            continue
        if field.name == "x":
            value = np.rint((np.asarray(value) - left) * scale).astype(int)
        elif field.name == "y":
            value = np.rint((top - np.asarray(value)) * scale).astype(int)
        elif field.name in _LENGTHS:
            sign = -1 if field.name == "dy" else 1
            value = np.rint(sign * np.asarray(value) * scale).astype(int)
        elif field.name in ("alpha", "angle"):
            value = np.round(np.asarray(value, np.float64), 2)
        elif isinstance(shape, Picture) and field.name == "png":
            value = _addresses(value)
        out[field.name] = table.put(value)
    if shape.tip is not None:
        rows = {label: table.put(value) for label, value in shape.tip.rows.items()}
        out["tip"] = {"title": shape.tip.title, "rows": rows}
    return out


def _addresses(png: Any) -> Any:
    """The contents of PNG files as addresses that need no network, in the form of a field of a shape."""

    def address(content: bytes) -> str:
        return f"data:image/png;base64,{base64.b64encode(content).decode()}"

    return address(png) if isinstance(png, bytes) else np.array([address(content) for content in png], object)


class _Series:
    """The series of values that change over the frames, each stored once."""

    def __init__(self, num_frames: int) -> None:
        self.num_frames = num_frames
        self.series: list[Any] = []
        self._index: dict[bytes, int] = {}

    def put(self, value: Value) -> Any:
        """The encoding of a field: the value itself if it never changes, otherwise `{"s": index}`."""
        array = np.asarray(value)
        if not array.ndim:
            return array.item()
        changes = np.flatnonzero(array[1:] != array[:-1]) + 1
        if not len(changes):
            return array[:1].tolist()[0]
        values = array.tolist()
        few = len(changes) < self.num_frames / 4
        at = [0, *changes.tolist()]
        series = {"at": at, "to": [values[frame] for frame in at]} if few else values
        content = repr(values).encode() if array.dtype == object else array.tobytes()
        identity = content + str(array.dtype).encode()
        if identity not in self._index:
            self._index[identity] = len(self.series)
            self.series.append(series)
        return {"s": self._index[identity]}
