"""Distributions against closed forms and slow sums; masked actions are impossible, and nothing becomes NaN."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats

from jaxrl.nn.distributions import (
    Counted,
    EpsilonGreedy,
    Noisy,
    SquashedNormal,
    categorical,
    maybe_uniform,
    multi_categorical,
    normal,
)

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


LOW, HIGH = np.array([-2.0, 0.0], np.float32), np.array([2.0, 10.0], np.float32)
MEAN = np.array([[0.5, -1.0]], np.float32)


def test_normal_equals_scipy():
    std = np.array([0.5, 2.0], np.float32)
    policy = normal(jnp.asarray(MEAN), jnp.asarray(std))
    action, log_prob = policy.sample_and_log_prob(seed=jax.random.key(0))
    assert action.shape == (1, 2)
    np.testing.assert_allclose(log_prob, scipy.stats.norm.logpdf(action, MEAN, std).sum(-1), rtol=1e-5)
    np.testing.assert_allclose(policy.log_prob(action), log_prob, rtol=1e-5)
    np.testing.assert_allclose(policy.entropy(), scipy.stats.norm.entropy(MEAN, std).sum(-1), rtol=1e-6)
    np.testing.assert_array_equal(policy.mode(), MEAN)
    np.testing.assert_allclose(draws(policy, 20_000).std(0)[0], std, rtol=0.03)


def slow_density(mean, std, low, high):
    """The density of low + (high - low) (tanh(z) + 1) / 2 on a grid, by differences of its distribution function."""
    edges = np.linspace(low, high, 200_001, dtype=np.float64)
    with np.errstate(divide="ignore"):
        z = np.arctanh((edges - (low + high) / 2) / ((high - low) / 2))
    mass = np.diff(scipy.stats.norm.cdf(z, mean, std))
    return (edges[1:] + edges[:-1]) / 2, mass, mass / np.diff(edges)


@pytest.mark.parametrize("std", [0.1, 1.0, 2.0])
def test_squashed_normal_equals_the_slow_density(std):
    policy = SquashedNormal(jnp.asarray(MEAN), std, LOW, HIGH)
    slow = [slow_density(m, std, lo, hi) for m, lo, hi in zip(MEAN[0].astype(float), LOW, HIGH, strict=True)]
    at = [50_000, 90_000, 150_000]
    actions = jnp.asarray(np.stack([grid[at] for grid, _, _ in slow], 1), jnp.float32)
    with np.errstate(divide="ignore"):
        expected = np.sum([np.log(density[at]) for _, _, density in slow], axis=0)
    finite = np.isfinite(expected)
    assert finite.any()
    np.testing.assert_allclose(np.asarray(policy.log_prob(actions))[finite], expected[finite], rtol=2e-3, atol=2e-3)
    entropy = sum(-(mass[mass > 0] * np.log(density[mass > 0])).sum() for _, mass, density in slow)
    np.testing.assert_allclose(policy.entropy(), entropy, atol=0.02)  # the promised 0.01 for each component
    drawn = draws(policy, 20_000)[:, 0]
    assert np.all((drawn >= LOW) & (drawn <= HIGH))
    means = [(grid * mass).sum() for grid, mass, _ in slow]
    np.testing.assert_allclose(drawn.mean(0), means, atol=0.03 * (HIGH - LOW).max())
    np.testing.assert_allclose(policy.mode(), np.median(drawn, 0)[None], atol=0.1 * (1 + std))


@pytest.mark.quick
def test_squashed_normal_is_finite_at_the_bounds():
    def log_prob(mean, std, action):
        return SquashedNormal(mean, std, LOW, HIGH).log_prob(action).sum()

    far = jnp.asarray(MEAN) + 20.0  # float32 rounds tanh to exactly 1: the sample is the bound
    policy = SquashedNormal(far, 1.0, LOW, HIGH)
    np.testing.assert_array_equal(policy.sample(seed=jax.random.key(0))[0], HIGH)
    for bound in (LOW, HIGH):
        value, grads = jax.value_and_grad(log_prob, argnums=(0, 1))(jnp.asarray(MEAN), jnp.ones(2), bound[None])
        assert np.isfinite(value)
        assert all(np.all(np.isfinite(g)) for g in grads)
    grads = jax.grad(lambda m, s: SquashedNormal(m, s, LOW, HIGH).entropy().sum(), argnums=(0, 1))(far, jnp.ones(2))
    assert all(np.all(np.isfinite(g)) for g in grads)
    grad = jax.grad(lambda m: SquashedNormal(m, 1.0, LOW, HIGH).entropy().sum())(jnp.asarray(MEAN))
    assert np.all(np.sign(grad) == -np.sign(MEAN))  # spreading out means going back to the middle


@pytest.mark.quick
@pytest.mark.parametrize("mean", [0.0, 3.0, -20.0])
def test_the_density_of_a_squashed_sample_is_exact_and_so_is_its_gradient(mean):
    """Also where float32 rounds the action to a bound, from which nothing would lead back."""

    def sampled(mean, std, key):
        action, log_prob = SquashedNormal(jnp.broadcast_to(mean, (1, 2)), std, LOW, HIGH).sample_and_log_prob(seed=key)
        return log_prob.sum(), action

    key, std = jax.random.key(5), 0.7
    (log_prob, action), slopes = jax.jit(jax.value_and_grad(sampled, argnums=(0, 1), has_aux=True))(mean, std, key)
    drawn = SquashedNormal(jnp.zeros((1, 2)), 1.0, -np.ones(2), np.ones(2)).sample(seed=jax.random.clone(key))
    noise = np.arctanh(np.asarray(drawn, np.float64))

    def slow(mean, std):
        z = mean + std * noise
        log_slope = 2 * (np.log(2) - np.abs(z) - np.log1p(np.exp(-2 * np.abs(z))))
        return (-0.5 * noise**2 - 0.5 * np.log(2 * np.pi) - np.log(std) - log_slope - np.log((HIGH - LOW) / 2)).sum()

    np.testing.assert_allclose(action, LOW + (HIGH - LOW) * (np.tanh(mean + std * noise) + 1) / 2, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(log_prob, slow(mean, std), rtol=1e-4)
    for got, up, down in (
        (slopes[0], (mean + 1e-4, std), (mean - 1e-4, std)),
        (slopes[1], (mean, 0.7001), (mean, 0.6999)),
    ):
        np.testing.assert_allclose(got, (slow(*up) - slow(*down)) / 2e-4, rtol=1e-3, atol=1e-4)


@pytest.mark.quick
def test_noise_is_clipped_and_kept_in_the_box():
    action = jnp.tile(jnp.array([[1.0, 9.0]]), (4000, 1))
    policy = Noisy(action, *(jnp.broadcast_to(bound, action.shape) for bound in (LOW, HIGH)))
    np.testing.assert_array_equal(policy.sample(seed=jax.random.key(0)), action)
    drawn = np.asarray(policy.with_noise(0.3, 0.5).sample(seed=jax.random.key(1)))
    half = (HIGH - LOW) / 2
    np.testing.assert_allclose(drawn.min(0), [1.0 - 0.5 * half[0], 9.0 - 0.5 * half[1]], rtol=1e-5)
    np.testing.assert_allclose(drawn.max(0), HIGH, rtol=1e-5)  # 1 + 0.5 * 2 is the bound, too
    assert np.median(drawn, 0) == pytest.approx(np.asarray(action[0]), abs=0.1)
    assert np.mean(np.abs(drawn[:, 0] - 1.0) < 0.3 * half[0]) == pytest.approx(0.683, abs=0.03)
    np.testing.assert_array_equal(policy.with_noise(0.3).mode(), action)


@pytest.mark.quick
def test_a_policy_is_left_for_uniform_actions_where_that_is_said():
    uniform = jnp.tile(jnp.array([[[True]], [[False]]]), (1, 3000, 1))
    policy = maybe_uniform(normal(jnp.full((2, 3000, 2), 5.0), 0.1), LOW, HIGH, uniform)
    drawn = np.asarray(policy.sample(seed=jax.random.key(0)))
    for i in range(2):
        assert scipy.stats.kstest(drawn[0, :, i], scipy.stats.uniform(LOW[i], HIGH[i] - LOW[i]).cdf).pvalue > 1e-3
    np.testing.assert_allclose([drawn[1].mean(), drawn[1].std()], [5.0, 0.1], atol=0.01)


@pytest.mark.parametrize("squashed", [False, True])
def test_only_the_numbers_that_count_have_a_density_and_an_entropy(squashed: bool):
    mean, std = jnp.array([[0.5, -1.0], [0.2, 0.4]]), jnp.array([0.7, 0.3])
    whole = SquashedNormal(mean, std, LOW, HIGH) if squashed else normal(mean, std)
    own = np.array([[True, True], [False, True]])
    policy = Counted(whole, own)
    action = policy.sample(seed=jax.random.key(0))
    np.testing.assert_array_equal(action, whole.sample(seed=jax.random.key(0)))
    np.testing.assert_array_equal(policy.mode(), whole.mode())
    assert (policy.batch_shape, policy.event_shape) == ((2,), (2,))

    def alone(i: int, j: int):
        """A policy of this number alone."""
        if squashed:
            return SquashedNormal(mean[i, j, None], std[j], LOW[j], HIGH[j])
        return normal(mean[i, j, None], std[j])

    counts = [[(0, 0), (0, 1)], [(1, 1)]]
    log_prob = [sum(float(alone(i, j).log_prob(action[i, j, None])) for i, j in cells) for cells in counts]
    entropy = [sum(float(alone(i, j).entropy()) for i, j in cells) for cells in counts]
    np.testing.assert_allclose(policy.log_prob(action), log_prob, rtol=1e-5)
    np.testing.assert_allclose(policy.entropy(), entropy, rtol=1e-5)
    np.testing.assert_array_equal(policy.log_prob(action), policy.log_prob(action.at[1, 0].set(0.1)))
