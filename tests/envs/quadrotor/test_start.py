"""How episodes begin: distributions against rejection sampling in NumPy, and ranges."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxrl.environment import as_arrays
from jaxrl.envs.quadrotor.physics import HoverParams
from jaxrl.envs.quadrotor.task import random_rotation, start_disturbance, start_motion

COUNT = 20_000
PARAMS: Any = as_arrays(HoverParams())
DRAWS = jax.random.uniform(jax.random.key(0), (COUNT, 3))


def rejected(most: float, rng: np.random.Generator) -> np.ndarray:
    """Rotation angles of uniform quaternions, of which those beyond `most` or with a negative w are thrown away."""
    q = rng.normal(size=(4_000_000, 4))
    q = q[q[:, 0] > np.cos(most / 2) * np.linalg.norm(q, axis=1)]
    return 2 * np.arccos(q[:, 0] / np.linalg.norm(q, axis=1))[:COUNT]


def distance_of_distributions(a: np.ndarray, b: np.ndarray) -> float:
    """The statistic of Kolmogorov and Smirnov."""
    both = np.concatenate([a, b])
    return float(np.abs(np.searchsorted(np.sort(a), both) / len(a) - np.searchsorted(np.sort(b), both) / len(b)).max())


@pytest.mark.parametrize("most", [np.pi / 2, np.pi])
def test_angles_are_those_that_rejection_would_leave(most):
    q = np.asarray(jax.jit(jax.vmap(random_rotation, in_axes=(0, None)))(DRAWS, np.float32(most)), np.float64)
    wanted = rejected(most, np.random.default_rng(0))
    assert len(wanted) == COUNT
    limit = 1.63 * np.sqrt(2 / COUNT)  # two equal distributions are farther apart once in a hundred times
    assert distance_of_distributions(2 * np.arccos(np.clip(q[:, 0], -1, 1)), wanted) < limit
    np.testing.assert_allclose(np.linalg.norm(q, axis=1), 1, atol=1e-6)


def test_axes_are_uniform_on_the_sphere():
    q = np.asarray(jax.vmap(random_rotation, in_axes=(0, None))(DRAWS, np.float32(np.pi / 2)), np.float64)
    axis = q[:, 1:] / np.linalg.norm(q[:, 1:], axis=1, keepdims=True)
    np.testing.assert_allclose(axis.mean(0), 0, atol=0.02)
    np.testing.assert_allclose(axis.T @ axis / COUNT, np.eye(3) / 3, atol=0.01)
    np.testing.assert_allclose((axis**4).mean(0), 1 / 5, atol=0.01)  # of a cube's corners it would be 1/9
    assert abs(np.corrcoef(q[:, 0], axis[:, 2])[0, 1]) < 0.03


@pytest.mark.parametrize("most", [1e-3, 0.1, np.pi / 2, np.pi])
def test_angles_solve_their_equation_to_the_ends(most):
    share = np.array([0, 1e-6, 1e-3, 0.25, 0.5, 0.75, 1 - 2**-24], np.float32)
    draws = jnp.stack([share, jnp.full(7, 0.5), jnp.full(7, 0.5)], 1)
    q = np.asarray(jax.jit(jax.vmap(random_rotation, in_axes=(0, None)))(draws, np.float32(most)), np.float64)
    angle = 2 * np.arctan2(np.linalg.norm(q[:, 1:], axis=1), q[:, 0])
    assert np.isfinite(q).all()
    assert (angle <= most * (1 + 1e-3)).all()
    assert angle[0] == 0
    if most > 0.05:  # below, x - sin x has no digits left in float32
        np.testing.assert_allclose((angle - np.sin(angle)) / (most - np.sin(most)), share, atol=2e-3)


def test_ranges_and_shares():
    starts = jax.vmap(start_motion, in_axes=(0, None))(jax.random.split(jax.random.key(1), COUNT), PARAMS)
    level = np.asarray((starts.quaternion == jnp.array([1.0, 0, 0, 0])).all(1))
    still = np.asarray((starts.position == 0).all(1))
    np.testing.assert_array_equal(level, still)
    assert level.mean() == pytest.approx(0.1, abs=0.01)
    for values, most in (
        (starts.position[~still], 0.2),
        (starts.velocity, 1.0),
        (starts.velocity[still], 1.0),
        (starts.angular_velocity, 1.0),
    ):
        assert np.abs(values).max() <= most
        np.testing.assert_allclose(values.mean(0), 0, atol=0.05 * most)
        np.testing.assert_allclose(values.std(0), most / np.sqrt(3), rtol=0.03)
    together = np.concatenate([starts.position, starts.velocity, starts.angular_velocity], 1)[~still]
    np.testing.assert_allclose(np.corrcoef(together.T), np.eye(9), atol=0.04)
    assert (starts.rpm == 10851).all()


def test_disturbances_have_the_deviations_of_their_parameters():
    force, torque = jax.vmap(start_disturbance, in_axes=(0, None))(jax.random.split(jax.random.key(2), COUNT), PARAMS)
    weight = 0.027 * 9.81
    np.testing.assert_allclose(force.std(0), weight / 20, rtol=0.03)
    np.testing.assert_allclose(torque.std(0), weight / 10_000, rtol=0.03)
    both = np.concatenate([force / PARAMS.force_std, torque / PARAMS.torque_std], 1)
    np.testing.assert_allclose(np.corrcoef(both.T), np.eye(6), atol=0.04)
    np.testing.assert_allclose(both.mean(0), 0, atol=0.03)
