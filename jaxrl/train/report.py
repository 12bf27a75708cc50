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
    if summary is None:
        return []
    table: dict[str, tuple[Any, int]] = {}
    for key, (name, digits) in _NAMES.items():
        if key in summary:
            table[name] = summary[key], digits
        if key == "return_std":
            table |= {f"  {kind}": (value, digits) for kind, value in summary.get("returns", {}).items()}
    width = max(10, *map(len, table))
    return [f"  {name:<{width}} {_text(value, digits)}" for name, (value, digits) in table.items()]


def _text(value: Any, digits: int) -> str:
    text = f"{mean_over_members(value):.{digits}f}"
    if isinstance(value, list):
        text += "   seeds " + " ".join(f"{v:.{digits}f}" for v in value)
    return text
