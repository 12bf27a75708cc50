"""A file with one JSON object a line, which survives full disks and killed writers."""

from __future__ import annotations

import contextlib
import json
import os
from pathlib import Path
from typing import Any

__all__ = ["JsonLines"]


class JsonLines:
    """A file with one JSON object a line. Lines that cannot be written (a full disk …) wait for the next attempt."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._waiting: list[str] = []

    @property
    def size(self) -> int:
        """Bytes on disk."""
        return self.path.stat().st_size if self.path.exists() else 0

    def append(self, row: dict[str, Any]) -> OSError | None:
        """Write one more line, after those that wait. Returns why it has to wait itself, if it is the first to."""
        first = not self._waiting
        self._waiting.append(json.dumps(row) + "\n")
        try:
            self._write()
        except OSError as error:
            return error if first else None
        return None

    def flush(self) -> None:
        """Write the lines that wait and see to it that all of them are on the disk.

        Raises:
            OSError: They still wait.
        """
        if not self._waiting and not self.path.exists():
            return
        self._write()
        with self.path.open("rb") as file:
            os.fsync(file.fileno())

    def _write(self) -> None:
        if not self._waiting:
            return
        size = self.size
        try:
            with self.path.open("ab") as file:
                file.write("".join(self._waiting).encode())
        except OSError:
            with contextlib.suppress(OSError):  # half a line would spoil the next one
                os.truncate(self.path, size)
            raise
        self._waiting = []

    def read(self) -> list[dict[str, Any]]:
        """All lines, without one that a killed process has left unfinished."""
        text = self.path.read_text() if self.path.exists() else ""
        complete = text[: text.rfind("\n") + 1]
        return [json.loads(line) for line in [*complete.splitlines(), *self._waiting]]

    def truncate(self, size: int) -> int:
        """Forget what was written after the file had `size` bytes. Returns how many of these are missing."""
        missing = size - self.size
        if self.path.exists() and missing <= 0:
            os.truncate(self.path, size)
        return max(missing, 0)
