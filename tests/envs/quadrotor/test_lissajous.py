"""The target's way."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxrl.environment import as_arrays
from jaxrl.envs.quadrotor.physics import TrackParams
from jaxrl.envs.quadrotor.task import lissajous

PARAMS: Any = as_arrays(TrackParams())
PHASE: Any = np.array([0.3, 2.0, 5.0], np.float32)


def test_each_axis_is_a_sine_of_its_own():
    seconds: Any = np.linspace(0, 5, 50, dtype=np.float32)
    position, _ = jax.vmap(lissajous, in_axes=(0, None, None))(seconds, PHASE, PARAMS)
    for axis, (amplitude, period) in enumerate(((0.5, 5), (0.25, 2.5), (0.1, 5))):
        wanted = amplitude * np.sin(2 * np.pi * seconds / period + PHASE[axis])
        np.testing.assert_allclose(position[:, axis], wanted, atol=1e-5)


def test_the_velocity_is_that_of_the_position():
    for seconds in (0.0, 1.3, 4.9):
        at = jnp.float32(seconds)
        position, velocity = jax.jvp(lambda t: lissajous(t, PHASE, PARAMS)[0], (at,), (jnp.ones_like(at),))
        np.testing.assert_allclose(lissajous(at, PHASE, PARAMS)[0], position)
        np.testing.assert_allclose(lissajous(at, PHASE, PARAMS)[1], velocity, atol=1e-5)
