"""Videos, with ffmpeg where it is found."""

from __future__ import annotations

import importlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence

import numpy as np

from jaxrl.render.frames import Frames, frames_of
from jaxrl.render.scene import Film

__all__ = ["find_ffmpeg", "save_mp4"]

_HOLD = 1.5  # seconds for which the last frame is shown


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
