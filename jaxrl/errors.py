"""The errors that jaxrl raises on purpose, and the sentences that they share."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

__all__ = ["CheckpointError", "DivergedError", "MissingExtraError", "UnknownNameError", "nearest"]


class UnknownNameError(ValueError):
    """A name that nothing is registered under; the message lists the nearest ones."""


class MissingExtraError(ImportError):
    """A package is missing that only some features need; the message names the pip line."""


class DivergedError(RuntimeError):
    """A loss or a parameter is no longer a finite number; the message says where and since when.

    Args:
        text: The message.
        update: The one that made the run end, counted from 1; None if only its outcome is known.
    """

    def __init__(self, text: str, update: int | None = None) -> None:
        super().__init__(text)
        self.update = update


class CheckpointError(RuntimeError):
    """No checkpoint can be written, or none that is good and fits can be read."""


def nearest(name: str, known: Iterable[str]) -> str:
    """A sentence that names the known words nearest to `name`."""
    lowered = {k.lower(): k for k in known}
    close = difflib.get_close_matches(name.lower(), list(lowered), n=3, cutoff=0.4)
    inside = [k for low, k in lowered.items() if name.lower() in low and low not in close]
    names = list(dict.fromkeys([*(lowered[c] for c in close), *inside]))[:3]
    return f"Did you mean {' or '.join(names)}?" if names else f"Known: {', '.join(sorted(lowered.values())[:12])}."
