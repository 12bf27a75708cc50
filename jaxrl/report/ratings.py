"""Ratings of players from a table of results: Elo with intervals, and the equilibrium of the empirical game."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, cast

import numpy as np
from scipy.optimize import linprog

__all__ = ["Elo", "elo", "equilibrium", "maximin", "scores"]

_solve = cast(Callable[..., Any], linprog)  # pyright takes six seconds to infer what it returns
_POINTS = 400 / np.log(10)  # of Elo's scale, for a unit of log odds
_STEPS = 100  # of Newton's method, most of which it does not need


class Elo(NamedTuple):
    """Elo ratings of K players, whose mean is 1500."""

    rating: np.ndarray  # [K]
    low: np.ndarray  # [K], of the interval
    high: np.ndarray  # [K]


def scores(results: np.ndarray) -> np.ndarray:
    """The mean score `[K, K]` of row against column on both sides: a win is 1, a draw 1/2; NaN if they never played.

    Args:
        results: `[K, K, 3]`, games that the first side (the row) won, drew and lost against the second (the column).
    """
    points, games = _points(results)
    return np.divide(points, games, out=np.full(games.shape, np.nan), where=games > 0)


def elo(results: np.ndarray, *, key: int = 0, repeats: int = 500, level: float = 0.95) -> Elo:
    """Elo ratings by maximum likelihood, with percentile intervals over resampled games.

    The model is Bradley and Terry's (1952, https://doi.org/10.2307/2334029): the odds that i scores against j are
    `10 ** ((r_i - r_j) / 400)`, and a draw counts as half a win. One more draw of each pair that met keeps ratings
    finite when somebody wins every game. Games are resampled from all of them and this draw, so that two equal results
    do not look certain. The extra draw pulls whoever wins nearly every game towards the others once more in each
    resample, so an interval that ends short of the rating is stretched to it.

    Args:
        results: `[K, K, 3]`, games that the first side (the row) won, drew and lost against the second (the column).
        key: The seed of the resampling.
        repeats: How many times the games of each pair are resampled.
        level: The level of the intervals.

    Raises:
        ValueError: There are fewer than two players, or some have no chain of games to the others.
    """
    results = np.asarray(results, np.int64)
    count = len(results)
    met = (results + results.swapaxes(0, 1)).sum(-1) > 0
    if count < 2 or not np.all(np.linalg.matrix_power(met + np.eye(count), count) > 0):
        raise ValueError("Elo ratings compare at least two players, each of whom has a chain of games to every other.")
    rating = _fit(results)
    rng = np.random.default_rng(key)
    games = results.sum(-1)
    both = np.maximum(games + games.T, 1)
    share = results + np.eye(3)[1] * (games / both)[..., None]  # one more draw, on the two sides by their games
    share /= np.maximum(share.sum(-1, keepdims=True), 1)
    share[..., 2] = 1 - share[..., 0] - share[..., 1]  # exactly 1 in all, as `multinomial` wants
    drawn = np.stack([_fit(rng.multinomial(games, np.clip(share, 0, 1))) for _ in range(repeats)])
    low, high = np.quantile(drawn, [(1 - level) / 2, (1 + level) / 2], axis=0)
    return Elo(rating, np.minimum(low, rating), np.maximum(high, rating))


def equilibrium(score: np.ndarray) -> np.ndarray:
    """The weights `[K]` of a mixture of players that no player beats: a Nash equilibrium of the empirical game.

    The game is symmetric and has zero sum: whoever picks row i against column j gets `score[i, j] - 1/2`; see Balduzzi
    et al. (2018), https://arxiv.org/abs/1806.02643.

    Args:
        score: `[K, K]`, see `scores`; pairs that never played count as even.
    """
    payoff = np.nan_to_num(score - 0.5)
    return maximin((payoff - payoff.T) / 2)


def maximin(payoff: np.ndarray) -> np.ndarray:
    """The weights `[R]` of the mixture of rows that gets the most from its worst column.

    In a game of zero sum it is the row player's half of a Nash equilibrium (von Neumann 1928,
    https://doi.org/10.1007/BF01448847). Found by linear programming.

    Args:
        payoff: `[R, C]`, what row gets from column.
    """
    rows, columns = payoff.shape
    # Maximise v such that the mixture gets at least v from every column: weights @ payoff >= v.
    constraint = np.hstack([-payoff.T, np.ones((columns, 1))])
    found = _solve(
        np.append(np.zeros(rows), -1.0),
        A_ub=constraint,
        b_ub=np.zeros(columns),
        A_eq=np.append(np.ones(rows), 0.0)[None],
        b_eq=[1.0],
        bounds=[(0, 1)] * rows + [(None, None)],
    )
    return found.x[:rows].clip(0.0) + 0.0  # the solver's zeros may be negative, or -0.0


def _points(results: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The score of row against column on both sides, `[K, K]`, and the number of games, `[K, K]`."""
    first = results[..., 0] + results[..., 1] / 2
    second = results[..., 2] + results[..., 1] / 2
    games = results.sum(-1)
    return first + second.T, games + games.T


def _fit(results: np.ndarray) -> np.ndarray:
    """The ratings `[K]` of maximum likelihood, by Newton's method."""
    points, games = _points(results)
    np.fill_diagonal(games := games.astype(float), 0.0)
    np.fill_diagonal(points, 0.0)
    points, games = points + (games > 0) / 2, games + (games > 0)
    strength = np.zeros(len(games))
    for _ in range(_STEPS):
        expected = 1 / (1 + np.exp(strength[None] - strength[:, None]))
        gradient = (points - games * expected).sum(1)
        information = games * expected * (1 - expected)
        hessian = np.diag(information.sum(1)) - information
        step = np.linalg.lstsq(hessian, gradient, rcond=None)[0]
        strength = strength + np.clip(step, -2.0, 2.0)
        if np.abs(step).max() < 1e-9:
            break
    return 1500 + _POINTS * (strength - strength.mean())
