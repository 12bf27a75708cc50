"""A file with one JSON object a line, which survives full disks and killed writers."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from jaxrl.train.folder.json_file import DamagedFileError, parse, to_json

__all__ = ["Check", "JsonLines", "Tail"]

Check = Callable[[dict[str, Any]], None]
"""Raises ValueError with what is wrong with a row: `has no timesteps`."""


class JsonLines:
    """A file with one JSON object a line. Lines that cannot be written (a full disk …) wait for the next attempt.

    Args:
        path: Of the file; it need not exist.
        make_check: Makes what looks at the rows, one after the other, when the file is read.
    """

    def __init__(self, path: Path, make_check: Callable[[], Check] | None = None) -> None:
        self.path = path
        self._make_check = make_check
        self._waiting: list[str] = []

    @property
    def size(self) -> int:
        """Bytes on disk."""
        return self.path.stat().st_size if self.path.exists() else 0

    def append(self, row: dict[str, Any]) -> OSError | None:
        """Write one more line, after those that wait. Returns why it has to wait itself, if it is the first to.

        Numbers that are not finite become null.
        """
        first = not self._waiting
        self._waiting.append(to_json(row) + "\n")
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
        """All lines, without one that a killed process has left unfinished.

        Raises:
            OSError: The file cannot be read.
            DamagedFileError: A line is not what it should be; the message names it.
        """
        waiting = [parse(line.encode(), str(self.path)) for line in self._waiting]
        return [*Tail(self.path, self._make_check).new(), *waiting]

    def tail(self) -> Tail:
        """Follows what another process adds."""
        return Tail(self.path, self._make_check)

    def truncate(self, size: int) -> int:
        """Forget what was written after the file had `size` bytes, or an unfinished line of a file that is shorter.

        Returns how many of these bytes are missing.
        """
        missing = max(size - self.size, 0)
        if self.path.exists():
            end = self.path.read_bytes().rfind(b"\n") + 1 if missing else size  # half a line would spoil the next one
            os.truncate(self.path, end)
        return missing


class Tail:
    """The complete lines that were added to a file of JSON lines since one looked last.

    Args:
        path: Of the file; it need not exist.
        make_check: As for `JsonLines`.
    """

    def __init__(self, path: Path, make_check: Callable[[], Check] | None = None) -> None:
        self._path = path
        self._make_check = make_check
        self._check = make_check and make_check()
        self._offset = 0
        self._line = 0

    def new(self) -> Iterator[dict[str, Any]]:
        """What was added; after the file was cut back, by a run that went back to its checkpoint, all of it.

        Raises:
            OSError: The file cannot be read.
            DamagedFileError: A line is not what it should be.
        """
        for line in self._lines():
            self._line += 1
            name = f"{self._path}, line {self._line},"
            row = parse(line, name)
            try:
                if self._check is not None:
                    self._check(row)
            except ValueError as error:
                raise DamagedFileError(f"{name} is damaged: it {error}.") from error
            yield row

    def _lines(self) -> list[bytes]:
        try:
            if not self._path.exists():
                return []
            if self._path.stat().st_size < self._offset:
                self._offset = self._line = 0
                self._check = self._make_check and self._make_check()
            with self._path.open("rb") as file:
                file.seek(self._offset)
                data = file.read()
        except OSError as error:
            raise OSError(f"{self._path} cannot be read: {error.strerror or error}.") from error
        complete = data[: data.rfind(b"\n") + 1]
        self._offset += len(complete)
        return complete.split(b"\n")[:-1]
