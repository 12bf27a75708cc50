"""The progress of a run: a dashboard on a terminal, plain lines elsewhere, nothing when quiet."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from pathlib import Path
from types import TracebackType
from typing import Any, TextIO

from jaxrl.train.callbacks import Callback
from jaxrl.train.devices.hosts import is_main
from jaxrl.train.folder.run_folder import RunFolder
from jaxrl.train.live.heartbeat import Heartbeat
from jaxrl.train.live.view import RunView, duration, number, returns_text
from jaxrl.train.metrics import flat_row, mean_over_members, own_metrics

__all__ = ["LineProgress", "LiveProgress", "Progress", "evaluation_line", "make_progress", "on_terminal", "row_line"]


class Progress(Callback):
    """A context manager that shows nothing but keeps live.json up to date for `jaxrl watch`; base of the other kinds.

    Args:
        title: What is being trained.
        total: Environment steps of one member at the end.
        folder: The run's folder, or None.
        device: The devices it is trained on.
        first: Environment steps of one member before the run.
    """

    def __init__(self, title: str, total: int, folder: Path | None = None, device: str = "", first: int = 0) -> None:
        self.view = RunView(title, total, device, first)
        self._heart = Heartbeat(folder)
        self.view.spent = self._heart.earlier()
        self._take_up(folder)

    def __enter__(self) -> Progress:
        self._heart.beat(self.view, at_once=True)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        if kind is not None:
            self.view.enter("failed")
            self._heart.beat(self.view, at_once=True)

    def _take_up(self, folder: Path | None) -> None:
        """Show the rows of a run that is now continued; those after its checkpoint are replaced as they come again."""
        if folder is None:
            return
        run = RunFolder(folder)
        with contextlib.suppress(OSError, ValueError):  # whoever restores the run reports what is damaged
            for row in run.metrics.read():
                self.view.add_row(row)
            for row in run.evaluations.read():
                self.view.evaluation = row

    def phase(self, text: str) -> None:
        """A new phase begins, e.g. `"compiling…"`."""
        self.view.enter(text.rstrip("…"))
        self._heart.beat(self.view, at_once=True)

    def measured(self, rollout: float) -> float:
        """Record the share of training time that rollouts take, and return it."""
        self.view.rollout = rollout
        return rollout

    def row(self, row: dict[str, Any]) -> None:
        """A new row of metrics."""
        self.view.add_row(row)
        self._heart.beat(self.view)

    def evaluation(self, row: dict[str, Any]) -> None:
        """A new evaluation."""
        self.view.evaluation = row

    def event(self, kind: str, text: str, update: int) -> None:
        """Show an event's text."""
        self.say(text)

    def say(self, text: str) -> None:
        """Show the user a sentence that stays readable afterwards."""
        self._note(text)
        if is_main():
            _show(text, sys.stderr)

    def _note(self, text: str) -> None:
        """Record the text in live.json, for those who watch from elsewhere."""
        self.view.message = text
        self._heart.beat(self.view, at_once=True)


class LineProgress(Progress):
    """Prints lines for log files and notebooks: at most one row every `seconds`, and one at the end."""

    def __init__(
        self,
        title: str,
        total: int,
        folder: Path | None = None,
        device: str = "",
        first: int = 0,
        seconds: float = 5.0,
    ) -> None:
        super().__init__(title, total, folder, device, first)
        self._seconds = seconds
        self._last = -float("inf")

    def __enter__(self) -> LineProgress:
        super().__enter__()
        _show(self.view.title)
        return self

    def phase(self, text: str) -> None:
        super().phase(text)
        if text not in ("training", "evaluating…", "saving…"):  # their results are shown instead
            _show(text)

    def row(self, row: dict[str, Any]) -> None:
        super().row(row)
        now = time.monotonic()
        if now - self._last >= self._seconds or row["timesteps"] >= self.view.total:
            self._last = now
            _show(row_line(self.view))

    def evaluation(self, row: dict[str, Any]) -> None:
        super().evaluation(row)
        _show(evaluation_line(row))

    def say(self, text: str) -> None:
        self._note(text)
        _show(text)


class LiveProgress(Progress):
    """The dashboard, redrawn twice a second."""

    def __init__(self, title: str, total: int, folder: Path | None = None, device: str = "", first: int = 0) -> None:
        from rich.console import Console
        from rich.live import Live

        super().__init__(title, total, folder, device, first)
        self._console = Console()
        self._live = Live(get_renderable=self._draw, console=self._console, refresh_per_second=2)

    def __enter__(self) -> LiveProgress:
        super().__enter__()
        with contextlib.suppress(OSError):
            self._live.start(refresh=True)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        super().__exit__(kind, error, tb)
        with contextlib.suppress(OSError):
            self._live.stop()

    def say(self, text: str) -> None:
        self._note(text)
        with contextlib.suppress(OSError):  # as in `_show`
            self._console.print(text, markup=False, highlight=False, soft_wrap=True)

    def _draw(self) -> Any:
        from jaxrl.train.live.dashboard import draw

        return draw(self.view, self._console.width)


def make_progress(
    title: str, total: int, quiet: bool = False, folder: Path | None = None, device: str = "", first: int = 0
) -> Progress:
    """The kind of progress that suits the output's destination."""
    kind = Progress if quiet or not is_main() else LiveProgress if on_terminal() else LineProgress
    return kind(title, total, folder, device, first)


def on_terminal() -> bool:
    """True if the output goes to a terminal that can redraw."""
    if sys.stdout is None:  # closed by whoever started the process
        return False
    return sys.stdout.isatty() and os.environ.get("TERM") != "dumb" and not os.environ.get("CI")


def _show(text: str, file: TextIO | None = None) -> None:
    """Print if possible: a full disk, a closed terminal, or a reader that has left must not end training.

    Ctrl-C ends `tee` in `jaxrl train … | tee log` at once, while the run still has to save.
    """
    with contextlib.suppress(OSError):
        print(text, file=file, flush=True)


def row_line(view: RunView) -> str:
    """The last row as a line of text."""
    row = view.row or {}
    cells = [("steps", f"{row['timesteps']:,}"), ("steps/s", f"{view.speed:,.0f}")]
    if "win_rate" in row:
        cells.append(("win rate", number(mean_over_members(row["win_rate"]))))
    cells.append(("return", returns_text(row)))
    cells.append(("length", number(mean_over_members(row["length_mean"]), 1)))
    flat = flat_row(row)
    cells += [(name, number(mean_over_members(flat[name]))) for name in own_metrics(flat)]
    cells.append(("ETA", duration(view.left)))
    return "  ".join(f"{name} {value}" for name, value in cells)


def evaluation_line(row: dict[str, Any]) -> str:
    """An evaluation as a line of text."""
    result = f"return {returns_text(row)}"
    if "win_rate" in row:
        result = f"win rate {number(mean_over_members(row['win_rate']), 3)}  {result}"
    return f"greedy evaluation after {row['timesteps']:,} steps: {result}"
