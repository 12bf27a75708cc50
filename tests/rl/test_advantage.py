"""Advantages against slow NumPy versions."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxrl.rl.advantage import bootstrap_values, gae, normalise
from jaxrl.rl.devices import AXIS

GAMMA, LAMBDA, T = 0.9, 0.8, 4


def slow_gae(reward, terminated, truncated, value, following, final_value):
    """The definition: a sum of discounted TD errors, written without any recursion or `cut`."""
    advantage = np.zeros(T)
    for t in range(T):
        weight = 1.0
        for k in range(t, T):
            if terminated[k]:
                next_value = 0.0
            elif truncated[k]:
                next_value = final_value[k]
            else:
                next_value = following[k]
            advantage[t] += weight * (reward[k] + GAMMA * next_value - value[k])
            if terminated[k] or truncated[k]:
                break  # nothing of the next episode counts
            weight *= GAMMA * LAMBDA
    return advantage


def test_gae_at_every_position_of_terminated_and_truncated():
    rng = np.random.default_rng(0)
    reward, value, final_value = rng.normal(size=(3, T))
    following = np.append(value[1:], rng.normal())
    ends = list(itertools.product(("", "terminated", "truncated"), repeat=T))  # all 81 histories, as a batch
    terminated = np.array([[e == "terminated" for e in row] for row in ends]).T
    truncated = np.array([[e == "truncated" for e in row] for row in ends]).T
    expected = np.stack(
        [slow_gae(reward, terminated[:, i], truncated[:, i], value, following, final_value) for i in range(len(ends))],
        axis=1,
    )
    column = [np.broadcast_to(x[:, None], terminated.shape) for x in (reward, value, following, final_value)]
    reward_b, value_b, following_b, final_b = column
    actual = gae(
        jnp.asarray(reward_b),
        jnp.asarray(GAMMA * (1.0 - terminated)),
        jnp.asarray(terminated | truncated),
        jnp.asarray(value_b),
        jnp.where(truncated, final_b, following_b),
        LAMBDA,
    )
    np.testing.assert_allclose(actual, expected, atol=1e-5)


@pytest.mark.quick
def test_normalise_ignores_what_has_no_weight():
    rng = np.random.default_rng(0)
    x, weight = jnp.asarray(rng.normal(3.0, 2.0, (5, 6))), jnp.asarray(rng.integers(0, 2, (5, 6)), jnp.float32)
    chosen = np.asarray(x)[np.asarray(weight) == 1]
    expected = (chosen - chosen.mean()) / chosen.std()
    spoiled = jnp.where(weight == 1, x, 1e3)
    np.testing.assert_allclose(normalise(spoiled, weight)[weight == 1], expected, rtol=1e-3, atol=1e-4)
    assert (normalise(x, jnp.zeros_like(x)) == x * 1e4).all()  # a mean and a deviation of nothing are 0


@pytest.mark.quick
def test_devices_with_different_means_normalise_as_one():
    """Each of four devices has a mean of its own, and one has no sample with a weight."""
    rng = np.random.default_rng(0)
    x = jnp.asarray(rng.normal(np.array([[0.0], [5.0], [-40.0], [100.0]]), 2.0, (4, 8)), jnp.float32)
    weight = jnp.asarray(rng.integers(0, 2, (4, 8)), jnp.float32).at[3].set(0.0)
    together = jax.vmap(normalise, axis_name=AXIS)(x, weight)
    np.testing.assert_allclose(together, normalise(x, weight), rtol=1e-4, atol=1e-5)


def test_the_value_after_a_step_is_that_of_the_same_episode():
    rng = np.random.default_rng(0)
    value, final = rng.normal(size=(2, 6, 4)).astype(np.float32)
    cut = rng.random((6, 4)) < 0.4
    got = np.asarray(bootstrap_values(jnp.asarray(value), jnp.asarray(final), jnp.asarray(cut)))
    for t in range(6):
        for b in range(4):
            assert got[t, b] == (final[t, b] if cut[t, b] or t == 5 else value[t + 1, b])


@pytest.mark.quick
def test_gae_refuses_shapes_that_would_broadcast_into_one_another():
    steps, column = jnp.ones((T, 3)), jnp.ones((T, 3, 1))
    with pytest.raises(AssertionError, match="shape"):
        gae(column, 0.9 * column, jnp.zeros((T, 3, 1), bool), steps, steps, LAMBDA)
    with pytest.raises(AssertionError, match="broadcast"):
        gae(steps, 0.9 * column, jnp.zeros((T, 3), bool), steps, steps, LAMBDA)
