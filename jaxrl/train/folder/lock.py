"""Lets one process at a time write into a folder. The lock disappears with the process, however it ends."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import time
from collections.abc import Iterator
from pathlib import Path

from jaxrl.errors import shell_path

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None

__all__ = ["NAME", "locked"]

NAME = ".lock"
"""The file that is locked, and says by whom. It is a file because network file systems cannot lock folders."""


@contextlib.contextmanager
def locked(folder: Path | None) -> Iterator[None]:
    """Lock `folder` inside this context; do nothing for None, or if the file system does not support locks.

    A killed process holds no lock: the file that it leaves behind is reused.

    Args:
        folder: The folder; it must exist.

    Raises:
        FileExistsError: Another process has the lock; the message says which one, on which host, since when.
    """
    if folder is None or fcntl is None:
        yield
        return
    path = folder / NAME
    file = _taken(path)
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            if _same(file, path):
                path.unlink()
        os.close(file)


def _taken(path: Path) -> int:
    """The descriptor of the locked file."""
    while not _same(file := _locked(path), path):
        os.close(file)  # the previous holder has just removed it
    now = {"pid": os.getpid(), "host": socket.gethostname(), "since": time.strftime("%Y-%m-%d %H:%M:%S")}
    with contextlib.suppress(OSError):  # a full disk must not prevent training
        path.write_text(json.dumps(now))
    return file


def _locked(path: Path) -> int:
    """Open the file, and lock it if locks are supported here.

    Opening it for writing would prevent its disk from being remounted read-only, so reading comes first; but network
    file systems lock only files that are open for writing.
    """
    assert fcntl is not None
    for mode in (os.O_RDONLY, os.O_RDWR):
        file = os.open(path, mode | os.O_CREAT, 0o666)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return file
        except BlockingIOError:
            os.close(file)
            raise FileExistsError(_refusal(path)) from None
        except OSError:
            os.close(file)
    return os.open(path, os.O_RDONLY)


def _same(file: int, path: Path) -> bool:
    """True if the open file is still the one at that path."""
    try:
        return os.path.samestat(os.fstat(file), path.stat())
    except FileNotFoundError:
        return False


def _refusal(path: Path) -> str:
    """The error message: who has the lock, and what to do."""
    folder = path.parent
    try:
        about = json.loads(path.read_text())
        who = f": process {about['pid']} on {about['host']}, since {about['since']}"
    except (OSError, ValueError, KeyError, TypeError):  # it has only just begun
        who = ""
    shows = f" `jaxrl watch {shell_path(folder)}` shows it." if (folder / "run.json").is_file() else ""
    return (
        f"Another process is training in {folder}{who}.{shows} Wait until it has ended, or name another folder with "
        f"--run-dir."
    )
