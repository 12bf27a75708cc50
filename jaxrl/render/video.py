"""Films as frames at a steady rate, alone or in a grid: animated GIFs (Pillow, extra `viz`), mp4 videos (ffmpeg)."""

from __future__ import annotations

import importlib
import math
import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from typing import Protocol

import numpy as np

from jaxrl.render.raster import Painted, pillow
from jaxrl.render.scene import Film, resample, with_captions

__all__ = ["Frames", "find_ffmpeg", "frames_of", "save_gif", "save_mp4"]

_WIDTH, _GRID_WIDTH = 480, 720  # pixels, where the caller names none
_GAP = 4  # pixels between the films of a grid
_GAP_FILL = 40  # their grey
_HOLD = 1.5  # seconds for which the last frame is shown
_SAMPLED = 24  # number of frames whose colours determine the palette
_COMMON = 64  # number of palette colours that are kept exactly
_UNCHANGED = 255  # the index that lets the previous frame show through


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
    durations = [round(100 / fps) * 10] * (len(images) - 1) + [round(1000 * _HOLD)]
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


def save_mp4(
    film: Film | Sequence[Film] | np.ndarray,
    path: str | os.PathLike[str],
    fps: int = 30,
    *,
    width: int | None = None,
    speed: float = 1.0,
) -> None:
    """Write an episode as an mp4 video that rests on its last frame.

    Args:
        film: The film to show, such as a `Replay`; or several, side by side in a grid; or frames, uint8 `[F, H, W, 3]`.
        path: The file.
        fps: Frames per second.
        width: Width in pixels, for films; None for 480, or 720 for a grid.
        speed: Speed of a film: 2 for twice as fast as its environment suggests.

    Raises:
        ImportError: Pillow is not installed, or ffmpeg is not found.
        ValueError: Frames have another shape or type, there are none, or `fps` or `speed` is out of range.
        OSError: The file cannot be written, or ffmpeg fails.
    """
    if fps < 1:
        raise ValueError(f"fps must be at least 1, got {fps}.")
    ffmpeg = find_ffmpeg()
    frames = frames_of(film, fps, width, speed)
    height, wide = frames[0].shape[:2]
    source = ["-f", "rawvideo", "-pix_fmt", "rgb24", "-s", f"{wide}x{height}", "-r", str(fps), "-i", "-"]
    # Most players want these colours, and for them even sizes.
    target = ["-vf", "pad=ceil(iw/2)*2:ceil(ih/2)*2", "-pix_fmt", "yuv420p", "-movflags", "+faststart", "-f", "mp4"]
    command = [ffmpeg, "-y", "-loglevel", "error", *source, *target, os.fspath(path)]
    with tempfile.TemporaryFile() as errors:
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stderr=errors)
        _feed(process, frames, round(_HOLD * fps))
        if process.wait():
            errors.seek(0)
            raise OSError(f"ffmpeg could not write {os.fspath(path)}: {errors.read().decode(errors='replace').strip()}")


def _feed(process: subprocess.Popen[bytes], frames: Frames, hold: int) -> None:
    """Give the process all frames, the last one `hold` times more."""
    assert process.stdin is not None
    try:
        with process.stdin as pipe:
            for number in [*range(len(frames)), *[len(frames) - 1] * hold]:
                pipe.write(frames[number].tobytes())
    except BrokenPipeError:
        pass  # it ended early, and its exit code and its words say why
    except BaseException:
        process.kill()
        process.wait()
        raise


def find_ffmpeg() -> str:
    """The path of ffmpeg: the one on the PATH, or that of the package imageio-ffmpeg.

    Raises:
        ImportError: There is none.
    """
    found = shutil.which("ffmpeg")
    if found:
        return found
    try:
        return importlib.import_module("imageio_ffmpeg").get_ffmpeg_exe()
    except (ImportError, RuntimeError) as error:
        raise ImportError(
            "An mp4 needs ffmpeg, which is not on the PATH. Install it (apt install ffmpeg, brew install ffmpeg, or "
            "pip install imageio-ffmpeg), or name the file .gif or .html."
        ) from error
