"""The errors that jaxrl raises on purpose, and the texts that they share."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

__all__ = ["CheckpointError", "DivergedError", "MissingExtraError", "UnknownNameError", "nearest"]


class UnknownNameError(ValueError):
    """A name is not registered; the message lists the nearest names."""


class MissingExtraError(ImportError):
    """A package that only some features need is missing; the message has the command that installs it."""


class DivergedError(RuntimeError):
    """A loss or a parameter is no longer a finite number; the message says where and since when.

    Args:
        text: The message.
        update: The update that ended the run, counted from 1; None if only the outcome is known.
    """

    def __init__(self, text: str, update: int | None = None) -> None:
        super().__init__(text)
        self.update = update


class CheckpointError(RuntimeError):
    """No checkpoint can be written, or there is no good and matching one to read."""


_MOST = 20  # names in a sentence


def nearest(name: str, known: Iterable[str]) -> str:
    """A sentence that lists the known names nearest to `name`."""
    lowered = {k.lower(): k for k in known}
    close = difflib.get_close_matches(name.lower(), list(lowered), n=3, cutoff=0.4)
    inside = [k for low, k in lowered.items() if name.lower() in low and low not in close]
    names = list(dict.fromkeys([*(lowered[c] for c in close), *inside]))[:3]
    if names:
        return f"Did you mean {' or '.join(names)}?"
    more = f" and {len(lowered) - _MOST} more" if len(lowered) > _MOST else ""
    return f"Known: {', '.join(sorted(lowered.values())[:_MOST])}{more}."
