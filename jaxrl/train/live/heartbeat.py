"""live.json: what a run is doing at the moment, written for and read by other terminals."""

from __future__ import annotations

import contextlib
import math
import os
import socket
import time
from pathlib import Path
from typing import Any, TypedDict

from jaxrl.errors import printable
from jaxrl.train.devices.hosts import is_main
from jaxrl.train.folder.json_file import from_json, read_json, write_json
from jaxrl.train.folder.run_folder import RunFolder
from jaxrl.train.folder.run_info import read_ending
from jaxrl.train.live.view import PARTS, RunView

__all__ = ["Follower", "Heartbeat", "memory_in_use"]

_LATEST = 1e11
"""Seconds since 1970 beyond which a heartbeat cannot be genuine."""
_SHARED = ("title", "total", "first", "device", "phase", "since", "spent", "rollout", "memory", "message")  # of RunView


class Heartbeat:
    """Writes live.json whenever the phase changes, and at most every `seconds` otherwise.

    Args:
        folder: The run's folder; None writes nothing, and only process 0 writes.
        seconds: The least time between two writes.
    """

    def __init__(self, folder: Path | None, seconds: float = 1.0) -> None:
        self._file = None if folder is None or not is_main() else folder / "live.json"
        self._seconds = seconds
        self._last = -float("inf")

    def beat(self, view: RunView, at_once: bool = False) -> None:
        """Write the current view. A full disk does not stop a run."""
        now = time.monotonic()
        if now - self._last < self._seconds and not at_once:
            return
        self._last = now
        view.memory = memory_in_use()
        if self._file is None:
            return
        content = {name: getattr(view, name) for name in _SHARED}
        content |= {"pid": os.getpid(), "host": socket.gethostname(), "time": time.time()}
        with contextlib.suppress(OSError):
            write_json(self._file, content, indent=None)

    def earlier(self) -> dict[str, float]:
        """Seconds in each part of a run that is now continued; empty if live.json is lost or damaged."""
        return {} if self._file is None else _read_live(self._file).get("spent", {})


def memory_in_use() -> dict[str, int]:
    """Bytes in use: `host` for this process and, if JAX reports them, `device` and `device_limit` of local devices."""
    import jax

    found: dict[str, int] = {}
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        found["host"] = pages * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError):
        pass  # not on Linux
    stats = [device.memory_stats() for device in jax.local_devices()]
    for name, key in (("device", "bytes_in_use"), ("device_limit", "bytes_limit")):
        values = [each[key] for each in stats if each and key in each]
        if values:
            found[name] = sum(values)
    return found


class Follower:
    """Reads a run's folder while another process writes it.

    Args:
        folder: The run's folder.
    """

    def __init__(self, folder: RunFolder) -> None:
        self.view = RunView(printable(folder.path.name), total=0)
        self.status = "running"
        """`"running"`, or how the run ended."""
        self.error: str | None = None
        """Why the run diverged, if it did."""
        self._folder = folder
        self._live: dict[str, Any] = {}
        self._rows = folder.metrics.tail()
        self._evaluations = folder.evaluations.tail()

    def read(self) -> RunView:
        """Read everything new and return the updated view.

        Raises:
            OSError: A file cannot be read.
            DamagedFileError: A file other than live.json is damaged.
        """
        status, self.error = "running", None
        with contextlib.suppress(FileNotFoundError):  # a run that is still compiling has none yet
            # First, so that everything written before a run ended is read below.
            status, self.error = _harmless(read_ending(self._folder.path / "run.json"))
        self._live = _read_live(self._folder.path / "live.json")
        for name in _SHARED:
            if name in self._live:
                setattr(self.view, name, self._live[name])
        for row in self._rows.new():
            self.view.add_row(_harmless(row))
        for row in self._evaluations.new():
            self.view.evaluation = _harmless(row)
        # live.json knows best: for a while, run.json of a continued run still says how it ended before.
        phase = self._live.get("phase")
        if phase in PARTS or (phase is None and status == "running"):
            self.status = "running"
        else:
            self.status = "failed" if status == "running" else status
        if self.status != "running":
            self.view.enter(self.status)
        elif self.gone:
            self.view.enter("gone", self._live.get("time"))
        return self.view

    @property
    def ended(self) -> bool:
        """True if the run writes nothing more."""
        return self.status != "running" or self.gone

    @property
    def gone(self) -> bool:
        """True if the training process no longer exists; known only on its own machine."""
        process = self._live.get("pid")
        if self.status != "running" or process is None or self._live.get("host") != socket.gethostname():
            return False
        try:
            os.kill(process, 0)
        except ProcessLookupError:
            return True
        except PermissionError:
            pass  # it belongs to another user, so it exists
        return False


class _Beat(TypedDict, total=False):
    """The fields of live.json."""

    title: str
    total: int
    device: str
    phase: str
    since: float
    spent: dict[str, float]
    rollout: float | None
    memory: dict[str, int]
    message: str
    pid: int
    host: str
    time: float


def _read_live(path: Path) -> dict[str, Any]:
    """The content of live.json; empty if it is missing or damaged, because a heartbeat may get lost."""
    try:
        content = from_json(_Beat, read_json(path), "")
    except (OSError, ValueError):
        return {}
    seconds = [content.get("since", 0.0), content.get("time", 0.0), *content.get("spent", {}).values()]
    good = all(math.isfinite(value) and abs(value) < _LATEST for value in seconds)
    good = good and 0 < content.get("pid", 1) < 2**31 and content.get("total", 0) >= 0
    return _harmless(content) if good else {}


def _harmless(content: Any) -> Any:
    """The content of a JSON file with all of its texts printable."""
    if isinstance(content, str):
        return printable(content)
    if isinstance(content, dict):
        return {printable(name): _harmless(value) for name, value in content.items()}
    return type(content)(map(_harmless, content)) if isinstance(content, list | tuple) else content
