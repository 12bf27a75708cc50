"""JSON files that survive a power cut, hold no bare NaN, and say in a sentence what is wrong with them."""

from __future__ import annotations

import contextlib
import json
import math
import os
from pathlib import Path
from typing import Any

__all__ = ["DamagedFileError", "parse", "plain", "read_json", "to_json", "write_json"]


class DamagedFileError(ValueError):
    """A file that is not, or does not say, what it should; the message names it."""


def write_json(path: Path, content: dict[str, Any], indent: int | None = 2) -> None:
    """Replace a file in one go: who reads it, even after a power cut, finds the old content or the new one.

    Args:
        path: Of the file; its folder exists.
        content: JSON-able; numbers that are not finite become null.
        indent: Of the text; None for a single line.

    Raises:
        OSError: The file is as it was.
    """
    text = to_json(content, indent) + "\n"
    new = path.with_name(f"{path.name}.new")
    try:
        new.unlink(missing_ok=True)
        with new.open("x", encoding="utf-8") as file:  # "x" makes a file, wherever a link of that name may lead
            file.write(text)
            file.flush()
            os.fsync(file.fileno())  # or a power cut could leave an empty file under the old name
        os.replace(new, path)
    except OSError:
        with contextlib.suppress(OSError):
            new.unlink(missing_ok=True)
        raise
    _sync_folder(path.parent)


def read_json(path: Path) -> dict[str, Any]:
    """The object in a JSON file.

    Raises:
        FileNotFoundError: There is no such file.
        OSError: It cannot be read.
        DamagedFileError: There is something else in it.
    """
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        raise FileNotFoundError(f"There is no {path}.") from None
    except OSError as error:
        raise OSError(f"{path} cannot be read: {error.strerror or error}.") from error
    return parse(data, str(path))


def parse(data: bytes, name: str) -> dict[str, Any]:
    """A JSON object; a bare NaN or Infinity in it, which is no JSON, counts as null.

    Args:
        data: UTF-8.
        name: What the error calls it, for example the file it is from.

    Raises:
        DamagedFileError: It is something else.
    """
    try:
        content = json.loads(data.decode(), parse_constant=lambda _: None)
    except (ValueError, RecursionError) as error:  # bad UTF-8 is a ValueError too
        reason = "it is empty" if not data.strip() else str(error).splitlines()[0]
        raise DamagedFileError(f"{name} is damaged: {reason}.") from error
    if not isinstance(content, dict):
        raise DamagedFileError(f"{name} is damaged: it should hold an object, not a {type(content).__name__}.")
    return content


def to_json(content: Any, indent: int | None = None) -> str:
    """JSON text, with null for numbers that are not finite."""
    return json.dumps(plain(content), indent=indent, allow_nan=False)


def plain(content: Any) -> Any:
    """What JSON-able data is after it was written and read: tuples are lists, numbers that are not finite None."""
    if isinstance(content, dict):
        return {key: plain(value) for key, value in content.items()}
    if isinstance(content, list | tuple):
        return [plain(value) for value in content]
    return None if isinstance(content, float) and not math.isfinite(content) else content


def _sync_folder(folder: Path) -> None:
    """See to it that a new name is on the disk as well, where the system knows how."""
    with contextlib.suppress(OSError):
        place = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(place)
        finally:
            os.close(place)
