"""What the tables of results are made of: reading raw numbers and writing them short."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
SPEED = Path(__file__).resolve().parent / "speed" / "results"
Row = tuple[str, ...]


def latest(name: str) -> Path:
    """The newest file of raw numbers that begins with `name`; dates sort."""
    return max(SPEED.glob(f"{name}_2*.json"))


def load(path: Path) -> dict[str, Any]:
    """A file of raw numbers."""
    return json.loads(path.read_text(encoding="utf-8"))


def load_csv(path: Path) -> list[dict[str, str]]:
    """The rows of a curve."""
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def interval(iqm: dict[str, float], digits: int) -> str:
    """`0.969 (0.959 to 0.975)`."""
    estimate, low, high = (f"{iqm[part]:.{digits}f}" for part in ("estimate", "low", "high"))
    return f"{estimate} ({low} to {high})"


def million(steps: float) -> str:
    """`4.0 M`, or `0.04 M`."""
    digits = 1 if steps >= 95_000 else 2
    return f"{steps / 1e6:.{digits}f} M"


def short(steps: int) -> str:
    """`356 k` or `4.0 M`."""
    return million(steps) if steps >= 1e6 else f"{steps // 1000} k"


def seconds(about: dict[str, Any]) -> str:
    """Training and compiling."""
    return f"{about['train_seconds']:.0f} + {about['compile_seconds']:.0f}"
