"""Scenes made of the pixels that other libraries draw, one picture per frame."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Iterable, Iterator
from typing import Any

import jax
import numpy as np

from jaxrl.render.raster import pillow
from jaxrl.render.scene import Caption, Picture, Scene

__all__ = ["DPI", "closing", "pixels", "scene_of", "unstacked"]

_SMALL = 320  # pixels: a picture that is smaller is enlarged, in whole numbers, so that its tiles stay sharp
DPI = 64
"""Dots per inch of figures; most are five or six inches wide."""


def unstacked(states: Any) -> list[Any]:
    """States with NumPy leaves `[F, …]` as F states."""
    count = len(jax.tree.leaves(states)[0])
    return [jax.tree.map(lambda leaf, frame=frame: leaf[frame], states) for frame in range(count)]


def pixels(figure: Any) -> np.ndarray:
    """The pixels of a matplotlib figure, uint8 `[H, W, 3]`."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    figure.set_dpi(DPI)
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    return np.asarray(canvas.buffer_rgba())[..., :3].copy()


@contextlib.contextmanager
def closing(figure: Any) -> Iterator[None]:
    """Close a pyplot figure at the end, so that no notebook shows it."""
    from matplotlib import pyplot

    try:
        yield
    finally:
        pyplot.close(figure)


def scene_of(frames: Iterable[np.ndarray], name: str, step_seconds: float) -> Scene:
    """A scene that shows `frames`, uint8 `[H, W, 3]` of one size each, and the number of the step.

    Raises:
        ImportError: Pillow is not installed.
    """
    pillow()
    from PIL import Image

    files, size, last, content = [], (1, 1), None, b""
    for frame in frames:
        if last is None or not np.array_equal(frame, last):
            picture, last = Image.fromarray(np.ascontiguousarray(frame, np.uint8)), frame
            times = max(1, _SMALL // max(picture.size))
            size = picture.width * times, picture.height * times
            file = io.BytesIO()
            picture.resize(size, Image.Resampling.NEAREST).save(file, format="PNG")
            content = file.getvalue()
        files.append(content)
    png = np.empty(len(files), object)
    png[:] = files
    width, height = map(float, size)
    return Scene(
        num_frames=len(files),
        view=(0.0, 0.0, width, height),
        shapes=(Picture(x=0.0, y=0.0, png=png, width=width, height=height),),
        captions=(Caption(name), Caption(""), Caption(np.array([f"step {step}" for step in range(len(files))]))),
        step_seconds=step_seconds,
    )
