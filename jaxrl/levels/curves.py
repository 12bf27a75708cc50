"""The worst-α curve: how well a policy does on the levels that it does worst on."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

__all__ = ["ALPHAS", "shown_alphas", "worst_count", "worst_levels"]

ALPHAS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)
"""The shares of the worst levels in tables."""
FEWEST = 10
"""A mean over fewer levels says little."""


def worst_levels(first: ArrayLike, second: ArrayLike, alphas: ArrayLike) -> np.ndarray:
    """The worst-α curve, also called conditional value at risk (CVaR), of one policy on L levels: float64 `[A]`.

    The levels are sorted by their results in one evaluation, and the mean of the worst ⌊αL⌋ (at least 1) is that of
    another: the same results for both would be too low, since bad luck puts levels among the worst. This is the
    protocol of Rutherford et al., "No Regrets" (2024), arXiv 2408.15099, section 5. Among levels with equal results in
    the first, it takes the mean over all orders in which these could stand, instead of one of them.

    Args:
        first: `[L]`, the result on each level that sorts them, such as a win rate.
        second: `[L]`, the results that count.
        alphas: `[A]`, shares of the levels, above 0 and up to 1.

    Raises:
        ValueError: The results are not those of the same levels, or there are none, or a share is out of range.
    """
    order, counted, shares = (np.asarray(values, np.float64) for values in (first, second, alphas))
    if order.ndim != 1 or order.shape != counted.shape or not order.size:
        raise ValueError(
            f"worst_levels takes two results for each level, [L] and [L], got {list(order.shape)} and "
            f"{list(counted.shape)}."
        )
    if not ((shares > 0) & (shares <= 1)).all():
        raise ValueError(f"Shares of the levels lie above 0 and up to 1, got {shares.tolist()}.")
    _, group, sizes = np.unique(order, return_inverse=True, return_counts=True)
    means = np.bincount(group, counted) / sizes
    totals = np.cumsum(means[np.sort(group)])
    counts = worst_count(shares, order.size)
    return totals[counts - 1] / counts


def worst_count(alphas: ArrayLike, levels: int) -> np.ndarray:
    """The number of the worst levels, ⌊αL⌋ but at least 1, for shares `[A]`: int `[A]`."""
    exact = np.asarray(alphas, np.float64) * levels
    return np.maximum(np.floor(exact + 1e-9), 1).astype(int)  # 0.29 * 100 is a bit less than 29


def shown_alphas(levels: int) -> tuple[Sequence[float], bool]:
    """The shares to show for L levels, and whether each below 1 is a mean over at least `FEWEST` of them.

    If even the largest of `ALPHAS` below 1 is not, all that have a level are shown.
    """
    counts = worst_count(ALPHAS, levels)
    enough = [alpha for alpha, count in zip(ALPHAS[:-1], counts, strict=False) if count >= FEWEST]
    if enough:
        return [*enough, 1.0], True
    return [alpha for alpha in ALPHAS if alpha * levels >= 1 - 1e-9], False
