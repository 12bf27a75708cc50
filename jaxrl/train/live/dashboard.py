"""The live view of a run as a pure function from a `RunView` and a width to something rich can print."""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from jaxrl.display import data_size
from jaxrl.train.live.view import PARTS, Band, RunView, duration, number
from jaxrl.train.metrics import metric_of
from jaxrl.train.pictures import short

__all__ = ["NARROWEST", "WIDEST", "chart", "draw", "resample", "sparkline"]

NARROWEST, WIDEST = 60, 120
_CHART_HEIGHT = 5
_SPARK = 8  # the least characters of a loss's curve
_COLOURS: dict[str, str] = dict(zip(PARTS, ("magenta", "cyan", "green", "yellow", "red", "bright_black"), strict=True))
_COLOURS |= {"rollout": "cyan", "optimisation": "blue"}
_NAMES = {"win_rate": "win rate", "return_mean": "return", "length_mean": "length", "clip_fraction": "clip frac"}
_LOSSES = 6  # at most, as many as the rows of numbers beside them


def draw(view: RunView, width: int = 80, now: float | None = None) -> Panel:
    """Draw the dashboard.

    Args:
        view: What to show.
        width: Characters per line, clipped to between `NARROWEST` and `WIDEST`.
        now: Seconds since 1970; the current time if left out.
    """
    now = time.time() if now is None else now
    width = min(max(width, NARROWEST), WIDEST)
    room = width - 4
    # From top to bottom: the curve, the numbers, the progress, the time, the machine, and the latest words.
    parts: list[RenderableType] = []
    if view.row is not None:
        parts += [_curve(view, room), Text(), _numbers(view, room), Text()]
    parts += [_progress(view, room), *_split(view, room, now), _machine(view, room)]
    for text in (_evaluation(view), view.message):
        if text:
            parts.append(_line(text, room, "dim"))
    # The frame says how the run is: its colour, and a clock in phases other than training.
    waited = now - view.since
    clock = f" {duration(waited)}" if view.phase in PARTS and view.phase != "training" and waited >= 1 else ""
    ended = view.phase not in PARTS
    return Panel(
        Group(*parts),
        title=Text(view.title, style="bold"),
        title_align="left",
        subtitle=Text(f"{view.phase}{clock}"),
        subtitle_align="left",
        border_style="green" if view.phase in ("finished", "done") else "yellow" if ended else "cyan",
        width=width,
    )


def _curve(view: RunView, room: int) -> RenderableType:
    """The win rate, or the return if there is none, as a chart with its current value."""
    name = metric_of(view.bands)
    band = view.bands[name]
    head = Text(f"{_NAMES[name]} ", style="bold")
    head.append(number(_last(band.mean)), "bold cyan")
    if view.members > 1:
        head.append(f"  {number(_last(band.least))} to {number(_last(band.most))}", "cyan")
        head.append(f"  mean and range of {view.members}", "dim")
    head.truncate(room, overflow="ellipsis")
    marks = 8  # columns for the numbers at the axis
    low, high = _range(band, name)
    rows = chart(band.mean, band.most, room - marks, _CHART_HEIGHT, low, high)
    lines = [head]
    for i, row in enumerate(rows):
        label = number(high) if i == 0 else number(low) if i == len(rows) - 1 else ""
        lines.append(Text.assemble((f"{label:>{marks - 2}} ", "dim"), ("│", "dim"), (row, "cyan")))
    return Group(*lines)


def _range(band: Band, name: str) -> tuple[float, float]:
    """The range of the axis; win rates are shown on their full scale, and a constant half way up."""
    if name == "win_rate":
        return 0.0, 1.0
    known = [v for v in (*resample(band.mean, 400), *resample(band.most, 400)) if v is not None]
    low, high = min(known, default=0.0), max(known, default=1.0)
    if number(low) != number(high):
        return low, high
    margin = 0.1 * max(abs(low), 1.0)
    return low - margin, high + margin


def _numbers(view: RunView, room: int) -> RenderableType:
    """Counts on the left, losses with sparklines on the right."""
    row = view.row or {}
    # The text of each number, and shorter ones for where it does not fit.
    steps = f"{row['timesteps']:,} of {view.total:,}", f"{short(row['timesteps'])} of {short(view.total)}"
    left: list[tuple[str, tuple[str, ...]]] = [("steps", steps), ("steps/s", (f"{view.speed:,.0f}",))]
    kinds = [name for name in view.bands if name.startswith("returns/")]
    for name in ("return_mean", *kinds, "length_mean"):
        if name in view.bands:
            label = _NAMES.get(name, f" {name.removeprefix('returns/')}")
            digits = 1 if name == "length_mean" else 2
            mean = number(_last(view.bands[name].mean), digits)
            left.append((label, (_with_range(view.bands[name], digits, view.members), mean)))
    episodes = row["episodes"] if isinstance(row["episodes"], list) else [row["episodes"]]
    left += [("episodes", (f"{sum(episodes):,} in the last row",)), ("trained", (duration(row["seconds"]),))]
    # Losses share the other half; without room for their curves only their values.
    losses = [name for name in view.bands if name.startswith("losses/") and name != "losses/total"][:_LOSSES]
    half = room // 2
    spark = room - half - 24
    if spark < _SPARK:  # too little to see anything
        half, spark = room - 24, 0
    table = Table.grid(padding=0)
    for part in (10, half - 11, 1, 14, 10, spark):
        table.add_column(width=part, no_wrap=True, overflow="ellipsis")
    for i in range(max(len(left), len(losses))):
        name, texts = left[i] if i < len(left) else ("", ("",))
        value = next((text for text in texts if len(text) < half - 10), texts[-1])
        cells = [Text(name, style="dim"), Text(value, style="bold"), Text(), Text(), Text(), Text()]
        if i < len(losses):
            band = view.bands[losses[i]]
            label = losses[i].removeprefix("losses/")
            cells[3] = Text(_NAMES.get(label, label.replace("_", " ")), style="dim")
            cells[4] = Text(f"{_short(_last(band.mean)):>9}")
            if spark:
                cells[5] = Text(f" {sparkline(band.mean, spark - 1)}", style="magenta")
        table.add_row(*cells)
    return table


def _with_range(band: Band, digits: int, members: int) -> str:
    """The mean and, with several members, the minimum and maximum."""
    mean = number(_last(band.mean), digits)
    if members == 1:
        return mean
    return f"{mean}  {number(_last(band.least), digits)} to {number(_last(band.most), digits)}"


def _progress(view: RunView, room: int) -> Text:
    """A progress bar with the remaining time."""
    left = f"ETA {duration(view.left)}" if view.done < 1 else "all steps"
    label = f" {view.done:>4.0%}  {left}"
    length = room - len(label)
    full = round(length * view.done)
    return Text.assemble(("━" * full, "bold cyan"), ("━" * (length - full), "bright_black"), (label, "bold"))


def _split(view: RunView, room: int, now: float) -> list[Text]:
    """The shares of the time: a bar and its legend."""
    spent = {part: seconds for part, seconds in view.split(now).items() if part in PARTS and seconds > 0}
    if view.rollout is not None and "training" in spent:
        training = spent.pop("training")
        spent |= {"rollout": view.rollout * training, "optimisation": (1 - view.rollout) * training}
    whole = sum(spent.values())
    if not whole:
        return []
    order = sorted(spent, key=lambda part: -spent[part])
    bar, legend, filled = Text(), Text(), 0
    for i, part in enumerate(order):
        cells = room - filled if i == len(order) - 1 else min(round(room * spent[part] / whole), room - filled)
        bar.append("▇" * cells, _COLOURS[part])
        filled += cells
        entry = f"{part} {spent[part] / whole:.0%}"
        if legend.cell_len + len(entry) + 4 <= room:
            legend.append("■ ", _COLOURS[part])
            legend.append(f"{entry}  ")
    return [bar, legend]


def _machine(view: RunView, room: int) -> Text:
    """The device and its memory."""
    texts = [view.device] if view.device else []
    if "host" in view.memory:
        texts.append(f"host memory {data_size(view.memory['host'])}")
    if "device" in view.memory:
        limit = f" of {data_size(view.memory['device_limit'])}" if "device_limit" in view.memory else ""
        texts.append(f"device memory {data_size(view.memory['device'])}{limit}")
    return _line("  ·  ".join(texts), room, "dim")


def _evaluation(view: RunView) -> str:
    """The last greedy evaluation in words."""
    row = view.evaluation
    if row is None:
        return ""
    texts = []
    for name in ("win_rate", "return_mean"):
        if name in row:
            band = Band()
            band.add(row[name])
            texts.append(f"{_NAMES[name]} {_with_range(band, 3 if name == 'win_rate' else 2, len_of(row[name]))}")
    return f"greedy evaluation after {row['timesteps']:,} steps: {', '.join(texts)}"


def len_of(value: object) -> int:
    """The number of members in a row's number or list."""
    return len(value) if isinstance(value, list) else 1


def _line(text: str, room: int, style: str) -> Text:
    line = Text(text.replace("\n", " "), style=style, no_wrap=True, overflow="ellipsis")
    line.truncate(room, overflow="ellipsis")
    return line


def _last(values: list[float | None]) -> float | None:
    return values[-1] if values else None


def _short(value: float | None) -> str:
    """A number with three significant digits, in at most nine characters."""
    if value is None:
        return "–"
    return f"{value:.3f}" if 0.01 <= abs(value) < 1000 or value == 0 else f"{value:.1e}"


_BLOCKS = " ▁▂▃▄▅▆▇█"
_BAND = "░"


def sparkline(values: Sequence[float | None], width: int) -> str:
    """At most `width` characters, the lowest value `▁` and the highest `█`; blanks for None and NaN.

    Values that are all the same are a line half way up, `▄`.
    """
    values = resample(values, width)
    known = [v for v in values if v is not None]
    if not known:
        return ""
    low, high = min(known), max(known)
    if low == high:
        return "".join(" " if v is None else "▄" for v in values)
    step = (high - low) / 7
    return "".join(" " if v is None else _BLOCKS[1 + round((v - low) / step)] for v in values)


def chart(
    mean: Sequence[float | None],
    most: Sequence[float | None],
    width: int,
    height: int,
    low: float | None = None,
    high: float | None = None,
) -> list[str]:
    """The area below a curve, with the band between it and a second curve above it shaded; top row first.

    Args:
        mean: The curve; None and NaN leave a gap.
        most: The upper end of the band, e.g. the best member; as long as `mean`.
        width: Characters in each returned row.
        height: Rows.
        low: Value at the bottom; the minimum if left out.
        high: Value at the top; the maximum if left out.
    """
    mean, most = resample(mean, width), resample(most, width)
    known = [v for v in (*mean, *most) if v is not None]
    low = min(known, default=0.0) if low is None else low
    high = max(known, default=1.0) if high is None else high
    scale = 8 * height / ((high - low) or 1.0)
    rows = [[" "] * width for _ in range(height)]
    for x, (value, top) in enumerate(zip(mean, most, strict=True)):
        if value is None:
            continue
        # The lowest value is drawn too: a curve at the bottom is a visible line.
        filled = min(max(round((value - low) * scale), 1), 8 * height)
        shaded = filled if top is None else min(round((top - low) * scale), 8 * height)
        for y in range(height):
            eighths = filled - 8 * y
            if eighths > 0:
                rows[y][x] = _BLOCKS[min(eighths, 8)]
            elif shaded - 8 * y >= 4:
                rows[y][x] = _BAND
    return ["".join(row) for row in reversed(rows)]


def resample(values: Sequence[float | None], width: int) -> list[float | None]:
    """At most `width` values: means of neighbours if there are more, None where none of them is a finite number."""
    if len(values) > width:
        edges = [round(i * len(values) / width) for i in range(width + 1)]
        return [_mean(values[a:b]) for a, b in itertools.pairwise(edges)]
    return [_mean([v]) for v in values]


def _mean(values: Sequence[float | None]) -> float | None:
    known = [v for v in values if v is not None and math.isfinite(v)]
    return sum(known) / len(known) if known else None
