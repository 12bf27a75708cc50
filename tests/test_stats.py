"""Statistics against scipy, slow loops and numbers worked out by hand; intervals against simulations."""

import itertools

import numpy as np
import pytest
from scipy import stats as scipy_stats

from jaxrl import stats

SHAPES = [(1, 1), (2, 1), (3, 2), (5, 1), (5, 7), (10, 3), (17, 5)]


def matrices(shape: tuple[int, ...], count: int = 20) -> list[np.ndarray]:
    """Scores of all kinds: even, heavy-tailed, and with ties."""
    rng = np.random.default_rng(sum(shape))
    kinds = (rng.normal, rng.standard_cauchy, lambda size: rng.integers(0, 4, size) / 4)
    return [kinds[i % 3](size=shape) for i in range(count)]


@pytest.mark.parametrize("shape", SHAPES)
def test_iqm_is_scipys_trimmed_mean(shape):
    for x in matrices(shape):
        assert stats.iqm(x) == pytest.approx(scipy_stats.trim_mean(x.ravel(), 0.25), rel=1e-12, abs=1e-12)


@pytest.mark.parametrize("shape", SHAPES)
def test_probability_of_improvement_is_scipys_u(shape):
    for x, y in itertools.pairwise(matrices(shape)):
        y = np.concatenate([y, x[:1]])  # not the same number of runs, and certainly a tie
        u = [scipy_stats.mannwhitneyu(a, b).statistic / (len(a) * len(b)) for a, b in zip(x.T, y.T, strict=True)]
        assert stats.probability_of_improvement(x, y) == pytest.approx(np.mean(u), rel=1e-12)


@pytest.mark.parametrize("shape", SHAPES)
def test_the_others_equal_slow_loops(shape):
    thresholds = np.linspace(-1, 1, 9)
    for x in matrices(shape):
        runs, tasks = shape
        task_means = [sum(x[r, k] for r in range(runs)) / runs for k in range(tasks)]
        assert stats.mean(x) == pytest.approx(sum(task_means) / tasks, rel=1e-12, abs=1e-12)
        assert stats.median(x) == pytest.approx(np.median(task_means), rel=1e-12, abs=1e-12)
        gap = sum(max(0.8 - x[r, k], 0.0) for r in range(runs) for k in range(tasks)) / x.size
        assert stats.optimality_gap(x, target=0.8) == pytest.approx(gap, rel=1e-12, abs=1e-12)
        profile = [np.mean([sum(x[:, k] > t) / runs for k in range(tasks)]) for t in thresholds]
        np.testing.assert_allclose(stats.performance_profile(x, thresholds), profile, atol=1e-12)


@pytest.mark.quick
def test_numbers_by_hand():
    x = np.array([[0.0, 0.5], [0.2, 0.7], [0.4, 0.9], [0.6, 5.0]])
    # Sorted: 0 .2 | .4 .5 .6 .7 | .9 5; task means .3 and 1.775.
    assert stats.iqm(x) == pytest.approx(0.55, rel=1e-12)
    assert stats.mean(x) == pytest.approx(8.3 / 8, rel=1e-12)
    assert stats.median(x) == pytest.approx(1.0375, rel=1e-12)
    assert stats.optimality_gap(x) == pytest.approx((1 + 0.8 + 0.6 + 0.4 + 0.5 + 0.3 + 0.1 + 0) / 8, rel=1e-12)
    np.testing.assert_allclose(stats.performance_profile(x, [0.0, 0.4, 0.9]), [7 / 8, 5 / 8, 1 / 8])
    # 2 beats 1 and ties with 2; 3 beats both.
    assert stats.probability_of_improvement([2, 3], [1, 2]) == pytest.approx(3.5 / 4, rel=1e-12)
    # Of five scores one is dropped at either end, of three none.
    assert stats.iqm([9, 1, 2, 3, -50]) == pytest.approx(2.0, rel=1e-12)
    assert stats.iqm([0, 3, 9]) == pytest.approx(4.0, rel=1e-12)


@pytest.mark.parametrize("statistic", [stats.iqm, stats.mean, stats.median, stats.optimality_gap])
def test_leading_axes_are_taken_one_by_one(statistic):
    curve = np.random.default_rng(0).normal(size=(4, 6, 3))
    np.testing.assert_allclose(statistic(curve), [statistic(row) for row in curve], rtol=1e-12)
    at_once = stats.interval(statistic, curve, repeats=50)
    alone = stats.interval(statistic, curve[2], repeats=50)
    np.testing.assert_allclose([part[2] for part in at_once], alone, rtol=1e-12)


def test_interval_is_the_exact_bootstrap_in_the_limit():
    """With 4 runs all 256 resamples can be listed."""
    x = np.array([0.1, 0.5, 0.6, 2.0])
    means = [np.mean(drawn) for drawn in itertools.product(x, repeat=4)]
    found = stats.interval(stats.mean, x, repeats=200_000)
    assert found.estimate == pytest.approx(0.8)
    for bound, q in ((found.low, 0.025), (found.high, 0.975)):
        # The distribution is discrete: between the quantiles a little below and a little above.
        assert np.quantile(means, q - 0.005) <= bound <= np.quantile(means, q + 0.005)


def test_runs_are_drawn_within_their_task():
    """Whatever is drawn of tasks whose runs are all alike is the same matrix."""
    found = stats.interval(stats.mean, np.broadcast_to([1.0, 10.0, 100.0], (5, 3)), repeats=100)
    assert found.low == found.high == pytest.approx(37.0)


@pytest.mark.quick
def test_an_interval_depends_on_its_key_alone():
    x = [0.3, 0.1, 0.8, 0.55, 0.2]
    np.random.seed(0)
    first = stats.interval(stats.iqm, x, key=7)
    np.random.seed(1)
    assert first == stats.interval(stats.iqm, x, key=7)
    assert first != stats.interval(stats.iqm, x, key=8)
    assert first == pytest.approx((0.35, 0.1333333333333333, 0.6333333333333334), rel=1e-12)  # on any machine


def test_an_interval_does_not_depend_on_how_much_is_drawn_at_a_time(monkeypatch):
    x, y = np.random.default_rng(0).normal(size=(2, 6, 3))
    at_once = stats.interval(stats.probability_of_improvement, x, y, repeats=100)
    monkeypatch.setattr(stats, "_CHUNK", 200)
    assert at_once == stats.interval(stats.probability_of_improvement, x, y, repeats=100)


def test_two_sets_of_scores_are_drawn_independently():
    x = np.random.default_rng(0).normal(size=20)
    found = stats.interval(lambda a, b: stats.mean(a) - stats.mean(b), x, x)
    assert found.low < -0.2 < 0.2 < found.high


@pytest.mark.quick
def test_one_run_has_no_interval():
    found = stats.interval(stats.iqm, [[0.2, 0.4]])
    assert found.estimate == pytest.approx(0.3)
    assert np.isnan(found.low)
    assert np.isnan(found.high)


@pytest.mark.parametrize("freedom", [3, 4, 5, 9, 40, 1000])
def test_students_quantile(freedom):
    for level in (0.9, 0.95):
        z = float(scipy_stats.norm.ppf((1 + level) / 2))
        assert stats._student_quantile(z, freedom) == pytest.approx(
            scipy_stats.t.ppf((1 + level) / 2, freedom), rel=0.01
        )


def coverage(statistic, runs: int, tasks: int, trials: int, expand: bool) -> float:
    """The share of 95 % intervals of standard normal scores that hold the true value, 0."""
    rng = np.random.default_rng(runs + tasks)
    held = 0
    for trial in range(trials):
        scores = rng.normal(size=(runs, tasks))
        found = stats.interval(statistic, scores, key=trial, repeats=1000, expand=expand)
        held += found.low <= 0 <= found.high
    return held / trials


@pytest.mark.parametrize(
    ("statistic", "runs", "tasks"),
    [
        (stats.iqm, 10, 1),
        (stats.mean, 5, 4),
        pytest.param(stats.mean, 10, 1, marks=pytest.mark.slow),
        pytest.param(stats.iqm, 10, 4, marks=pytest.mark.slow),
    ],
)
def test_coverage_of_expanded_intervals_is_what_they_say(statistic, runs, tasks):
    assert 0.93 <= coverage(statistic, runs, tasks, 2000, expand=True) <= 0.975


@pytest.mark.slow
@pytest.mark.parametrize(
    ("statistic", "runs", "plain", "expanded"),
    [
        (stats.mean, 5, 0.83, 0.92),
        (stats.mean, 10, 0.90, 0.94),
        (stats.mean, 32, 0.94, 0.95),
        (stats.iqm, 5, 0.90, 0.94),
        (stats.iqm, 10, 0.93, 0.97),
        (stats.iqm, 32, 0.94, 0.96),
    ],
)
def test_coverage_is_what_the_documentation_says(statistic, runs, plain, expanded):
    """To its rounding, and two standard errors of 6,000 trials."""
    assert coverage(statistic, runs, 1, 6000, expand=False) == pytest.approx(plain, abs=0.015)
    assert coverage(statistic, runs, 1, 6000, expand=True) == pytest.approx(expanded, abs=0.012)


@pytest.mark.quick
def test_differences_by_hand():
    found = stats.differences([1.0, 2.0, 3.0, 4.0], [0.0, 0.0, 0.0, 0.0, 0.0], [7.0, 7.0, 7.0])
    np.testing.assert_allclose(found.estimate, [[0, 2.5, -4.5], [-2.5, 0, -7], [4.5, 7, 0]])
    np.testing.assert_allclose(found.low, -found.high.T)
    assert np.isnan(found.low[2]).all()  # three runs are too few
    # Of 16 flips of 1.5, .5, -.5, -1.5 the largest mean is 1, twice: |t| = 1 / sqrt(.25 / 3). 2/16 is more than 5 %.
    error = np.sqrt(5 / 3 / 4)
    assert found.high[0, 1] - 2.5 == pytest.approx(error / np.sqrt(0.25 / 3))
    # Without any spread, which rounding is not, means are exact. Runs that can all be flipped to one side tell nothing.
    exact = stats.differences([0.1] * 5, [0.3] * 5)
    assert exact.low[1, 0] == exact.high[1, 0] == pytest.approx(0.2)
    nothing = stats.differences([0.1, 0.7, 0.1, 0.7], [0.3] * 5)
    assert (nothing.low[0, 1], nothing.high[0, 1]) == (-np.inf, np.inf)


def test_differences_depend_neither_on_scale_nor_on_how_much_is_drawn_at_a_time(monkeypatch):
    groups = np.random.default_rng(0).normal(size=(4, 6))
    found = stats.differences(*groups, repeats=200)
    np.testing.assert_allclose(stats.differences(*(1000 * groups + 7), repeats=200), 1000 * np.array(found), atol=1e-9)
    monkeypatch.setattr(stats, "_CHUNK", 30)
    np.testing.assert_array_equal(stats.differences(*groups, repeats=200), found)
    assert (stats.differences(*groups, repeats=200, key=1).low != found.low).any()


@pytest.mark.parametrize("count", [2, 5, pytest.param(12, marks=pytest.mark.slow)])
def test_differences_of_many_runs_are_tukeys(count):
    """Whose spread is one number for all groups, so that intervals agree on average only."""
    groups = np.random.default_rng(count).normal(size=(count, 100))
    tukey = scipy_stats.tukey_hsd(*groups).confidence_interval(0.95)
    found, pairs = stats.differences(*groups, repeats=20_000), np.triu_indices(count, 1)
    ours, theirs = ((each.high - each.low)[pairs].mean() for each in (found, tukey))
    assert ours == pytest.approx(theirs, rel=0.02)


@pytest.mark.parametrize(
    ("spread", "count", "runs"),
    [
        *((spread, *case) for spread in ("equal", "unequal") for case in ((2, 4), (2, 5), (6, 5))),
        *(
            pytest.param(spread, 12, runs, marks=pytest.mark.slow)
            for spread in ("equal", "unequal")
            for runs in (5, 10)
        ),
    ],
)
def test_all_differences_hold_at_once(count, runs, spread):
    """The true ones, in 95 % of the families or a little more."""
    rng = np.random.default_rng(count + runs)
    sizes = np.ones(count) if spread == "equal" else np.geomspace(0.01, 1, count)
    held = 0
    for trial in range(500):
        truth = rng.normal(size=count)
        scores = truth[:, None] + rng.normal(size=(count, runs)) * sizes[:, None]
        _, low, high = stats.differences(*scores, key=trial, repeats=400)
        wanted = truth[:, None] - truth
        held += ((low <= wanted) & (wanted <= high))[~np.eye(count, dtype=bool)].all()
    assert held / 500 >= 0.93


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        (lambda: stats.iqm([0.1, np.nan]), "Scores must be finite"),
        (lambda: stats.mean([]), "at least one of each"),
        (lambda: stats.mean(0.5), "at least one of each"),
        (lambda: stats.probability_of_improvement([[1, 2]], [[1]]), "the same tasks; x has 2 and y has 1"),
        (lambda: stats.interval(stats.iqm, [1, 2], repeats=0), "repeats must be at least 1"),
        (lambda: stats.interval(stats.iqm, [1, 2], level=95), "level must be between 0 and 1"),
        (lambda: stats.differences([[1, 2]], [1, 2]), r"one task, \[runs\], got shape \(1, 2\)"),
    ],
)
def test_wrong_input_is_explained(wrong, sentence):
    with pytest.raises(ValueError, match=sentence):
        wrong()
