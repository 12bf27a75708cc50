"""The rows of metrics.jsonl and evaluations.jsonl, checked when they are read."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from jaxrl.train.folder.json_file import DamagedFileError
from jaxrl.train.metrics import flat_row

__all__ = ["RowCheck", "check_lengths", "check_members"]

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
