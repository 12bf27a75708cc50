"""One process at a time writes into a folder. The lock goes with the process, however that ends."""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import socket
import time
from collections.abc import Iterator
from pathlib import Path

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None

__all__ = ["NAME", "locked"]

NAME = ".lock"
"""The file that is locked, and tells by whom. It is a file because network file systems lock no folders."""


@contextlib.contextmanager
def locked(folder: Path | None) -> Iterator[None]:
    """Keep others out of `folder` meanwhile; with None, and where the file system knows no locks, nothing happens.

    A process that was killed holds nothing: the file that it leaves is taken over.

    Args:
        folder: It must exist.

    Raises:
        FileExistsError: Another process has it; the message tells which one, on which host, since when.
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
        os.close(file)  # the one before has just removed it
    now = {"pid": os.getpid(), "host": socket.gethostname(), "since": time.strftime("%Y-%m-%d %H:%M:%S")}
    with contextlib.suppress(OSError):  # a full disk keeps nobody from training
        path.write_text(json.dumps(now))
    return file


def _locked(path: Path) -> int:
    """The file, open and locked if locks are known here.

    A file that is open for writing would keep its disk from being made read-only, but network file systems lock no
    others.
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
    """Whether the open file is still the one with that name."""
    try:
        return os.path.samestat(os.fstat(file), path.stat())
    except FileNotFoundError:
        return False


def _refusal(path: Path) -> str:
    """Who has the lock, and what to do."""
    folder = path.parent
    try:
        about = json.loads(path.read_text())
        who = f": process {about['pid']} on {about['host']}, since {about['since']}"
    except (OSError, ValueError, KeyError, TypeError):  # it has only just begun
        who = ""
    shows = f" `jaxrl watch {shlex.quote(str(folder))}` shows it." if (folder / "run.json").is_file() else ""
    return (
        f"Another process is training in {folder}{who}.{shows} Wait until it has ended, or name another folder with "
        f"--run-dir."
    )
