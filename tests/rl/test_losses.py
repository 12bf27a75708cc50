"""Losses of policies and values against case-by-case NumPy."""

from __future__ import annotations

import itertools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxrl.rl.losses import (
    C51,
    HLGauss,
    ScalarValue,
    clipped_surrogate,
    clipped_value_loss,
    cross_entropy,
    from_bins,
    scaled_mean,
    to_bins,
)

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


HL = HLGauss(low=-5.0, high=5.0, num_bins=31)


def slow_to_bins(value, edges, std):
    def below(edge):
        return 0.5 * (1 + math.erf((edge - value) / (std * math.sqrt(2))))

    mass = [below(right) - below(left) for left, right in itertools.pairwise(edges)]
    return np.array(mass) / (below(edges[-1]) - below(edges[0]))


@pytest.mark.quick
def test_encoding_equals_the_slow_version_and_decodes_to_the_same_value():
    values = np.linspace(HL.low, HL.high, 201, dtype=np.float32)  # the ends included
    std = HL.ratio * HL.width
    probabilities = to_bins(jnp.asarray(values), HL.edges, std)
    expected = np.stack([slow_to_bins(float(v), HL.edges.astype(float), std) for v in values])
    np.testing.assert_allclose(probabilities, expected, atol=1e-6)
    np.testing.assert_allclose(probabilities.sum(-1), 1.0, atol=1e-6)
    centres = [(left + right) / 2 for left, right in itertools.pairwise(HL.edges)]
    slow_mean = [sum(p * c for p, c in zip(row, centres, strict=True)) for row in expected]
    np.testing.assert_allclose(from_bins(probabilities, HL.edges), slow_mean, atol=1e-5)
    np.testing.assert_allclose(from_bins(probabilities, HL.edges), values, atol=0.01 * HL.width)
    np.testing.assert_allclose(HL.decode(jnp.log(probabilities + 1e-12)), values, atol=0.01 * HL.width)


def test_bins_cover_the_range_and_three_deviations_beyond():
    np.testing.assert_allclose(np.diff(HL.edges), HL.width, rtol=1e-4)
    np.testing.assert_allclose(HL.edges[[0, -1]], [-5 - 2.25 * HL.width, 5 + 2.25 * HL.width], rtol=1e-5)


def test_loss_is_the_cross_entropy_and_its_gradient_is_bounded():
    rng = np.random.default_rng(0)
    logits = rng.normal(size=(6, HL.num_bins)).astype(np.float32)
    target = np.array([-5.0, -1.3, 0.0, 4.9, 100.0, -100.0], np.float32)
    softmax = np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)
    rows = zip(np.clip(target, -5, 5), softmax, strict=True)
    expected = [-(slow_to_bins(t, HL.edges, HL.ratio * HL.width) * np.log(p)).sum() for t, p in rows]
    actual = HL.loss(jnp.asarray(logits), jnp.zeros(6), jnp.asarray(target), 0.2)
    np.testing.assert_allclose(actual, expected, rtol=1e-5)
    p = rng.dirichlet(np.ones(HL.num_bins), 6).astype(np.float32)
    np.testing.assert_allclose(
        cross_entropy(jnp.asarray(logits), jnp.asarray(p)), -(p * np.log(softmax)).sum(-1), rtol=1e-5
    )
    grad = jax.grad(lambda x: HL.loss(x, jnp.zeros(6), jnp.asarray(target), 0.2).sum())(100.0 * jnp.asarray(logits))
    assert np.all(np.linalg.norm(grad, axis=-1) <= math.sqrt(2) + 1e-5)


@pytest.mark.parametrize("value", [ScalarValue(), HLGauss()])
def test_gradient_descent_on_either_loss_finds_the_target(value):
    shape = (3,) if value.num_bins is None else (3, value.num_bins)
    target = jnp.array([-1.0, 0.5, 2.0])

    def step(prediction, _):
        grad = jax.grad(lambda p: value.loss(p, value.decode(p), target, jnp.inf).sum())(prediction)
        return prediction - 0.5 * grad, None

    prediction = jax.jit(lambda: jax.lax.scan(step, jnp.zeros(shape), length=500)[0])()
    np.testing.assert_allclose(value.decode(prediction), target, atol=0.05)


def test_a_scalar_is_its_own_value_and_has_the_clipped_loss():
    rng = np.random.default_rng(0)
    prediction, old, target = jnp.asarray(rng.normal(size=(3, 7)), jnp.float32)
    np.testing.assert_array_equal(ScalarValue().decode(prediction), prediction)
    np.testing.assert_array_equal(
        ScalarValue().loss(prediction, old, target, 0.2), clipped_value_loss(prediction, old, target, 0.2)
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"low": 1.0, "high": 1.0}, "low < high"),
        ({"num_bins": 5}, "at least num_bins=7"),
        ({"ratio": 0.0}, "positive ratio"),
    ],
)
def test_ranges_without_sense_are_explained(arguments, message):
    with pytest.raises(ValueError, match=message):
        HLGauss(**arguments)


def slow_projection(c51, probabilities, returns):
    """Algorithm 1 of Bellemare et al. 2017, atom by atom."""
    width, found = (c51.high - c51.low) / (c51.num_bins - 1), np.zeros(c51.num_bins)
    for p, y in zip(probabilities, returns, strict=True):
        place = (min(max(y, c51.low), c51.high) - c51.low) / width
        below = min(int(place), c51.num_bins - 2)
        found[below] += p * (below + 1 - place)
        found[below + 1] += p * (place - below)
    return found


def test_a_projection_is_that_of_a_loop_and_keeps_the_mean_of_what_is_in_range():
    c51, rng = C51(-2.0, 3.0, 11), np.random.default_rng(0)
    probabilities = rng.dirichlet(np.ones(7), size=(2, 4))
    returns = rng.uniform(-2.0, 3.0, size=(2, 4, 7))
    returns[0, 0] = [-9.0, -2.0, -1.5, 0.0, 2.75, 3.0, 9.0]  # atoms, ends and what is outside
    projected = c51.project(jnp.float32(probabilities), jnp.float32(returns))
    for index in np.ndindex(2, 4):
        np.testing.assert_allclose(
            projected[index], slow_projection(c51, probabilities[index], returns[index]), atol=1e-6
        )
    inside = np.ones((2, 4), bool)
    inside[0, 0] = False
    means = c51.decode(jnp.log(projected + 1e-12))
    np.testing.assert_allclose(means[inside], (probabilities * returns).sum(-1)[inside], atol=1e-5)
