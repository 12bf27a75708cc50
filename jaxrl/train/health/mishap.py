"""Errors beside training: they are reported but do not end the run, whose result is worth more."""

from __future__ import annotations

import traceback
from pathlib import Path

__all__ = ["in_words"]


def in_words(error: Exception) -> str:
    """The text of an error; if it points to a bug, also its type and where it was raised.

    For example `ValueError: no such sprite (my_env.py, line 12)`. The place is the innermost one outside installed
    packages, because those are rarely to blame.
    """
    if isinstance(error, (ImportError, NotImplementedError, OSError)):
        return str(error)
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if "site-packages" not in frame.filename]
    place = f" ({Path(frames[-1].filename).name}, line {frames[-1].lineno})" if frames else ""
    return f"{type(error).__name__}: {error}{place}"
