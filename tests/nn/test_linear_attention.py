"""Linear attention in chunks is the recurrence, step by step, also with resets inside of a chunk."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxrl.nn.linear_attention import recall

R, HEADS, D = 2, 3, 4


def one_by_one(query, key, value, log_decay, strength, reset, matrices):
    """The recurrences as their papers write them, in float64."""
    found, matrices = np.zeros(value.shape), np.array(matrices, np.float64)
    for r in range(R):
        for h in range(HEADS):
            s = matrices[r, h].copy()
            for t in range(query.shape[2]):
                s = np.zeros_like(s) if reset[r, t] else np.exp(log_decay[r, h, t]) * s
                new = value[r, h, t]
                if strength is not None:
                    new = strength[r, h, t] * (new - s.T @ key[r, h, t])
                s = s + np.outer(key[r, h, t], new)
                found[r, h, t] = s.T @ query[r, h, t]
            matrices[r, h] = s
    return matrices, found


@pytest.mark.parametrize("delta", [False, True])
@pytest.mark.parametrize("num_steps", [1, 7, 16, 48, 130])
def test_chunks_equal_the_recurrence(delta, num_steps):
    rng = np.random.default_rng(num_steps)
    query, key, value = rng.normal(size=(3, R, HEADS, num_steps, D))
    key /= np.linalg.norm(key, axis=-1, keepdims=True)
    log_decay = -rng.exponential(0.2, size=(R, HEADS, num_steps))
    strength = rng.uniform(size=log_decay.shape) if delta else None
    reset = rng.uniform(size=(R, num_steps)) < 0.1
    reset[0, 0] = reset[1, -1] = True
    reset[1, 2:4] = True
    matrices = rng.normal(size=(R, HEADS, D, D))
    wanted = one_by_one(query, key, value, log_decay, strength, reset, matrices)
    inputs = [None if x is None else jnp.asarray(x) for x in (query, key, value, log_decay, strength, reset, matrices)]
    for mine, theirs in zip(jax.jit(recall)(*inputs), wanted, strict=True):
        np.testing.assert_allclose(mine, theirs, atol=2e-5)


def test_by_hand():
    """Sable's example with one agent: everything 1, a decay of a half, 4 before, a reset at the last step."""
    ones = jnp.ones((1, 1, 3, 1))
    decay, four = jnp.full((1, 1, 3), jnp.log(0.5)), jnp.full((1, 1, 1, 1), 4.0)
    reset = jnp.asarray([[False, False, True]])
    after, found = recall(ones, ones, ones, decay, None, reset, four)
    np.testing.assert_allclose(found.ravel(), [3.0, 2.5, 1.0], rtol=1e-6)
    np.testing.assert_allclose(after.ravel(), 1.0)


def test_by_hand_for_a_team():
    """The same for two agents who act in turn: as steps of one sequence, of which only the first of a turn decays."""
    ones, four = jnp.ones((1, 1, 6, 1)), jnp.full((1, 1, 1, 1), 4.0)
    decay = jnp.tile(jnp.log(jnp.asarray([0.5, 1.0])), 3)[None, None]
    reset = jnp.asarray([[False, False, False, False, True, False]])
    after, found = recall(ones, ones, ones, decay, None, reset, four)
    np.testing.assert_allclose(found.ravel(), [3.0, 4.0, 3.0, 4.0, 1.0, 2.0], rtol=1e-6)
    np.testing.assert_allclose(after.ravel(), 2.0, rtol=1e-6)


def test_the_delta_rule_replaces_the_value_of_a_key():
    """With full strength and no decay, a key has its latest value, and others keep theirs."""
    key = jnp.asarray([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0]])[None, None]
    value = jnp.asarray([[5.0, 5.0], [7.0, 7.0], [1.0, 2.0]])[None, None]
    still, reset = jnp.zeros((1, 1, 3)), jnp.zeros((1, 3), bool)
    after, _ = recall(key, key, value, still, jnp.ones((1, 1, 3)), reset, jnp.zeros((1, 1, 2, 2)))
    np.testing.assert_allclose(after[0, 0], [[1.0, 2.0], [7.0, 7.0]], atol=1e-6)


def test_gradients_of_long_decays_are_finite():
    rng = np.random.default_rng(0)
    query, key, value = jnp.asarray(rng.normal(size=(3, R, HEADS, 64, D)), jnp.float32)
    decay = jnp.full((R, HEADS, 64), -20.0)
    reset = jnp.zeros((R, 64), bool)
    matrices = jnp.ones((R, HEADS, D, D))
    grads = jax.grad(lambda q, d: recall(q, key, value, d, None, reset, matrices)[1].sum(), (0, 1))(query, decay)
    assert all(np.isfinite(leaf).all() for leaf in grads)
