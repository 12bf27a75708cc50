"""Metrics as CSV, one file per track, for spreadsheets and pandas."""

from __future__ import annotations

import csv
from collections.abc import Callable
from pathlib import Path
from typing import Any

from jaxrl.train.loggers.base import Logger, Names
from jaxrl.train.loggers.tracks import Track, tracks

__all__ = ["CsvLogger"]


class CsvLogger(Logger):
    """Writes `<track>.csv` for `jaxrl export`, with the columns of the rows; evaluations are left out.

    The files are written at the end, when all columns are known.
    """

    def __init__(self, names: Names = "jaxrl", per_seed: bool = False) -> None:
        self._names: Names = names
        self._per_seed = per_seed
        self._rows: list[tuple[Track, list[dict[str, float]]]] = []
        self._folder = Path()

    def open(self, about: dict[str, Any], folder: Path | None, say: Callable[[str], None]) -> None:
        if folder is None:
            raise ValueError("CSV files need a place: name a folder.")
        self._folder = folder
        self._rows = [(track, []) for track in tracks(about, self._names, self._per_seed)]

    def row(self, row: dict[str, Any]) -> None:
        for track, rows in self._rows:
            rows.append(track.row(row))

    def close(self, about: dict[str, Any]) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        for track, rows in self._rows:
            columns = list(dict.fromkeys(name for row in rows for name in row))
            with (self._folder / f"{track.name}.csv").open("w", newline="") as file:
                writer = csv.DictWriter(file, columns)
                writer.writeheader()
                writer.writerows(rows)
