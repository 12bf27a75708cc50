"""Evaluations as lines of text."""

from __future__ import annotations

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
    """A line for each number of an `Evaluation.summary()`; with several seeds their mean and then each one."""
    lines = []
    for key, (name, digits) in _NAMES.items():
        if summary is None or key not in summary:
            continue
        value = summary[key]
        text = f"{mean_over_members(value):.{digits}f}"
        if isinstance(value, list):
            text += "   seeds " + " ".join(f"{v:.{digits}f}" for v in value)
        lines.append(f"  {name:<10} {text}")
    return lines
