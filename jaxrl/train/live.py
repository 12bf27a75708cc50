"""live.json: what a run is doing at this moment, for people in another terminal; and how they read it."""

from __future__ import annotations

import json
import os
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from jaxrl.train.hosts import is_main
from jaxrl.train.run_folder import RunFolder
from jaxrl.train.view import PARTS, RunView

__all__ = ["Follower", "Heartbeat", "memory_in_use"]

_SHARED = ("title", "total", "first", "device", "phase", "since", "spent", "rollout", "memory", "message")  # of RunView


class Heartbeat:
    """Writes live.json whenever the phase changes, and at most every `seconds` otherwise.

    Args:
        folder: The run's; None writes nothing, and neither do processes other than the first.
        seconds: Between two writes.
    """

    def __init__(self, folder: Path | None, seconds: float = 1.0) -> None:
        self._file = None if folder is None or not is_main() else folder / "live.json"
        self._seconds = seconds
        self._last = -float("inf")

    def beat(self, view: RunView, at_once: bool = False) -> None:
        """Tell how it goes. A full disk is no reason to stop a run."""
        now = time.monotonic()
        if now - self._last < self._seconds and not at_once:
            return
        self._last = now
        view.memory = memory_in_use()
        if self._file is None:
            return
        content = {name: getattr(view, name) for name in _SHARED}
        content |= {"pid": os.getpid(), "host": socket.gethostname(), "time": time.time()}
        new = self._file.with_suffix(".new")
        try:
            new.write_text(json.dumps(content) + "\n")
            os.replace(new, self._file)
        except OSError:
            pass

    def earlier(self) -> dict[str, float]:
        """Seconds in each part of a run that is now continued."""
        content = _read(self._file)
        return content.get("spent", {})


def memory_in_use() -> dict[str, int]:
    """Bytes this process holds: `host`, and where JAX tells them `device` and `device_limit`, of all local devices."""
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
        folder: The run.
    """

    def __init__(self, folder: RunFolder) -> None:
        self.view = RunView(folder.path.name, total=0)
        self.status = "running"
        """Or how the run ended."""
        self.error: str | None = None
        """Why it diverged, if it has."""
        self._folder = folder
        self._live: dict[str, Any] = {}
        self._rows = _Tail(folder.metrics.path)
        self._evaluations = _Tail(folder.evaluations.path)

    def read(self) -> RunView:
        """Take in what is new."""
        about = _read(self._folder.path / "run.json")  # first: what was written before a run ended is then read below
        self._live = _read(self._folder.path / "live.json")
        for name in _SHARED:
            if name in self._live:
                setattr(self.view, name, self._live[name])
        for row in self._rows.new():
            self.view.add_row(row)
        for row in self._evaluations.new():
            self.view.evaluation = row
        # The process knows best: run.json of a run that is continued says for a while how it ended before.
        status, phase = about.get("status", "running"), self._live.get("phase")
        if phase in PARTS or (phase is None and status == "running"):
            self.status = "running"
        else:
            self.status = "failed" if status == "running" else status
        self.error = about.get("error")
        if self.status != "running":
            self.view.enter(self.status)
        elif self.gone:
            self.view.enter("gone", self._live["time"])
        return self.view

    @property
    def ended(self) -> bool:
        """Whether nothing more will come."""
        return self.status != "running" or self.gone

    @property
    def gone(self) -> bool:
        """Whether the process that should write is no more; known on its own machine only."""
        if self.status != "running" or self._live.get("host") != socket.gethostname():
            return False
        try:
            os.kill(self._live["pid"], 0)
        except ProcessLookupError:
            return True
        except PermissionError:
            pass  # somebody else's, so it is there
        return False


class _Tail:
    """The complete lines that were added to a file of JSON lines since one looked last."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._offset = 0

    def new(self) -> Iterator[dict[str, Any]]:
        if not self._path.exists():
            return
        if self._path.stat().st_size < self._offset:  # cut back by a run that went back to its checkpoint
            self._offset = 0
        with self._path.open("rb") as file:
            file.seek(self._offset)
            for line in file:
                if not line.endswith(b"\n"):
                    return
                self._offset += len(line)
                yield json.loads(line)


def _read(path: Path | None) -> dict[str, Any]:
    """A JSON file's content; nothing where there is none."""
    try:
        return {} if path is None else json.loads(path.read_text())
    except FileNotFoundError:
        return {}
