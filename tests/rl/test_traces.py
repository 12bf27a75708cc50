"""Eligibility traces and bounded steps, against slow NumPy."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxrl.rl.traces import accumulate, bounded_step, new_trace

SHAPES = {"kernel": (3, 2), "bias": (2,)}


def tree(rng):
    return {name: rng.normal(size=shape).astype(np.float32) for name, shape in SHAPES.items()}


@pytest.mark.parametrize("size", [1e-3, 1.0, 100.0])  # of the trace: steps of the full size, and far smaller ones
@pytest.mark.parametrize("td_error", [0.25, -7.0])
def test_a_step_is_as_in_the_paper(size, td_error):
    rng = np.random.default_rng(0)
    params, trace = tree(rng), jax.tree.map(lambda leaf: size * leaf, tree(rng))
    got, step_size = bounded_step(params, trace, jnp.float32(td_error), 0.5, 2.0)

    norm = sum(abs(float(z)) for leaf in trace.values() for z in leaf.ravel())  # over all parameters together
    overshoot = 0.5 * 2.0 * max(abs(td_error), 1.0) * norm
    slow = min(0.5 / overshoot, 0.5)
    np.testing.assert_allclose(step_size, slow, rtol=1e-5)
    for name in SHAPES:
        np.testing.assert_allclose(got[name], params[name] + slow * td_error * trace[name], rtol=1e-5, atol=1e-6)


def test_no_step_overshoots():
    """The error of a linear prediction from features in -1 … 1 keeps its sign, and the default halves it at most."""
    rng = np.random.default_rng(0)
    features = rng.uniform(-1, 1, (10_000, 8)).astype(np.float32)
    weights, target = rng.normal(size=(10_000, 8)).astype(np.float32), 100 * rng.normal(size=10_000).astype(np.float32)
    error = target - np.sum(weights * features, -1)
    moved, _ = jax.vmap(lambda w, x, e: bounded_step(w, x, e, 1.0, 2.0))(weights, features, error)
    left = (target - np.sum(np.asarray(moved) * features, -1)) / error
    assert np.all((left > 0.5 - 1e-3) & (left <= 1.0))


def test_a_trace_is_the_decayed_sum_of_gradients_since_it_was_cut():
    rng = np.random.default_rng(0)
    gradients, decays = [tree(rng) for _ in range(5)], [0.0, 0.9, 0.5, 0.0, 0.8]
    trace = new_trace(gradients[0])
    assert not any(leaf.any() for leaf in trace.values())
    for gradient, decay in zip(gradients, decays, strict=True):
        trace = accumulate(trace, gradient, decay)
    for name in SHAPES:
        np.testing.assert_allclose(trace[name], gradients[4][name] + 0.8 * gradients[3][name], rtol=1e-5)
