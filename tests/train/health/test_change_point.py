"""A lasting change of speed is found soon, noise is not taken for one, and the slow host is named."""

from collections.abc import Callable

import numpy as np
import pytest

from jaxrl.train.health.change_point import Change, SlowDown, slow_host

Noise = Callable[[np.random.Generator, int], np.ndarray]


def normal(rng: np.random.Generator, n: int) -> np.ndarray:
    return 0.06 * rng.standard_normal(n)


def with_outliers(rng: np.random.Generator, n: int) -> np.ndarray:
    """Three in a hundred take up to five times as long."""
    return normal(rng, n) + (rng.random(n) < 0.03) * np.log1p(4 * rng.random(n))


def heavy_tails(rng: np.random.Generator, n: int) -> np.ndarray:
    return 0.06 * rng.standard_t(3, n)


def in_waves(rng: np.random.Generator, n: int) -> np.ndarray:
    """As on a machine that others use too."""
    noise = normal(rng, n)
    for i in range(1, n):
        noise[i] = 0.3 * noise[i - 1] + np.sqrt(1 - 0.3**2) * noise[i]
    return noise


NOISES = [normal, with_outliers, heavy_tails, in_waves]


def changes(seconds: np.ndarray) -> list[tuple[int, Change]]:
    """What is found, and when."""
    watch = SlowDown()
    found = [(i, watch.add(float(x))) for i, x in enumerate(seconds)]
    return [(i, change) for i, change in found if change is not None]


@pytest.mark.parametrize("noise", NOISES)
def test_noise_alone_gives_hardly_ever_an_alarm(noise: Noise) -> None:
    """At two samples a second these are more than 6 hours of training."""
    rng = np.random.default_rng(0)
    alarms = sum(len(changes(0.5 * np.exp(noise(rng, 1500)))) for _ in range(30))
    assert alarms <= 1


@pytest.mark.parametrize("noise", NOISES)
def test_a_lasting_slow_down_is_found_within_a_minute(noise: Noise) -> None:
    rng = np.random.default_rng(1)
    for _ in range(20):
        seconds = 0.5 * np.exp(noise(rng, 600))
        seconds[400:] *= 1.12
        when, change = changes(seconds)[0]
        assert 400 <= when < 520
        assert change.ratio == pytest.approx(1.12, abs=0.08)  # the median of as few as 16 samples, so 4 of its errors
        assert change.before == pytest.approx(0.5, rel=0.03)
        assert abs(when + 1 - change.samples - 400) < 40  # since when, about


def test_a_quiet_series_needs_few_samples() -> None:
    assert [when for when, _ in changes(np.array([1.0] * 25 + [1.2] * 20))] == [25 + 15]


def test_what_does_not_last_is_no_slow_down() -> None:
    seconds = np.full(200, 1.0)
    seconds[100:106] = 30.0
    seconds[150:153] = 2.0
    assert changes(seconds) == []


def test_less_than_a_tenth_is_not_worth_a_word() -> None:
    assert changes(np.array([1.0] * 100 + [1.05] * 1000)) == []


def test_the_new_speed_is_the_new_normal_and_getting_faster_is_seen_too() -> None:
    found = changes(np.array([1.0] * 50 + [1.5] * 100 + [1.0] * 100 + [1.3] * 100))
    assert [round(change.ratio, 2) for _, change in found] == [1.5, 0.67, 1.3]


def test_the_slow_host_is_named() -> None:
    rng = np.random.default_rng(2)
    times = np.exp(0.1 * rng.standard_normal((4, 30)))
    assert slow_host(times) is None
    times[2] *= 1.3
    found = slow_host(times)
    assert found is not None
    assert found[0] == 2
    assert found[1] == pytest.approx(1.3, rel=0.1)


def test_one_bad_interval_makes_no_slow_host() -> None:
    times = np.ones((2, 10))
    times[1, 3] = 50.0
    assert slow_host(times) is None
    times[1, :] = 1.2
    assert slow_host(times) == (1, pytest.approx(1.2))


def test_one_host_has_nobody_to_be_compared_with() -> None:
    with pytest.raises(ValueError, match=r"at least two hosts, got \(1, 5\)"):
        slow_host(np.ones((1, 5)))
