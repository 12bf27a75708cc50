"""What the drone senses, part by part."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxrl.environment import as_arrays
from jaxrl.envs.quadrotor.physics import HoverParams, Motion, State
from jaxrl.envs.quadrotor.task import MOTION_SIZE, privileged, sensed

PARAMS: Any = as_arrays(HoverParams())
HALF = np.sqrt(0.5)
STATE = State(
    motion=Motion(
        position=jnp.array([0.1, 0.2, 0.3]),
        quaternion=jnp.array([HALF, 0, 0, HALF]),  # a quarter to the left: its x axis is the world's y axis
        velocity=jnp.array([1.0, 2.0, 3.0]),
        angular_velocity=jnp.array([4.0, 5.0, 6.0]),
        rpm=jnp.array([0.0, 10851.0, 21702.0, 5425.5]),
    ),
    force=jnp.array([0.01, 0.02, 0.03]),
    torque=jnp.array([1e-5, 2e-5, 3e-5]),
    history=jnp.zeros((2, 4)),
    noise=jnp.zeros(MOTION_SIZE),
    step=jnp.int32(0),
)
EXACT = [0.1, 0.2, 0.3, 0, -1, 0, 1, 0, 0, 0, 0, 1, 1, 2, 3, 4, 5, 6]


def test_parts_without_noise():
    np.testing.assert_allclose(sensed(STATE, PARAMS), EXACT, atol=1e-6)


def test_noise_has_the_deviation_of_each_part():
    noise = jax.random.normal(jax.random.key(0), (4000, MOTION_SIZE))
    noisy = jax.vmap(lambda row: sensed(dataclasses.replace(STATE, noise=row), PARAMS))(noise)
    np.testing.assert_allclose(noisy.std(0), [0.001] * 12 + [0.002] * 6, rtol=0.06)
    np.testing.assert_allclose(noisy.mean(0), EXACT, atol=2e-4)
    np.testing.assert_allclose(np.corrcoef(noisy.T), np.eye(MOTION_SIZE), atol=0.08)


def test_each_noise_has_its_parameter():
    parts = {
        "position_noise": slice(0, 3),
        "rotation_noise": slice(3, 12),
        "velocity_noise": slice(12, 15),
        "angular_velocity_noise": slice(15, 18),
    }
    ones = dataclasses.replace(STATE, noise=jnp.ones(MOTION_SIZE))
    none: Any = dataclasses.replace(PARAMS, **dict.fromkeys(parts, np.float32(0)))
    np.testing.assert_allclose(sensed(ones, none), EXACT, atol=1e-6)
    for name, part in parts.items():
        params: Any = dataclasses.replace(none, **{name: np.float32(0.5)})
        wanted = np.array(EXACT)
        wanted[part] += 0.5
        np.testing.assert_allclose(sensed(ones, params), wanted, atol=1e-6)


def test_a_critic_knows_what_disturbs_and_how_fast_rotors_turn():
    noisy = dataclasses.replace(STATE, noise=jnp.ones(MOTION_SIZE))
    wanted = [*EXACT, 0.01, 0.02, 0.03, 1e-5, 2e-5, 3e-5, -1, 0, 1, -0.5]
    np.testing.assert_allclose(privileged(noisy, PARAMS), wanted, atol=1e-6)
