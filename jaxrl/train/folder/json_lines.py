"""A file with one JSON object per line, which survives full disks and killed writers, and the check of its rows."""

from __future__ import annotations

import contextlib
import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from jaxrl.train.folder.json_file import DamagedFileError, parse, to_json
from jaxrl.train.metrics import flat_row

__all__ = ["Check", "JsonLines", "RowCheck", "Tail", "check_lengths", "check_members"]

Check = Callable[[dict[str, Any]], None]
"""Raises ValueError with a description of what is wrong with a row, such as `has no timesteps`."""


class JsonLines:
    """A file with one JSON object per line. Lines that cannot be written (a full disk …) wait for the next attempt.

    Args:
        path: The file; it need not exist.
        make_check: Makes a function that checks the rows one after the other when the file is read.
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
        """Write a line, after any waiting ones. Returns the error if this line is the first that has to wait.

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
        """Write the waiting lines and make sure that all lines are on disk.

        Raises:
            OSError: They cannot be written and still wait.
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
        """All rows, except a last line that a killed process left unfinished.

        Raises:
            OSError: The file cannot be read.
            DamagedFileError: A line is damaged; the message names it.
        """
        waiting = [parse(line.encode(), str(self.path)) for line in self._waiting]
        return [*Tail(self.path, self._make_check).new(), *waiting]

    def tail(self) -> Tail:
        """A reader that follows the lines another process adds."""
        return Tail(self.path, self._make_check)

    def truncate(self, size: int) -> int:
        """Cut the file to its first `size` bytes, or, if it is shorter, remove an unfinished last line.

        Returns how many of the `size` bytes are missing.
        """
        missing = max(size - self.size, 0)
        if self.path.exists():
            end = self.path.read_bytes().rfind(b"\n") + 1 if missing else size  # half a line would spoil the next one
            os.truncate(self.path, end)
        return missing


class Tail:
    """Reads the complete lines that were added to a file of JSON lines since the last call.

    Args:
        path: The file; it need not exist.
        make_check: See `JsonLines`.
    """

    def __init__(self, path: Path, make_check: Callable[[], Check] | None = None) -> None:
        self._path = path
        self._make_check = make_check
        self._check = make_check and make_check()
        self._offset = 0
        self._line = 0
        self._last = b""  # the last line read, to which the offset belongs

    def new(self) -> Iterator[dict[str, Any]]:
        """The new rows; all rows if the file was truncated by a run that went back to its checkpoint.

        Raises:
            OSError: The file cannot be read.
            DamagedFileError: A line is damaged.
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
            with self._path.open("rb") as file:
                file.seek(self._offset - len(self._last))
                data = file.read()
                if data.startswith(self._last):
                    data = data.removeprefix(self._last)
                else:  # cut, and perhaps longer again by now
                    file.seek(0)
                    data, self._offset, self._line = file.read(), 0, 0
                    self._check = self._make_check and self._make_check()
        except OSError as error:
            raise OSError(f"{self._path} cannot be read: {error.strerror or error}.") from error
        complete = data[: data.rfind(b"\n") + 1]
        self._offset += len(complete)
        if complete or not self._offset:
            self._last = complete[complete[:-1].rfind(b"\n") + 1 :]
        return complete.split(b"\n")[:-1]


_SHARED = ("timesteps", "seconds", "steps_per_second", "episodes")
"""Names in a row that have one number for all members, except for the episodes of metrics.jsonl."""
_GROUPS = ("losses", "returns", "info")
"""Names in a row that hold numbers by name."""


class RowCheck:
    """Checks that the rows of one file have what readers need, and that they agree with each other.

    Args:
        needed: Names that every row has, besides `timesteps`.
    """

    def __init__(self, *needed: str) -> None:
        self._needed = ("timesteps", *needed)
        self._lengths: dict[str, int] = {}

    def __call__(self, row: Mapping[str, Any]) -> None:
        """Raise ValueError with what is wrong with a row: `has no timesteps`."""
        for name in self._needed:
            if name not in row:
                raise ValueError(f"has no {name}")
        steps, seconds = row["timesteps"], row.get("seconds", 0.0)
        if not isinstance(steps, int) or not _is_number(steps) or steps < 0 or not _is_number(seconds) or seconds < 0:
            raise ValueError("has no good timesteps or seconds")
        for name in _GROUPS:
            if not isinstance(row.get(name, {}), dict):
                raise ValueError(f"has no names in {name}")
        for name, value in flat_row(row).items():
            numbers = value if isinstance(value, list) else [value]
            if not all(number is None or _is_number(number) for number in numbers):
                raise ValueError(f"has something else than numbers in {name}")
            length = len(value) if isinstance(value, list) else 0
            if value is not None and self._lengths.setdefault(name, length) != length:
                raise ValueError(f"has another number of values in {name} than the rows before it")


def check_members(path: Path, rows: Sequence[Mapping[str, Any]], members: int) -> None:
    """Raise unless the rows have numbers for as many members as the run has.

    Args:
        path: The rows' file.
        rows: Rows of metrics or evaluations.
        members: M.

    Raises:
        DamagedFileError: They do not.
    """
    try:
        check_lengths(rows, members)
    except ValueError as error:
        raise DamagedFileError(f"{path} is damaged: {error}.") from error


def check_lengths(rows: Sequence[Mapping[str, Any]], members: int) -> None:
    """Raise ValueError unless each number of the rows is there for each member, or shared by all."""
    for row in rows:
        for name, value in flat_row(row).items():
            lists = isinstance(value, list)
            fits = len(value) == members if lists else members == 1 or value is None or name in _SHARED
            if not fits:
                raise ValueError(f"{name} has {len(value) if lists else 1} numbers and the run {members} seeds")


def _is_number(value: Any) -> bool:
    if isinstance(value, int):
        return not isinstance(value, bool) and abs(value) < 2**63
    return isinstance(value, float) and math.isfinite(value)
