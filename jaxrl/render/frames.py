"""The pixels of films: one film at a steady number of frames per second, or several side by side in a grid."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Protocol

import numpy as np

from jaxrl.render.compose import with_captions
from jaxrl.render.raster import Painted
from jaxrl.render.scene import Film, resample

__all__ = ["Frames", "frames_of"]

_WIDTH, _GRID_WIDTH = 480, 720  # pixels, where the caller names none
_GAP = 4  # pixels between the films of a grid
_GAP_FILL = 40  # their grey


class Frames(Protocol):
    """F frames, uint8 `[H, W, 3]` each; an array uint8 `[F, H, W, 3]` is one, too."""

    def __len__(self) -> int:
        """F."""
        ...

    def __getitem__(self, number: int, /) -> np.ndarray:
        """One frame."""
        ...


def frames_of(
    film: Film | Sequence[Film] | np.ndarray, fps: float, width: int | None = None, speed: float = 1.0
) -> Frames:
    """The frames of a film at `fps` frames per second; the last one has the closing banner.

    Args:
        film: The film; or several, for a grid in which each rests on its last frame until the longest ends; or frames,
            uint8 `[F, H, W, 3]`, which stay as they are.
        fps: Frames per second.
        width: Width in pixels; None for 480, or 720 for a grid.
        speed: Speed of the films: 2 for twice as fast as their environment suggests.

    Raises:
        ImportError: Pillow is not installed.
        ValueError: Frames have another shape or type, there are none, or the speed is not positive.
    """
    if isinstance(film, np.ndarray):
        if film.ndim != 4 or film.shape[-1] != 3 or film.dtype != np.uint8 or not len(film):
            raise ValueError(f"Frames must be uint8 [F, H, W, 3] with F at least 1; got {film.dtype} {film.shape}.")
        return film
    if not speed > 0:
        raise ValueError(f"speed must be positive, got {speed}.")
    if not isinstance(film, Sequence):
        return _painted(film, fps, _WIDTH if width is None else width, speed)
    if not film:
        raise ValueError("A grid needs at least one film.")
    columns = math.ceil(math.sqrt(len(film)))
    wide = ((_GRID_WIDTH if width is None else width) - (columns - 1) * _GAP) // columns
    return _Grid([_painted(each, fps, wide, speed) for each in film], columns)


def _painted(film: Film, fps: float, width: int, speed: float) -> Painted:
    scene = with_captions(film.scene())
    last = scene.num_frames - 1
    stride = film.frames_per_step / scene.step_seconds * speed / fps  # frames of the scene per frame on screen
    times = np.append(np.arange(0, last - 1, stride), [last - 1, last])
    return Painted(resample(scene, times), width)


class _Grid:
    """Films of one width side by side, row by row."""

    def __init__(self, films: Sequence[Frames], columns: int) -> None:
        self._films, self._columns = films, columns
        self._cell = max(film[0].shape[0] for film in films), films[0][0].shape[1]

    def __len__(self) -> int:
        return max(map(len, self._films))

    def __getitem__(self, number: int) -> np.ndarray:
        """One frame, uint8 `[H, W, 3]`."""
        high, wide = (size + _GAP for size in self._cell)
        rows = math.ceil(len(self._films) / self._columns)
        picture = np.full((rows * high - _GAP, self._columns * wide - _GAP, 3), _GAP_FILL, np.uint8)
        for place, film in enumerate(self._films):
            frame = film[min(number, len(film) - 1)]
            y, x = (place // self._columns) * high, (place % self._columns) * wide
            picture[y : y + frame.shape[0], x : x + frame.shape[1]] = frame
        return picture
