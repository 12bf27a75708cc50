"""File errors in words: the reason, how many bytes are needed, and how many are free."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path

from jaxrl.display import data_size

__all__ = ["check_writable", "refuse_link", "refuse_links", "why", "writing"]

_REASONS = {
    "the disk is full": (errno.ENOSPC, errno.EDQUOT, errno.EFBIG),
    "the file system is read-only": (errno.EROFS,),
    "a file is where a folder is needed": (errno.ENOTDIR,),
    "its folder is missing, perhaps moved or removed": (errno.ENOENT,),
    "something has that name already, perhaps a link to nothing": (errno.EEXIST,),
    "writing there is not allowed": (errno.EACCES, errno.EPERM),
}


def why(error: BaseException, folder: Path, needed: int | None = None) -> str:
    """The reason in words, such as `the disk is full (up to 3.2 MB are needed, 0.1 MB are free in runs/demo)`.

    Args:
        error: The error that writing raised.
        folder: The folder written to; it need not exist.
        needed: Bytes, if known.
    """
    free = f"{data_size(_free(folder))} are free in {folder}"
    return (
        f"{_reason(error)} ({free})"
        if needed is None
        else f"{_reason(error)} (up to {data_size(needed)} are needed, {free})"
    )


def check_writable(folder: Path, cure: str = "Choose another --run-dir.") -> None:
    """Write a small file into a folder, so that a run that could save nothing fails before it begins.

    Args:
        folder: It exists.
        cure: What to do if nothing can be written there, a sentence.

    Raises:
        OSError: The folder is not writable; the message is one sentence.
    """
    probe = folder / f".probe-{os.getpid()}"
    try:
        try:
            probe.write_bytes(bytes(4096))
        finally:
            probe.unlink(missing_ok=True)
    except OSError as error:
        raise OSError(f"Nothing can be written in {folder}: {why(error, folder)}. {cure}") from error


@contextlib.contextmanager
def writing(out: Path, flag: str = "--out") -> Iterator[None]:
    """A context in which the file that a flag names is written: an OSError says why it fails, and what to type.

    Raises:
        OSError: The message is one sentence.
    """
    try:
        yield
    except OSError as error:
        raise OSError(f"{out} cannot be written: {why(error, out.parent)}. Name another place with {flag}.") from error


def refuse_link(path: Path, say: str = "remove it first") -> Path:
    """`path`, unless it is a link: a run folder may come from anyone, and a link in it could point anywhere.

    Raises:
        FileExistsError: `path` is a link, or something else that is neither a file nor a folder.
    """
    try:
        mode = path.lstat().st_mode
    except FileNotFoundError:
        return path
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
        what = "a link" if stat.S_ISLNK(mode) else "no file"
        raise FileExistsError(f"{path} is {what}, and what is written there could end up anywhere; {say}.")
    return path


def refuse_links(folder: Path) -> None:
    """Raise FileExistsError if anything in a folder, at any depth, is a link."""
    for place, folders, files in os.walk(folder):
        for name in (*folders, *files):
            refuse_link(Path(place, name), "remove it first, or type jaxrl resume with --trust if you have made it")


def _reason(error: BaseException) -> str:
    """The reason for an error. Orbax hides the error number in the text, sometimes as TensorStore's name for it."""
    number, text = getattr(error, "errno", None), str(error).strip()
    for reason, numbers in _REASONS.items():
        if number in numbers or any(os.strerror(n) in text for n in numbers):
            return reason
    return text.splitlines()[0][:300].rstrip(".") if text else type(error).__name__


def _free(folder: Path) -> int:
    """The free bytes in a folder, or where it would be created."""
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    return shutil.disk_usage(folder).free
