"""What goes wrong with files, in words: why, how many bytes were wanted, and how many there are."""

from __future__ import annotations

import errno
import os
import shutil
from pathlib import Path

__all__ = ["check_writable", "refuse_link", "why"]

_REASONS = {
    "the disk is full": (errno.ENOSPC, errno.EDQUOT, errno.EFBIG),
    "the file system is read-only": (errno.EROFS,),
    "writing there is not allowed": (errno.EACCES, errno.EPERM),
}


def why(error: BaseException, folder: Path, needed: int | None = None) -> str:
    """For example `the disk is full (up to 3.2 MB are needed, 0.1 MB are free in runs/demo)`.

    Args:
        error: What was raised when something was to be written.
        folder: Where; it need not exist.
        needed: Bytes, if known.
    """
    free = f"{_size(_free(folder))} are free in {folder}"
    return (
        f"{_reason(error)} ({free})"
        if needed is None
        else f"{_reason(error)} (up to {_size(needed)} are needed, {free})"
    )


def check_writable(folder: Path) -> None:
    """Write a little into a folder, so that a run which could save nothing ends before it begins.

    Raises:
        OSError: It is not possible, in one sentence.
    """
    probe = folder / f".probe-{os.getpid()}"
    try:
        try:
            probe.write_bytes(bytes(4096))
        finally:
            probe.unlink(missing_ok=True)
    except OSError as error:
        raise OSError(f"Nothing can be written in {folder}: {why(error, folder)}. Choose another --run-dir.") from error


def refuse_link(path: Path) -> Path:
    """`path`, unless it is a link: a run folder may come from anybody, and a link in it leads anywhere.

    Raises:
        FileExistsError: It is one.
    """
    if path.is_symlink():
        raise FileExistsError(f"{path} is a link, and what is written there could end up anywhere; remove it first.")
    return path


def _reason(error: BaseException) -> str:
    """Orbax hides the number of an error in its text, sometimes as TensorStore's name for it."""
    number, text = getattr(error, "errno", None), str(error).strip()
    for reason, numbers in _REASONS.items():
        if number in numbers or any(os.strerror(n) in text for n in numbers):
            return reason
    return text.splitlines()[0][:300].rstrip(".") if text else type(error).__name__


def _free(folder: Path) -> int:
    """Bytes that can be written there, or where it would be made."""
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    return shutil.disk_usage(folder).free


def _size(count: int) -> str:
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= size:
            return f"{count / size:.1f} {unit}"
    return f"{count} bytes"
