"""How objects show themselves as the last line of a notebook's cell, and numbers in units that suit them."""

from __future__ import annotations

import html
from collections.abc import Mapping
from typing import Any

__all__ = ["as_html", "data_size", "in_units"]


def as_html(title: str, rows: Mapping[str, Any]) -> str:
    """A small table: a title and a row for each name."""
    cells = "".join(
        f'<tr><td style="text-align:left">{html.escape(name)}</td>'
        f'<td style="text-align:left">{html.escape(str(value))}</td></tr>'
        for name, value in rows.items()
    )
    return (
        f"<table><thead><tr><th colspan=2 style='text-align:left'>{html.escape(title)}</th></tr></thead>{cells}</table>"
    )


def data_size(count: float) -> str:
    """A number of bytes, such as `"1.5 GB"`."""
    return in_units(count, ("GB", 1e9), ("MB", 1e6), ("kB", 1e3), ("bytes", 1.0))


def in_units(number: float, *units: tuple[str, float]) -> str:
    """Three digits of a number in the largest unit of which it is at least one; in the last one if it is less.

    Args:
        number: What the units measure.
        units: (name, size), the largest first.
    """
    rounded = float(f"{number:.3g}")
    unit, size = next((each for each in units if rounded >= each[1]), units[-1])
    return f"{rounded / size:.3g} {unit}"
