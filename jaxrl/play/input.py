"""A person's input: single keys of a terminal, or lines of a terminal, file or pipe, and the actions that they mean."""

from __future__ import annotations

import os
import select
import sys
from collections.abc import Generator, Iterable, Iterator, Sequence
from typing import TextIO

__all__ = ["Words", "from_keys", "from_lines", "has_keys"]

_ON_SPACE = ("interact", "fire")
_RESERVED = "q?"  # to quit, and to be told what can be typed
_ARROWS = {"A": "up", "B": "down", "C": "right", "D": "left"}
_END = "\x04"  # Ctrl-D
_ESCAPE_SECONDS = 0.05  # the rest of an arrow's code follows at once


class Words:
    """Names of actions, the single keys that stand for them, and shorter ways to type them.

    An action can be typed by its name, its key, the first letters of its words (`hr` for `hint red`), or as much of its
    name as is needed to tell it from the others. The first letter that is still free is the key of a single word; the
    last word is that of several, if it is one character. There are keys only if there is one for every action. Capital
    letters count only where nothing else tells two names apart.

    Args:
        names: What the actions are called.
    """

    def __init__(self, names: Sequence[str]) -> None:
        self.names = tuple(names)
        self._folded = [name.casefold() for name in self.names]
        keys: dict[str, int] = {}
        for action, name in enumerate(self._folded):
            free = [key for key in _candidates(name) if key not in keys and key not in _RESERVED]
            keys |= dict.fromkeys(free[:1], action)
        self.single = len(keys) == len(self.names)
        """Every action has a key, so that nobody needs to press Enter."""
        self.keys = keys if self.single else {}
        self._shorts = {action: key for key, action in self.keys.items()}
        for name in set(_ON_SPACE) & set(self._folded if self.single else ()):
            self.keys[" "] = self._folded.index(name)

    def find(self, typed: str, legal: Iterable[int]) -> int:
        """The action that is meant.

        Raises:
            ValueError: There is none, there are several, or it is not legal; the message says what can be typed.
        """
        legal = list(legal)
        found = self._meant(typed if typed in self.keys else " ".join(typed.split()))
        if len(found) == 1 and found[0] in legal:
            return found[0]
        if len(found) == 1:
            problem = f"{self.names[found[0]]!r} is not possible now."
        elif found:
            problem = f"{typed!r} can be {', '.join(self.names[action] for action in found)}."
        else:
            problem = f"There is no {typed.strip()!r}." if typed.strip() else "Nothing was typed."
        raise ValueError(f"{problem} You can type {self.legend(legal)}.")

    def legend(self, legal: Iterable[int]) -> str:
        """The legal actions and their short forms, such as `up (u), interact (i)`."""
        return ", ".join(self._with_short(action) for action in legal)

    def _with_short(self, action: int) -> str:
        name, folded = self.names[action], self._folded[action]
        short = self._shorts.get(action, _initials(folded))
        return name if short == folded or self._meant(short) != [action] else f"{name} ({short})"

    def _meant(self, typed: str) -> list[int]:
        """The actions that fit, by the first of the ways of typing that fits any."""
        if typed in self.names:
            return [self.names.index(typed)]
        typed = typed.casefold()
        named = [action for action, name in enumerate(self._folded) if name == typed]
        if named or typed in self.keys:
            return named or [self.keys[typed]]
        by_letters = [action for action, name in enumerate(self._folded) if typed and _initials(name) == typed]
        return by_letters or [action for action, name in enumerate(self._folded) if typed and name.startswith(typed)]


def _candidates(name: str) -> Iterator[str]:
    """The characters that may be the key of an action, the best first."""
    first, *rest = name.split()
    if not rest:
        yield from first if len(first) == 1 or not first.isdigit() else ()
    elif len(rest[-1]) == 1:
        yield rest[-1]


def _initials(name: str) -> str:
    """`hr` for `hint red`, `h+2r` for `hint +2 red`."""
    return "".join(word if word.startswith("+") else word[0] for word in name.split())


def has_keys(stream: TextIO) -> bool:
    """True if single keys can be read from the stream: from a terminal, except that of Windows."""
    return stream.isatty() and sys.platform != "win32"


def from_lines(stream: TextIO) -> Generator[str, None, None]:
    """Moves from lines; commas separate several in a line."""
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
