"""Honest statistics of a few runs: the interquartile mean and its like, each with a bootstrap interval.

    scores = np.array([[0.91, 0.40], [0.87, 0.55], [0.95, 0.48]])     # [R, K]: 3 runs (seeds) of 2 tasks
    interval(iqm, scores)                                             # Interval(estimate=…, low=…, high=…)
    interval(probability_of_improvement, ours, theirs)

Definitions are those of Agarwal et al., "Deep Reinforcement Learning at the Edge of the Statistical Precipice"
(NeurIPS 2021), section 4. All is float64 NumPy. Everywhere R is runs and K is tasks; one task may be given as `[R]`.
Every statistic is a function `[…, R, K] -> […]`, so it works on one matrix, on a curve `[T, R, K]`, or on resamples.
Scores of several tasks must be on one scale (a win rate, or a return normalised by a reference) to be taken together.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

__all__ = [
    "Interval",
    "interval",
    "iqm",
    "mean",
    "median",
    "optimality_gap",
    "performance_profile",
    "probability_of_improvement",
    "profile_interval",
]

_CHUNK = 2**17  # numbers resampled at once, to bound the memory


class Interval(NamedTuple):
    """An estimate and where it could as well have been: numbers, or arrays with the leading axes of the scores."""

    estimate: Any
    low: Any
    high: Any


def iqm(scores: ArrayLike) -> Any:
    """The interquartile mean `[…]` of `scores[…, R, K]`: of all R K scores the lowest and the highest quarter are left out.

    Of n scores, floor(n / 4) are dropped at either end. Neither outliers nor a single hard task decide it.
    """
    scores = _matrix(scores)
    flat = np.sort(scores.reshape(*scores.shape[:-2], -1), axis=-1)
    dropped = flat.shape[-1] // 4
    return flat[..., dropped : flat.shape[-1] - dropped].mean(-1)


def mean(scores: ArrayLike) -> Any:
    """The mean `[…]` of `scores[…, R, K]` over runs and tasks."""
    return _matrix(scores).mean((-2, -1))


def median(scores: ArrayLike) -> Any:
    """The median over tasks of their means over runs, `[…]` of `scores[…, R, K]`; of one task that is its mean."""
    return np.median(_matrix(scores).mean(-2), axis=-1)


def optimality_gap(scores: ArrayLike, target: float = 1.0) -> Any:
    """By how much `scores[…, R, K]` fall short of `target` on average, `[…]`; what lies above it does not make up for it."""
    return target - np.minimum(_matrix(scores), target).mean((-2, -1))


def probability_of_improvement(x: ArrayLike, y: ArrayLike) -> Any:
    """How likely a run of `x[…, R, K]` beats one of `y[…, S, K]` on the same task, the mean over tasks: `[…]`.

    For one task it is the Mann-Whitney statistic U / (R S): ties count one half.

    Raises:
        ValueError: The numbers of tasks differ.
    """
    x, y = _matrix(x), _matrix(y)
    if x.shape[-1] != y.shape[-1]:
        raise ValueError(f"Both need scores of the same tasks, got {x.shape[-1]} and {y.shape[-1]} of them.")
    difference = np.sign(x[..., :, None, :] - y[..., None, :, :])
    return 0.5 + 0.5 * difference.mean((-3, -2, -1))


def performance_profile(scores: ArrayLike, thresholds: ArrayLike) -> Any:
    """The share of runs that score more than each of `thresholds[P]`, the mean over tasks: `[P]` of `scores[R, K]`."""
    return mean(_exceeds(scores, thresholds))


def profile_interval(scores: ArrayLike, thresholds: ArrayLike, **options: Any) -> Interval:
    raise NotImplementedError


def interval(
    statistic: Callable[..., Any], *scores: ArrayLike, key: int = 0, repeats: int = 2000, level: float = 0.95
) -> Interval:
    """doc"""
    matrices = [_matrix(each) for each in scores]
    bits = np.random.Philox(key=key)
    chunk = max(1, _CHUNK // max(matrix.size for matrix in matrices))
    found = []
    for start in range(0, repeats, chunk):
        count = min(chunk, repeats - start)
        found.append(statistic(*(_resample(matrix, count, bits) for matrix in matrices)))
    low, high = np.quantile(np.concatenate(found, axis=-1), [(1 - level) / 2, (1 + level) / 2], axis=-1)
    return Interval(statistic(*matrices), low, high)


def _resample(scores: np.ndarray, count: int, bits: np.random.Philox) -> np.ndarray:
    runs, tasks = scores.shape[-2:]
    uniform = (bits.random_raw(count * runs * tasks) >> 11) * 2.0**-53
    drawn = (uniform * runs).astype(np.intp).reshape(count, runs, tasks)
    return scores[..., drawn, np.arange(tasks)]


def _matrix(scores: ArrayLike) -> np.ndarray:
    scores = np.asarray(scores, np.float64)
    return scores[:, None] if scores.ndim == 1 else scores
