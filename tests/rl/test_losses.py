"""PPO's losses against case-by-case NumPy."""

import jax.numpy as jnp
import numpy as np
import pytest

from jaxrl.rl.losses import clipped_surrogate, clipped_value_loss, scaled_mean

EPS = 0.2


@pytest.mark.parametrize(
    ("ratio", "advantage", "expected"),
    [
        (1.0, 2.0, -2.0),
        (1.5, 2.0, -1.2 * 2.0),  # a gain beyond the clip is not rewarded
        (0.5, 2.0, -0.5 * 2.0),  # a loss is felt in full
        (1.5, -2.0, 1.5 * 2.0),
        (0.5, -2.0, 0.8 * 2.0),
    ],
)
def test_clipped_surrogate(ratio, advantage, expected):
    np.testing.assert_allclose(clipped_surrogate(jnp.float32(ratio), jnp.float32(advantage), EPS), expected, rtol=1e-6)


@pytest.mark.parametrize(
    ("value", "old", "target", "expected"),
    [
        (1.1, 1.0, 2.0, 0.5 * 0.9**2),  # within the clip: the plain squared error
        (1.9, 1.0, 2.0, 0.5 * 0.8**2),  # too good too soon: the error of the clipped value counts
        (0.0, 1.0, 2.0, 0.5 * 2.0**2),  # moved the wrong way: felt in full
    ],
)
def test_clipped_value_loss(value, old, target, expected):
    actual = clipped_value_loss(jnp.float32(value), jnp.float32(old), jnp.float32(target), EPS)
    np.testing.assert_allclose(actual, expected, rtol=1e-5)


def test_infinite_clip_is_plain_regression():
    rng = np.random.default_rng(0)
    value, old, target = jnp.asarray(rng.normal(size=(3, 7)), jnp.float32)
    np.testing.assert_allclose(clipped_value_loss(value, old, target, np.inf), 0.5 * (value - target) ** 2, rtol=1e-5)


def test_each_agent_has_a_share_in_the_mean_with_its_own_coefficient():
    x, coef = np.random.default_rng(0).normal(size=(3, 5, 2)).astype(np.float32), np.array([0.5, 3.0], np.float32)
    samples, weight = jnp.asarray(x), jnp.full(x.shape, 1 / x.size)
    expected = (0.5 * x[..., 0].mean() + 3.0 * x[..., 1].mean()) / 2
    np.testing.assert_allclose(scaled_mean(jnp.asarray(coef), samples, weight), expected, rtol=1e-5)
    np.testing.assert_allclose(scaled_mean(0.5, samples, weight), 0.5 * x.mean(), rtol=1e-5)
