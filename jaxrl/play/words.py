"""What a person can type, and which action it means."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

__all__ = ["Words"]

_ON_SPACE = ("interact", "fire")
_RESERVED = "q?"  # to quit, and to be told what can be typed


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
        """Whether every action has a key, so that nobody needs to press Enter."""
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
