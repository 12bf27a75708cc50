"""Evaluations as lines of text."""

from __future__ import annotations

import math
from typing import Any

from jaxrl.train.metrics import mean_over_members

__all__ = ["evaluation_lines"]

_NAMES = {
    "win_rate": ("win rate", 3),
    "return_mean": ("return", 3),
    "return_std": ("  std", 3),
    "length_mean": ("length", 1),
}


def evaluation_lines(summary: dict[str, Any] | None) -> list[str]:
    """A line for each number of an `Evaluation.summary()`; with several seeds, their mean and then each seed's value.

    Values that are not finite, or null in a run.json, are shown as a dash and left out of the mean.
    """
    if summary is None:
        return []
    table: dict[str, tuple[Any, int]] = {}
    for key, (name, digits) in _NAMES.items():
        if key in summary:
            table[name] = summary[key], digits
        if key == "return_std":
            table |= {f"  {kind}": (value, digits) for kind, value in summary.get("returns", {}).items()}
    table |= {name: (value, 3) for name, value in summary.get("info", {}).items()}
    width = max(10, *map(len, table))
    return [f"  {name:<{width}} {_text(value, digits)}" for name, (value, digits) in table.items()]


def _text(value: Any, digits: int) -> str:
    values = [_finite(v) for v in value] if isinstance(value, list) else [_finite(value)]
    text = _number(mean_over_members(values), digits)
    if isinstance(value, list):
        text += "   seeds " + " ".join(_number(v, digits) for v in values)
    return text


def _finite(value: float | None) -> float | None:
    """The value, or None if it is not finite, as in JSON."""
    return value if value is not None and math.isfinite(value) else None


def _number(value: float | None, digits: int) -> str:
    return "–" if value is None else f"{value:.{digits}f}"
