"""Draws of the kernel."""

import jax
import numpy as np
import pytest

from jaxrl.envs.batching import uniform_rows
from jaxrl.envs.smax.battle import SPAWN_ROWS

KEYS, ROWS, BINS = 100_000, 6, 32


@pytest.fixture(scope="module", params=["split", "numbered"])
def draws(request):
    """`[ROWS, KEYS]`, of keys split from one, or of the keys 0, 1, 2, … whose bits are nearly all zero.

    The last row is the first that a spawn draws from the same keys.
    """
    keys = (
        jax.random.split(jax.random.key(5), KEYS)
        if request.param == "split"
        else jax.vmap(jax.random.key)(np.arange(KEYS))
    )
    draw = jax.jit(uniform_rows, static_argnums=(1, 2))
    return np.concatenate([draw(keys, ROWS - 1), draw(keys, 1, SPAWN_ROWS)])


def test_draws_are_uniform(draws):
    assert draws.min() >= 0
    assert draws.max() < 1
    for row in draws:
        assert _chi_square(np.histogram(row, BINS, (0, 1))[0]) < 5


def test_rows_and_keys_are_independent(draws):
    pairs = [(0, 1), (0, 5), (2, 3), (4, 5)]
    for a, b in [(draws[i], draws[j]) for i, j in pairs] + [(row[:-1], row[1:]) for row in draws]:
        assert _chi_square(np.histogram2d(a, b, BINS, [[0, 1], [0, 1]])[0]) < 5


def _chi_square(counts):
    """How many standard deviations the statistic lies above its mean, for equally likely bins."""
    expected, free = counts.mean(), counts.size - 1
    return (((counts - expected) ** 2 / expected).sum() - free) / np.sqrt(2 * free)
