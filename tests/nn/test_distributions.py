"""Masked categorical: masked actions are impossible, and nothing becomes NaN."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxrl.nn.distributions import categorical

LOGITS = np.array([[0.3, -1.0, 2.0, 0.5]], np.float32)
MASK = np.array([[True, False, True, False]])


@pytest.mark.quick
def test_masked_actions_are_never_drawn_and_the_rest_is_renormalised():
    policy = categorical(jnp.asarray(LOGITS), jnp.asarray(MASK))
    actions = jax.vmap(lambda k: policy.sample(seed=k))(jax.random.split(jax.random.key(0), 500))
    assert set(np.unique(actions)) == {0, 2}
    expected = np.exp(LOGITS[0, [0, 2]]) / np.exp(LOGITS[0, [0, 2]]).sum()
    np.testing.assert_allclose(np.exp(policy.log_prob(jnp.array([0]))), expected[0], rtol=1e-5)
    np.testing.assert_allclose(policy.entropy(), -(expected * np.log(expected)).sum(), rtol=1e-5)
    assert policy.mode() == 2


def test_gradients_stay_finite_with_one_action_left():
    def objective(logits):
        policy = categorical(logits, jnp.array([[False, True, False, False]]))
        return (policy.entropy() + policy.log_prob(jnp.array([1]))).sum()

    value, grad = jax.value_and_grad(objective)(jnp.asarray(LOGITS))
    assert np.isfinite(value)
    np.testing.assert_allclose(grad, 0.0, atol=1e-6)
