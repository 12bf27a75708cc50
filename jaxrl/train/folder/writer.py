"""The callback that writes a run's rows, evaluations and events into its folder."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from jaxrl.train.callbacks import Callback
from jaxrl.train.folder.disk import why
from jaxrl.train.folder.json_lines import JsonLines
from jaxrl.train.folder.run_folder import RunFolder

__all__ = ["Writer"]


class Writer(Callback):
    """Appends to metrics.jsonl, evaluations.jsonl and events.jsonl.

    Args:
        folder: The run's folder.
        tell: `tell(kind, sentence)`, called when rows have to wait because they cannot be written.
    """

    work = "writing and showing metrics"

    def __init__(self, folder: RunFolder, tell: Callable[[str, str], None]) -> None:
        self._folder = folder
        self._tell = tell

    def row(self, row: dict[str, Any]) -> None:
        self._append(self._folder.metrics, row)

    def evaluation(self, row: dict[str, Any]) -> None:
        self._append(self._folder.evaluations, row)

    def event(self, kind: str, text: str, update: int) -> None:
        self._folder.events.append({"time": round(time.time(), 3), "update": update, "kind": kind, "text": text})

    def _append(self, file: JsonLines, row: dict[str, Any]) -> None:
        """Add a row, now or as soon as writing is possible again."""
        error = file.append(row)
        if error is not None:
            reason = why(error, file.path.parent)
            self._tell("unwritten", f"{file.path.name} cannot be written: {reason}. Its rows wait; training goes on.")
