"""Where a person's moves come from: single keys of a terminal, or lines of a terminal, file or pipe."""

from __future__ import annotations

import os
import select
import sys
from collections.abc import Generator
from typing import TextIO

__all__ = ["from_keys", "from_lines", "has_keys"]

_ARROWS = {"A": "up", "B": "down", "C": "right", "D": "left"}
_END = "\x04"  # Ctrl-D
_ESCAPE_SECONDS = 0.05  # the rest of an arrow's code follows at once


def has_keys(stream: TextIO) -> bool:
    """Whether single keys can be read: it is a terminal, and not that of Windows."""
    return stream.isatty() and sys.platform != "win32"


def from_lines(stream: TextIO) -> Generator[str, None, None]:
    """What is typed, line by line; commas separate several moves."""
    for line in stream:
        yield from (part.strip() for part in line.split(","))


def from_keys(stream: TextIO) -> Generator[str, None, None]:
    """Key by key, until Ctrl-D: the character, or `up`, `down`, `right`, `left` for an arrow.

    The terminal is as it was once the generator is closed.
    """
    import termios
    import tty

    terminal = stream.fileno()
    before = termios.tcgetattr(terminal)
    try:
        tty.setcbreak(terminal, termios.TCSADRAIN)  # and not TCSAFLUSH, which loses what was typed before
        while (key := _key(terminal)) not in ("", _END):
            yield key
    finally:
        termios.tcsetattr(terminal, termios.TCSADRAIN, before)


def _key(terminal: int) -> str:
    """The next key; empty at the end of the input."""
    typed = os.read(terminal, 1)
    if typed == b"\x1b":
        while len(typed) < 3 and select.select([terminal], [], [], _ESCAPE_SECONDS)[0]:
            typed += os.read(terminal, 1)
        return _ARROWS.get(typed[-1:].decode(errors="replace"), "escape") if len(typed) == 3 else "escape"
    return typed.decode(errors="replace")
