"""What a run shows while it goes on: a live table on a terminal, plain lines elsewhere, nothing when quiet."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import Any

from jaxrl.train.metrics import mean_over_members

__all__ = ["LineProgress", "LiveProgress", "Progress", "make_progress"]


class Progress:
    """Shows nothing; the base of those that do. A context manager.

    Args:
        title: Says what is trained.
        total: Environment steps in the run.
    """

    def __init__(self, title: str, total: int) -> None:
        self.title = title
        self.total = total

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        pass

    def phase(self, text: str) -> None:
        """What is going on now, e.g. `"compiling…"`."""

    def row(self, row: dict[str, Any]) -> None:
        """One more row of metrics."""

    def evaluation(self, row: dict[str, Any]) -> None:
        """One more evaluation."""

    def say(self, text: str) -> None:
        """Something the reader should know now and find afterwards."""
        print(text, file=sys.stderr)


class LineProgress(Progress):
    """A line now and then, for log files and notebooks; at most one every `seconds`, and one at the end."""

    def __init__(self, title: str, total: int, seconds: float = 5.0) -> None:
        super().__init__(title, total)
        self._seconds = seconds
        self._last = -float("inf")
        self._speed = _Speed(total)

    def __enter__(self) -> LineProgress:
        print(self.title, flush=True)
        return self

    def phase(self, text: str) -> None:
        if text not in ("training", "evaluating…"):  # their results are shown
            print(text, flush=True)

    def row(self, row: dict[str, Any]) -> None:
        self._speed.add(row)
        now = time.monotonic()
        if now - self._last >= self._seconds or row["timesteps"] >= self.total:
            self._last = now
            print("  ".join(f"{name} {value}" for name, value in _cells(row, self._speed)), flush=True)

    def evaluation(self, row: dict[str, Any]) -> None:
        print(_evaluated(row), flush=True)

    def say(self, text: str) -> None:
        print(text, flush=True)


class LiveProgress(Progress):
    """A table that is redrawn in place, by rich."""

    def __init__(self, title: str, total: int) -> None:
        super().__init__(title, total)
        from rich.console import Console
        from rich.live import Live

        self._row: dict[str, Any] | None = None
        self._phase = "starting…"
        self._evaluated = ""
        self._since = time.monotonic()
        self._speed = _Speed(total)
        # Redrawn by rich's own thread, so the seconds go on while this one compiles.
        self._live = Live(get_renderable=self._draw, console=Console(), refresh_per_second=8)

    def __enter__(self) -> LiveProgress:
        self._live.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self._live.stop()

    def phase(self, text: str) -> None:
        self._phase, self._since = text, time.monotonic()

    def row(self, row: dict[str, Any]) -> None:
        self._speed.add(row)
        self._row = row

    def evaluation(self, row: dict[str, Any]) -> None:
        self._evaluated = _evaluated(row)

    def say(self, text: str) -> None:
        self._live.console.print(text, markup=False, highlight=False, soft_wrap=True)

    def _draw(self) -> Any:
        from rich import box
        from rich.console import Group
        from rich.panel import Panel
        from rich.progress_bar import ProgressBar
        from rich.table import Table
        from rich.text import Text

        row = self._row
        cells = _cells(row, self._speed) if row else [(name, "–") for name in ("steps", "steps/s", "return", "ETA")]
        table = Table(box=box.SIMPLE_HEAD, expand=True, padding=(0, 1), header_style="dim")
        for name, _ in cells:
            table.add_column(name, justify="right", no_wrap=True)
        table.add_row(*(Text(value, style="bold cyan" if name == "win rate" else "bold") for name, value in cells))
        waited = time.monotonic() - self._since
        clock = f" {waited:.0f} s" if self._phase.endswith("…") and waited >= 1 else ""
        below = Table.grid(expand=True)
        below.add_row(ProgressBar(total=self.total, completed=row["timesteps"] if row else 0))
        below.add_row(Text(self._evaluated, style="dim"))
        panel = Panel(
            Group(table, below), title=self.title, title_align="left", subtitle=f"{self._phase}{clock}", width=78
        )
        panel.subtitle_align = "left"
        return panel


def make_progress(title: str, total: int, quiet: bool = False) -> Progress:
    """The kind of progress that suits where the output goes."""
    if quiet:
        return Progress(title, total)
    return LiveProgress(title, total) if sys.stdout.isatty() else LineProgress(title, total)


class _Speed:
    """Steps a second over the last rows, smoothed, and what follows for the time left."""

    def __init__(self, total: int) -> None:
        self._total = total
        self._rows: list[tuple[float, int]] = [(0.0, 0)]
        self.value: float | None = None  # of all members
        self.left: float | None = None  # seconds

    def add(self, row: dict[str, Any]) -> None:
        if row["timesteps"] < self._rows[-1][1]:
            self._rows = [(0.0, 0)]
        self._rows = [*self._rows[-19:], (row["seconds"], row["timesteps"])]
        (then, before), (now, after) = self._rows[0], self._rows[-1]
        own = (after - before) / max(now - then, 1e-9)
        members = len(row["episodes"]) if isinstance(row["episodes"], list) else 1
        self.value, self.left = own * members, (self._total - after) / max(own, 1e-9)


def _cells(row: dict[str, Any], speed: _Speed) -> list[tuple[str, str]]:
    """Column names and texts for a row."""
    cells = [("steps", f"{row['timesteps']:,}"), ("steps/s", f"{speed.value or 0:,.0f}")]
    if "win_rate" in row:
        cells.append(("win rate", _number(mean_over_members(row["win_rate"]))))
    cells.append(("return", _number(mean_over_members(row["return_mean"]))))
    cells.append(("length", _number(mean_over_members(row["length_mean"]), 1)))
    minutes, seconds = divmod(round(speed.left or 0), 60)
    hours, minutes = divmod(minutes, 60)
    cells.append(("ETA", f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes}:{seconds:02}"))
    return cells


def _evaluated(row: dict[str, Any]) -> str:
    result = f"return {_number(mean_over_members(row['return_mean']))}"
    if "win_rate" in row:
        result = f"win rate {_number(mean_over_members(row['win_rate']), 3)}  {result}"
    return f"greedy evaluation after {row['timesteps']:,} steps: {result}"


def _number(value: float | None, digits: int = 2) -> str:
    return "–" if value is None else f"{value:.{digits}f}"
