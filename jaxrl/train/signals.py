"""SIGTERM and Ctrl-C as requests: the loop finishes its chunk, saves and ends. A second signal stops at once."""

from __future__ import annotations

import signal
import threading
from types import FrameType, TracebackType
from typing import Any

__all__ = ["StopRequest"]


class StopRequest:
    """Inside this context, the first SIGTERM or SIGINT only sets `name` and restores the old handlers.

    So a second signal has its usual effect: SIGTERM kills, Ctrl-C raises KeyboardInterrupt. Outside the main thread,
    where Python does not allow signal handlers, nothing changes.
    """

    def __init__(self) -> None:
        self.name: str | None = None
        """The name of the signal received, such as `"SIGTERM"`."""
        self._before: dict[int, Any] = {}

    def __bool__(self) -> bool:
        return self.name is not None

    def __enter__(self) -> StopRequest:
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGTERM, signal.SIGINT):
                self._before[number] = signal.signal(number, self._handle)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self._restore()

    def _handle(self, number: int, frame: FrameType | None) -> None:
        self.name = signal.Signals(number).name
        self._restore()

    def _restore(self) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        self._before = {}
