"""The result of `fit`, and its evaluation as lines of text."""

from __future__ import annotations

import dataclasses
import functools
import math
from pathlib import Path
from typing import Any

import numpy as np

from jaxrl.algorithm import Algorithm, RunConfig
from jaxrl.deploy.policy import Policy
from jaxrl.display import as_html
from jaxrl.errors import CheckpointError
from jaxrl.train.metrics import flat_row, mean_over_members, own_metrics
from jaxrl.train.programs import Programs

__all__ = ["Result", "UnsavedError", "evaluation_lines"]


@dataclasses.dataclass(frozen=True, repr=False)
class Result:
    """The result of a run."""

    state: Any
    """The train state; with several seeds, every leaf has a leading members axis `[M, …]`. With several processes,
    each one has the whole state."""
    metrics: dict[str, np.ndarray]
    """The columns of metrics.jsonl, `[R]` or, with several seeds, `[R, M]`: timesteps, win_rate, losses/policy …"""
    evaluation: dict[str, Any] | None
    """The final greedy evaluation: episodes, return_mean, return_std, length_mean, win_rate (lists with several seeds).
    None if the run was stopped early."""
    diverged: list[int]
    """Members whose losses or parameters are no longer finite."""
    run_dir: Path | None
    """The folder of the run."""
    compile_seconds: float
    """Time spent compiling."""
    compile_cached: bool
    """True if the training program came from JAX's persistent compilation cache."""
    train_seconds: float
    """Time spent training, excluding compilation and evaluation."""
    steps_per_second: float
    """Environment steps of all members, divided by `train_seconds`."""
    programs: Programs
    """The compiled programs, for another `fit`."""
    stopped: str | None
    """Why training ended early: the name of a signal, `"goal"` or `"callback"`; None if it ran to its end."""
    algo: Algorithm
    """The algorithm that `state` belongs to."""
    config: RunConfig
    """The configuration."""

    @property
    def interrupted(self) -> str | None:
        """`stopped` of a run that a signal or a callback ended; None if it came to its end or its goal."""
        return None if self.stopped == "goal" else self.stopped

    @functools.cached_property
    def policy(self) -> Policy:
        """The policy that was learned, of a run with one seed.

        Raises:
            ValueError: There are several seeds: `jaxrl.load(run_dir).member(0).policy` is that of the first one.
        """
        return Policy(self.algo, self.config.make_env(), self.state)

    def __repr__(self) -> str:
        return "\n".join([f"Result: {self._headline}", *evaluation_lines(self.evaluation)])

    def _repr_html_(self) -> str:
        lines = (line.strip().partition("  ") for line in evaluation_lines(self.evaluation))
        return as_html(f"Result: {self._headline}", {name: value.strip() for name, _, value in lines})

    @property
    def _headline(self) -> str:
        steps = int(self.metrics["timesteps"][-1]) if len(self.metrics.get("timesteps", ())) else 0
        ended = f", stopped by {self.stopped}" if self.stopped else ""
        place = f", in {self.run_dir}" if self.run_dir else ""
        return f"{steps:,} steps in {self.train_seconds:.1f} s at {self.steps_per_second:,.0f} steps/s{ended}{place}"


class UnsavedError(CheckpointError):
    """Training finished, but not everything could be written; `result` has everything nevertheless.

    Args:
        text: What could not be written, and why.
        result: The result that `fit` would have returned.
    """

    def __init__(self, text: str, result: Result) -> None:
        super().__init__(text)
        self.result = result


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
    flat = flat_row(summary)  # an older run.json nests them
    table |= {name: (flat[name], 3) for name in own_metrics(flat)}
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
