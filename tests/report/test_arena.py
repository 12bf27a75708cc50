"""Ratings against games whose strengths are known, and equilibria of games that have one."""

import numpy as np
import pytest

from jaxrl.report.arena import elo, equilibrium, maximin, scores


def results_of(score: np.ndarray, games: int = 10_000) -> np.ndarray:
    """Results `[K, K, 3]` without draws in which the row scores `score` on the first side; none against itself."""
    wins = np.round(games * score).astype(int)
    results = np.stack([wins, np.zeros_like(wins), games - wins], -1)
    results[np.arange(len(score)), np.arange(len(score))] = 0
    return results


def expected(rating: np.ndarray) -> np.ndarray:
    return 1 / (1 + 10 ** ((rating[None] - rating[:, None]) / 400))


def test_elo_finds_the_strengths_that_made_the_games():
    rating = np.array([1400.0, 1480.0, 1500.0, 1620.0])
    found = elo(results_of(expected(rating)))
    np.testing.assert_allclose(found.rating, rating, atol=2)
    assert np.all((found.low < rating) & (rating < found.high))


def test_ratings_are_those_of_minorisation_with_one_more_draw_of_each_pair_that_met():
    """Hunter's algorithm (2004), game by game; two of the players never meet."""
    rng = np.random.default_rng(0)
    results = rng.integers(0, 4, (4, 4, 3)) * (1 - np.eye(4, dtype=int))[..., None]
    results[0, 3] = results[3, 0] = 0
    points, games = np.zeros((4, 4)), np.zeros((4, 4))
    for i, j in np.argwhere(results.sum(-1) > 0):
        won, drawn, lost = results[i, j]
        points[i, j] += won + drawn / 2
        points[j, i] += lost + drawn / 2
        games[i, j] += won + drawn + lost
        games[j, i] += won + drawn + lost
    points[games > 0] += 0.5
    games[games > 0] += 1
    strength = np.ones(4)
    for _ in range(2000):
        strength = points.sum(1) / (games / (strength[:, None] + strength)).sum(1)
        strength /= np.exp(np.log(strength).mean())
    np.testing.assert_allclose(elo(results, repeats=1).rating, 1500 + 400 * np.log10(strength), atol=1e-6)


def test_intervals_hold_the_truth_as_often_as_they_say_and_shrink_with_more_games():
    rating, rng = np.array([1450.0, 1500.0, 1550.0]), np.random.default_rng(0)
    held, width = [], {}
    for games in (50, 800):
        for _ in range(60):
            wins = rng.binomial(games, expected(rating))
            results = np.stack([wins, np.zeros_like(wins), games - wins], -1) * (1 - np.eye(3, dtype=int))[..., None]
            found = elo(results, repeats=100, key=int(rng.integers(1000)))
            held.append((found.low <= rating) & (rating <= found.high))
            width[games] = (found.high - found.low).mean()
    assert 0.87 < np.mean(held) < 0.99
    assert width[50] / width[800] == pytest.approx(4, rel=0.4)


def test_a_draw_is_half_a_win_and_sides_are_averaged():
    results = np.zeros((2, 2, 3), int)
    results[0, 1] = (60, 20, 20)  # on the first side, 0 scores 0.7
    results[1, 0] = (60, 20, 20)  # and on the second 0.3
    np.testing.assert_allclose(scores(results), [[np.nan, 0.5], [0.5, np.nan]])
    np.testing.assert_allclose(elo(results).rating, 1500, atol=1e-6)


def test_somebody_who_wins_every_game_has_a_finite_rating():
    found = elo(results_of(np.array([[0.5, 1.0], [0.0, 0.5]]), games=100))
    assert 1500 < found.rating[0] < 3000
    assert np.isfinite(found.high).all()


def test_an_interval_holds_its_own_rating():
    best = np.array([[0.5, 0.75, 0.125, 0.0], [0.25, 0.5, 0.0, 0.0], [0.875, 1.0, 0.5, 0.0], [1.0, 1.0, 1.0, 0.5]])
    found = elo(results_of(best, games=32))  # the last player wins every game
    assert np.all((found.low <= found.rating) & (found.rating <= found.high))


@pytest.mark.parametrize("second", [0, 1])
def test_a_few_equal_results_are_not_certain(second: int):
    results = np.zeros((2, 2, 3), int)
    results[0, 1], results[1, 0] = (1, 0, 0), (0, 0, second)
    found = elo(results)
    assert found.low[0] < found.rating[0] <= found.high[0]
    assert found.low[1] <= found.rating[1] < found.high[1]


def test_ratings_need_a_chain_of_games():
    apart = np.zeros((4, 4, 3), int)
    apart[0, 1] = apart[2, 3] = (5, 0, 5)
    with pytest.raises(ValueError, match="chain of games"):
        elo(apart)


def test_the_equilibrium_of_rock_paper_scissors_is_even_and_of_a_hierarchy_its_top():
    cycle = np.array([[0.5, 0.0, 1.0], [1.0, 0.5, 0.0], [0.0, 1.0, 0.5]])
    np.testing.assert_allclose(equilibrium(cycle), 1 / 3, atol=1e-6)
    ladder = expected(np.array([1400.0, 1500.0, 1600.0]))
    np.testing.assert_allclose(equilibrium(ladder), [0, 0, 1], atol=1e-6)
    np.fill_diagonal(cycle, np.nan)
    np.testing.assert_allclose(equilibrium(cycle), 1 / 3, atol=1e-6)


def test_nobody_beats_the_equilibrium():
    rng = np.random.default_rng(1)
    for _ in range(20):
        score = rng.random((6, 6))
        score = (score + 1 - score.T) / 2
        weights = equilibrium(score)
        assert weights.sum() == pytest.approx(1)
        assert np.all(weights >= -1e-9)
        assert np.all(weights @ score >= 0.5 - 1e-9)


def test_no_weight_is_below_zero_or_minus_zero():
    for seed in range(20):
        weights = maximin(np.random.default_rng(seed).random((6, 5)))
        assert not np.signbit(weights).any()


def test_the_two_sides_of_a_game_have_mixtures_of_the_same_value():
    """Von Neumann's theorem: what the rows are sure of is what the columns are sure not to exceed."""
    rng = np.random.default_rng(2)
    for _ in range(20):
        payoff = rng.random((4, 6))
        rows, columns = maximin(payoff), maximin(-payoff.T)
        assert np.min(rows @ payoff) == pytest.approx(np.max(payoff @ columns))
