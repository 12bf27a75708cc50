"""Files that are replaced whole: a reader, even after a power cut, finds the old content or the new one."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

__all__ = ["replace_file"]


def replace_file(path: Path, content: bytes) -> None:
    """Write a file, in place of an older one if there is one.

    Args:
        path: The file; its folder must exist.
        content: All of it.

    Raises:
        OSError: It cannot be written; the old file is unchanged.
    """
    new = path.with_name(f"{path.name}.new")
    try:
        new.unlink(missing_ok=True)
        with new.open("xb") as file:  # "x" creates a file instead of following a link
            file.write(content)
            file.flush()
            os.fsync(file.fileno())  # or a power cut could leave an empty file under the old name
        os.replace(new, path)
    except OSError:
        with contextlib.suppress(OSError):
            new.unlink(missing_ok=True)
        raise
    _sync_folder(path.parent)


def _sync_folder(folder: Path) -> None:
    """Make sure that a new file name is on disk as well, if the system supports it."""
    with contextlib.suppress(OSError):
        place = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(place)
        finally:
            os.close(place)
