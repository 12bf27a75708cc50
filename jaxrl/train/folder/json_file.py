"""JSON files that survive a power cut, hold no bare NaN, and report damage in a sentence."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

from jaxrl.durable import replace_file

__all__ = ["DamagedFileError", "parse", "plain", "read_json", "to_json", "write_json"]


class DamagedFileError(ValueError):
    """A file is not valid JSON, or has the wrong content; the message names the file."""


def write_json(path: Path, content: dict[str, Any], indent: int | None = 2) -> None:
    """Replace a file atomically: readers, even after a power cut, find either the old content or the new one.

    Args:
        path: The file; its folder must exist.
        content: JSON-able; numbers that are not finite become null.
        indent: The indentation of the text; None for a single line.

    Raises:
        OSError: It cannot be written; the old file is unchanged.
    """
    replace_file(path, (to_json(content, indent) + "\n").encode())


def read_json(path: Path) -> dict[str, Any]:
    """The object in a JSON file.

    Raises:
        FileNotFoundError: There is no such file.
        OSError: It cannot be read.
        DamagedFileError: It does not hold a JSON object.
    """
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        raise FileNotFoundError(f"There is no {path}.") from None
    except OSError as error:
        raise OSError(f"{path} cannot be read: {error.strerror or error}.") from error
    return parse(data, str(path))


def parse(data: bytes, name: str) -> dict[str, Any]:
    """Parse a JSON object; a bare NaN or Infinity, which is not valid JSON, counts as null.

    Args:
        data: The text in UTF-8.
        name: The name in error messages, for example the file it comes from.

    Raises:
        DamagedFileError: The text is not a JSON object.
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
    """JSON-able data as it is after writing and reading: tuples become lists, numbers that are not finite None."""
    if isinstance(content, dict):
        return {key: plain(value) for key, value in content.items()}
    if isinstance(content, list | tuple):
        return [plain(value) for value in content]
    return None if isinstance(content, float) and not math.isfinite(content) else content
