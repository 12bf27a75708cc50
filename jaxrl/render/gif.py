"""Animated GIFs, with Pillow (extra `viz`)."""

from __future__ import annotations

import os
from collections.abc import Sequence

import numpy as np

from jaxrl.render.frames import Frames, frames_of
from jaxrl.render.raster import pillow
from jaxrl.render.scene import Film

__all__ = ["save_gif"]

_HOLD = 1500  # milliseconds for which the last frame is shown
_SAMPLED = 24  # number of frames whose colours determine the palette
_COMMON = 64  # number of palette colours that are kept exactly
_UNCHANGED = 255  # the index that lets the previous frame show through


def save_gif(
    film: Film | Sequence[Film] | np.ndarray,
    path: str | os.PathLike[str],
    fps: int = 20,
    *,
    width: int | None = None,
    speed: float = 1.0,
) -> None:
    """Write an episode as a GIF that loops forever and pauses on its last frame.

    Args:
        film: The film to show, such as a `Replay`; or several, side by side in a grid; or frames, uint8 `[F, H, W, 3]`.
        path: The file.
        fps: Frames per second; a GIF counts in hundredths of a second, so 10, 20, 25 or 50 are exact.
        width: Width in pixels, for films; None for 480, or 720 for a grid.
        speed: Speed of a film: 2 for twice as fast as its environment suggests.

    Raises:
        ImportError: Pillow is not installed.
        ValueError: Frames have another shape or type, there are none, or `fps` or `speed` is out of range.
    """
    pillow()
    if not 1 <= fps <= 50:
        raise ValueError(f"fps must be from 1 to 50 (what GIF players show), got {fps}.")
    from PIL import Image

    palette, indices = _with_shared_palette(frames_of(film, fps, width, speed))
    indices[1:][indices[1:] == indices[:-1]] = _UNCHANGED
    images = [Image.fromarray(frame) for frame in indices]
    for image in images:
        image.putpalette(palette)
    durations = [round(100 / fps) * 10] * (len(images) - 1) + [_HOLD]
    images[0].save(
        path,
        format="GIF",
        save_all=True,
        append_images=images[1:],
        duration=durations,
        loop=0,
        disposal=1,  # each frame is painted over the previous one
        palette=palette,
        transparency=_UNCHANGED,
        optimize=False,
    )


def _with_shared_palette(frames: Frames) -> tuple[bytes, np.ndarray]:
    """A palette of 256 colours, the last unused, and the frames in that palette: `(palette, indices [F, H, W])`.

    There is no dithering, so an unchanged colour keeps its index and costs nothing in the file.
    """
    from PIL import Image

    chosen = np.unique(np.linspace(0, len(frames) - 1, _SAMPLED).astype(int)).tolist()
    sample = np.concatenate([frames[number].reshape(-1, 3) for number in chosen])
    # The most common colours exactly; then, for all the shades at edges, each colour once (to 5 bits per channel), so
    # that the large background does not outweigh small bright details.
    codes, counts = np.unique(sample.astype(np.int32) @ np.array([65536, 256, 1]), return_counts=True)
    common = codes[np.argsort(-counts)[:_COMMON]]
    common = np.stack([common >> 16, (common >> 8) & 255, common & 255], axis=-1).astype(np.uint8)
    _, first = np.unique((sample >> 3) @ np.array([1024, 32, 1]), return_index=True)
    shades = Image.fromarray(sample[first][None]).quantize(_UNCHANGED - len(common), Image.Quantize.MEDIANCUT)
    shades = np.asarray(shades.getpalette(), np.uint8).reshape(-1, 3)[: _UNCHANGED - len(common)]
    colors = np.unique(np.concatenate([common, shades]), axis=0)
    source = Image.new("P", (1, 1))
    source.putpalette(np.concatenate([colors, np.repeat(colors[:1], 256 - len(colors), axis=0)]).tobytes())

    def indices(frame: np.ndarray) -> np.ndarray:
        return np.asarray(Image.fromarray(frame).quantize(palette=source, dither=Image.Dither.NONE))

    # Pillow spends most of the time of a GIF on a palette in which a colour occurs twice, so greys fill the rest.
    greys = np.repeat(np.arange(256, dtype=np.uint8)[:, None], 3, axis=1)
    spare = greys[~(greys[:, None] == colors).all(-1).any(-1)][: 256 - len(colors)]
    palette = np.concatenate([colors, spare]).tobytes()
    return palette, np.stack([indices(frames[number]) for number in range(len(frames))])
