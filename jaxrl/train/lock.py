"""One process at a time writes into a run folder. The lock goes with the process, however that ends."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None

__all__ = ["locked"]


@contextlib.contextmanager
def locked(folder: Path | None) -> Iterator[None]:
    """Keep others out of `folder` meanwhile; with None, and where the file system knows no locks, nothing happens.

    Raises:
        FileExistsError: Another one has it.
    """
    if folder is None or fcntl is None:
        yield
        return
    place = os.open(folder, os.O_RDONLY)
    try:
        try:
            fcntl.flock(place, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise FileExistsError(
                f"Another process is training in {folder}; `jaxrl watch {folder}` shows it. Wait until it has ended, "
                f"or name another folder with --run-dir."
            ) from None
        except OSError:
            pass
        yield
    finally:
        os.close(place)
