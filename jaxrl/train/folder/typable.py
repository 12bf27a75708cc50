"""Paths as one types them, for the messages that end with a command."""

from __future__ import annotations

import shlex
from pathlib import Path

__all__ = ["typable"]


def typable(path: str | Path) -> str:
    """A path as a word of a command: quoted for the shell, and with a `./` where it would be taken for a flag."""
    text = str(path)
    return shlex.quote(f"./{text}" if text.startswith("-") else text)
