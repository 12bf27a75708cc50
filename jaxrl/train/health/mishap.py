"""Errors in what goes on beside training: they are told and end nothing, because the result of a run is worth more."""

from __future__ import annotations

import traceback
from pathlib import Path

__all__ = ["in_words"]


def in_words(error: Exception) -> str:
    """What an error says; one that tells of a bug says its type and where it was raised as well.

    For example `ValueError: no such sprite (my_env.py, line 12)`. The place is the innermost one outside installed
    packages, because a bug is rarely theirs.
    """
    if isinstance(error, (ImportError, NotImplementedError, OSError)):
        return str(error)
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if "site-packages" not in frame.filename]
    place = f" ({Path(frames[-1].filename).name}, line {frames[-1].lineno})" if frames else ""
    return f"{type(error).__name__}: {error}{place}"
