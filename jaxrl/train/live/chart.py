"""Curves made of terminal characters: a one-row sparkline, and a chart of several rows with a band."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

__all__ = ["chart", "resample", "sparkline"]

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
