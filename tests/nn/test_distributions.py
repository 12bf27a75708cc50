"""Distributions against closed forms and slow sums; masked actions are impossible, and nothing becomes NaN."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats

from jaxrl.nn.continuous import SquashedNormal, normal
from jaxrl.nn.distributions import EpsilonGreedy, categorical, multi_categorical

LOGITS = np.array([[0.3, -1.0, 2.0, 0.5]], np.float32)
MASK = np.array([[True, False, True, False]])


def draws(policy, n):
    return np.asarray(jax.vmap(lambda k: policy.sample(seed=k))(jax.random.split(jax.random.key(0), n)))


@pytest.mark.quick
def test_masked_actions_are_never_drawn_and_the_rest_is_renormalised():
    policy = categorical(jnp.asarray(LOGITS), jnp.asarray(MASK))
    assert set(np.unique(draws(policy, 500))) == {0, 2}
    expected = np.exp(LOGITS[0, [0, 2]]) / np.exp(LOGITS[0, [0, 2]]).sum()
    np.testing.assert_allclose(np.exp(policy.log_prob(jnp.array([0]))), expected[0], rtol=1e-5)
    np.testing.assert_allclose(policy.entropy(), -(expected * np.log(expected)).sum(), rtol=1e-5)
    assert policy.mode() == 2


@pytest.mark.quick
def test_exploration_draws_every_allowed_action_alike_and_no_other():
    policy = EpsilonGreedy(jnp.asarray(LOGITS), jnp.asarray(MASK)).exploring(0.4)
    expected = np.array([[0.2, 0.0, 0.8, 0.0]])  # the best keeps 0.6, and the two that are allowed share 0.4
    np.testing.assert_allclose(policy.probs, expected, rtol=1e-6)
    counts = np.bincount(draws(policy, 4000).ravel(), minlength=4)
    assert counts[[1, 3]].sum() == 0
    assert scipy.stats.chisquare(counts[[0, 2]], 4000 * expected[0, [0, 2]]).pvalue > 1e-3
    np.testing.assert_allclose(np.exp(policy.log_prob(jnp.array([0]))), 0.2, rtol=1e-5)
    np.testing.assert_allclose(policy.entropy(), -(0.2 * np.log(0.2) + 0.8 * np.log(0.8)), rtol=1e-5)
    assert policy.mode() == 2


def test_the_greedy_choice_is_the_best_allowed_one_whatever_epsilon_is():
    values = jnp.array([[-5.0, 3.0, -4.0]])
    masked = EpsilonGreedy(values, jnp.array([[True, False, True]]))
    for epsilon in (0.0, 0.3, 1.0):
        assert masked.exploring(epsilon).mode() == 2
    assert set(np.unique(draws(masked, 200))) == {2}  # nothing is random before exploration
    assert set(np.unique(draws(masked.exploring(1.0), 200))) == {0, 2}


def test_a_value_may_be_very_low_without_being_forbidden():
    """Rewards come in any unit, and without `normalise_reward` values do, too."""
    policy = EpsilonGreedy(jnp.array([[-3e9, 1.0, -2e9, -4e9]]), jnp.array([[True, False, True, True]]), 0.3)
    assert policy.mode() == 2
    np.testing.assert_allclose(policy.probs, [[0.1, 0.0, 0.8, 0.1]], rtol=1e-6)


def test_draws_follow_the_probabilities():
    logits = jnp.log(jnp.array([0.0, 0.002, 0.5, 0.0, 0.498, 0.0])) + 3.0
    drawn = np.asarray(categorical(logits).sample(seed=jax.random.key(0), sample_shape=200_000))
    counts = np.bincount(drawn, minlength=6)
    assert counts[[0, 3, 5]].sum() == 0
    assert scipy.stats.chisquare(counts[[1, 2, 4]], 200_000 * np.array([0.002, 0.5, 0.498])).pvalue > 1e-3


def test_not_a_number_stays_within_the_actions():
    assert draws(categorical(jnp.full((3, 4), jnp.nan)), 50).max() < 4


def test_gradients_stay_finite_with_one_action_left():
    def objective(logits):
        policy = categorical(logits, jnp.array([[False, True, False, False]]))
        return (policy.entropy() + policy.log_prob(jnp.array([1]))).sum()

    value, grad = jax.value_and_grad(objective)(jnp.asarray(LOGITS))
    assert np.isfinite(value)
    np.testing.assert_allclose(grad, 0.0, atol=1e-6)


@pytest.mark.parametrize("masked", [False, True])
def test_multi_categorical_equals_the_product_of_its_components(masked):
    sizes = (2, 4, 3)
    rng = np.random.default_rng(0)
    logits = rng.normal(size=(5, sum(sizes))).astype(np.float32)
    mask = rng.random(logits.shape) < 0.5
    mask[:, [0, 3, 8]] = True  # something is left of every component
    policy = multi_categorical(jnp.asarray(logits), sizes, jnp.asarray(mask) if masked else None)
    p = np.exp(logits) * (mask if masked else 1.0)
    parts = [part / part.sum(1, keepdims=True) for part in np.split(p, np.cumsum(sizes)[:-1], 1)]

    action, log_prob = policy.sample_and_log_prob(seed=jax.random.key(1))
    assert action.shape == (5, 3)
    assert log_prob.shape == (5,)
    expected = sum(np.log(part[np.arange(5), a]) for part, a in zip(parts, np.asarray(action).T, strict=True))
    np.testing.assert_allclose(log_prob, expected, rtol=1e-4)
    np.testing.assert_allclose(policy.log_prob(action), log_prob, rtol=1e-6)
    np.testing.assert_allclose(policy.entropy(), sum(scipy.stats.entropy(part, axis=1) for part in parts), rtol=1e-4)
    np.testing.assert_array_equal(policy.mode(), np.stack([part.argmax(1) for part in parts], 1))
    drawn = draws(policy, 4000)
    for k, part in enumerate(parts):
        frequency = (drawn[:, :, k, None] == np.arange(sizes[k])).mean(0)
        np.testing.assert_allclose(frequency, part, atol=0.04)  # five standard errors
        assert np.all(frequency[part == 0] == 0)


def test_a_component_without_any_choice_left_stays_within_its_range():
    policy = multi_categorical(jnp.zeros((1, 5)), (2, 3), jnp.array([[False, False, True, True, True]]))
    assert set(np.unique(draws(policy, 200)[..., 0])) == {0, 1}


@pytest.mark.parametrize(
    "make",
    [
        lambda x: categorical(x),
        lambda x: multi_categorical(x, (1, 3)),
        lambda x: normal(x, jnp.ones(4)),
        lambda x: SquashedNormal(x, jnp.ones(4), -jnp.ones(4), jnp.ones(4)),
    ],
)
def test_distributions_pass_through_vmap_with_the_mapped_axis_anywhere(make):
    x = jnp.asarray(np.random.default_rng(0).normal(size=(3, 2, 4)), jnp.float32)
    policy = jax.vmap(make, in_axes=0, out_axes=1)(x)
    np.testing.assert_allclose(policy.entropy(), make(x.swapaxes(0, 1)).entropy(), rtol=1e-6)
    action, log_prob = policy.sample_and_log_prob(seed=jax.random.key(0))
    assert log_prob.shape == (2, 3)
    assert action.shape[:2] == (2, 3)
