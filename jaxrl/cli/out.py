"""The place that `--out` names, looked at before time is spent on what goes there."""

from __future__ import annotations

import os
from pathlib import Path

__all__ = ["check_film", "check_folder"]


def check_folder(folder: Path, flag: str = "--out") -> None:
    """Raise at once what would otherwise be found out when files are to be written there; nothing is made yet.

    Args:
        folder: Where they go.
        flag: What names it.

    Raises:
        FileExistsError: It, or a folder that it would be in, is a file.
        PermissionError: Nothing can be written there.
    """
    there = next(each for each in (folder, *folder.parents) if os.path.lexists(each))
    if not there.is_dir():
        raise FileExistsError(f"{there} is not a folder; name another place with {flag}.")
    if not os.access(there, os.W_OK | os.X_OK):
        raise PermissionError(f"Nothing can be written in {there}; name another place with {flag}.")


def check_film(out: Path) -> None:
    """Raise at once what would otherwise be found out when a film is to be written, after its episodes were played.

    Raises:
        ValueError: Its ending is that of no film.
        OSError: It is a folder; or see `check_folder`.
        ImportError: Pillow, or ffmpeg, is needed and not found.
    """
    from jaxrl.render import SUFFIXES
    from jaxrl.render.mp4 import find_ffmpeg
    from jaxrl.render.raster import pillow

    suffix = out.suffix.lower()
    if suffix not in SUFFIXES:
        raise ValueError(f"--out must end in {', '.join(SUFFIXES[:-1])} or {SUFFIXES[-1]}, got {out}.")
    if out.is_dir():
        raise IsADirectoryError(f"{out} is a folder; name another place with --out.")
    check_folder(out.parent)
    if suffix != ".html":
        pillow()
    if suffix == ".mp4":
        find_ffmpeg()
