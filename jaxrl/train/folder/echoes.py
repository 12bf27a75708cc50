"""Keeps the terminal for sentences: what Orbax raises, its threads print as well, as pages of tracebacks."""

from __future__ import annotations

import functools
import logging
import sys
from typing import Any

__all__ = ["silence_echoes"]


@functools.cache
def silence_echoes() -> None:
    """From now on, let Orbax's threads not print the errors that it raises too.

    If one array of several cannot be written or read, every thread logs the error that the caller gets anyway, and
    TensorStore finds the event loop closed under each of the other arrays, also a moment after the caller got it.
    """
    logging.getLogger("absl").addFilter(lambda record: "_SignalingThread.run() raised" not in record.getMessage())
    before = sys.unraisablehook

    def hook(unraisable: Any) -> None:
        orphan = unraisable.object is None and unraisable.exc_type is RuntimeError
        if not (orphan and str(unraisable.exc_value) == "Event loop is closed"):
            before(unraisable)

    sys.unraisablehook = hook
