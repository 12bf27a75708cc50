"""Schedules begin at the initial value, end at the final one, and stay there."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxrl.rl.annealing import ANNEALING, annealed


@pytest.mark.parametrize(
    ("schedule", "expected"),
    [
        ("constant", [3.0, 3.0, 3.0, 3.0, 3.0]),
        ("linear", [3.0, 2.5, 2.0, 1.0, 1.0]),
        ("cosine", [3.0, 1.0 + 2.0 * 0.5 * (1 + np.cos(np.pi / 4)), 2.0, 1.0, 1.0]),
    ],
)
def test_values_over_a_run(schedule, expected):
    at = jax.jit(jax.vmap(lambda update: annealed(schedule, 3.0, update, 8, final=1.0)))
    np.testing.assert_allclose(at(jnp.array([0, 2, 4, 8, 100])), expected, rtol=1e-6)


def test_every_schedule_but_the_constant_falls_to_zero_unless_told_otherwise():
    assert set(ANNEALING) == {"constant", "linear", "cosine"}
    assert [float(annealed(name, 0.5, 8, 8)) for name in ANNEALING] == [0.5, 0.0, 0.0]
