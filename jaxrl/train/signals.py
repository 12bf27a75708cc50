"""SIGTERM, Ctrl-C and SIGHUP as requests: the loop finishes its chunk, saves and ends. A second one stops at once."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType, TracebackType
from typing import Any, ClassVar

__all__ = ["StopRequest", "until_a_signal"]

_HANGUP = getattr(signal, "SIGHUP", None)  # Windows has none
_SIGNALS = [number for number in (signal.SIGTERM, signal.SIGINT, _HANGUP) if number is not None]


class StopRequest:
    """Inside this context, the first SIGTERM, SIGINT or SIGHUP only sets `name` and restores the old handlers.

    So a second signal has its usual effect: SIGTERM kills, Ctrl-C raises KeyboardInterrupt. Only SIGHUP never does: a
    terminal that is closed sends it more than once. Under `nohup`, which ignores it, the run goes on. Outside the main
    thread, where Python does not allow signal handlers, nothing changes.

    Inside another one, entering gives that one: a sweep hears signals between its trainings too, and each training ends
    for a signal that came before it.
    """

    _outermost: ClassVar[StopRequest | None] = None

    def __init__(self) -> None:
        self.name: str | None = None
        """The name of the signal received, such as `"SIGTERM"`."""
        self._before: dict[int, Any] = {}

    def __bool__(self) -> bool:
        return self.name is not None

    def __enter__(self) -> StopRequest:
        if threading.current_thread() is threading.main_thread():
            if StopRequest._outermost is not None:
                return StopRequest._outermost
            StopRequest._outermost = self
            for number in _SIGNALS:
                before = signal.getsignal(number)
                if number != _HANGUP or before != signal.SIG_IGN:
                    self._before[number] = signal.signal(number, self._handle)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        if StopRequest._outermost is self:
            StopRequest._outermost = None
        self._restore()

    def _handle(self, number: int, frame: FrameType | None) -> None:
        self.name = signal.Signals(number).name
        self._restore(but=_HANGUP)

    def _restore(self, but: int | None = None) -> None:
        for number in [number for number in self._before if number != but]:
            signal.signal(number, self._before.pop(number))


class _AtOnce(StopRequest):
    """Its first signal interrupts what is inside, as Ctrl-C does by default."""

    def _handle(self, number: int, frame: FrameType | None) -> None:
        first = not self
        super()._handle(number, frame)
        if first:
            raise KeyboardInterrupt


@contextmanager
def until_a_signal() -> Iterator[StopRequest]:
    """Inside this context, the first SIGTERM, SIGINT or SIGHUP ends what is inside, and nothing else.

    Gives the request, whose `name` is then that of the signal. Inside a `StopRequest`, the signal only asks that one.
    """
    request = _AtOnce()
    try:
        with request:
            yield request
    except KeyboardInterrupt:
        if not request:
            raise
