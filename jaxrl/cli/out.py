"""Checks of the place that `--out` names, before a command spends time on what it will write there."""

from __future__ import annotations

import os
from pathlib import Path

__all__ = ["check_film", "check_folder"]


def check_folder(folder: Path, flag: str = "--out") -> None:
    """Check that files can be written to a folder, without creating anything.

    Args:
        folder: The folder, which need not exist yet.
        flag: The flag that names it, for the message.

    Raises:
        FileExistsError: The folder, or one that it would be in, is a file.
        PermissionError: Nothing can be written there.
    """
    there = next(each for each in (folder, *folder.parents) if os.path.lexists(each))
    if not there.is_dir():
        raise FileExistsError(f"{there} is not a folder; name another place with {flag}.")
    if not os.access(there, os.W_OK | os.X_OK):
        raise PermissionError(f"Nothing can be written in {there}; name another place with {flag}.")


def check_film(out: Path) -> None:
    """Check that a film can be written to this file, before its episodes are played.

    Raises:
        ValueError: The file's suffix is not the suffix of a film.
        OSError: It is a folder; or see `check_folder`.
        ImportError: The film needs Pillow or ffmpeg, and it is missing.
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
