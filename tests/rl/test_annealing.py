"""Schedules begin at the initial value, end where they are told to, and stay there."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxrl.rl.annealing import annealed, parse_schedule, ramp, register_schedule

HALF = 0.5 * (1 + np.cos(np.pi / 4))  # of a cosine, after a quarter


@pytest.mark.parametrize(
    ("schedule", "expected"),
    [
        ("constant", [3.0, 3.0, 3.0, 3.0, 3.0]),
        ("linear", [3.0, 2.25, 1.5, 0.0, 0.0]),
        ("linear:0.5", [3.0, 2.625, 2.25, 1.5, 1.5]),
        ("linear:2", [3.0, 3.75, 4.5, 6.0, 6.0]),
        ("cosine", [3.0, 3.0 * HALF, 1.5, 0.0, 0.0]),
        ("warmup:0.5", [0.75, 2.25, 3.0, 3.0, 3.0]),
        ("warmup:0.25+linear", [1.5, 3.0, 2.0, 0.0, 0.0]),
    ],
)
def test_values_over_a_run(schedule: str, expected: list[float]) -> None:
    at = jax.jit(jax.vmap(lambda update: annealed(parse_schedule(schedule), 3.0, update, 8)))
    np.testing.assert_allclose(at(jnp.array([0, 2, 4, 8, 100])), expected, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize(
    ("share", "expected"), [(0.5, [1.0, 0.55, 0.1, 0.1, 0.1]), (1.0, [1.0, 0.775, 0.55, 0.1, 0.1]), (0.0, [0.1] * 5)]
)
def test_a_ramp_takes_its_share_of_the_run(share: float, expected: list[float]) -> None:
    at = jax.jit(jax.vmap(lambda update: ramp(1.0, 0.1, share, update, 8)))
    np.testing.assert_allclose(at(jnp.array([0, 2, 4, 8, 100])), expected, rtol=1e-6)


def test_a_curve_of_ones_own_multiplies_the_initial_value() -> None:
    register_schedule("sawtooth", lambda progress: 1.0 - (4.0 * progress) % 1.0)
    values = [float(annealed(parse_schedule("sawtooth"), 2.0, update, 8)) for update in range(5)]
    np.testing.assert_allclose(values, [2.0, 1.0, 2.0, 1.0, 2.0])
    register_schedule("sawtooth", lambda progress: 0.0 * progress)  # a cell that is run again
    assert float(annealed(parse_schedule("sawtooth"), 2.0, 0, 8)) == 0.0


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("cosin", r"no schedule 'cosin', but constant, linear, cosine, warmup.*register_schedule\('cosin'"),
        ("linear:much", "'much' is not a number"),
        ("constant:0.5", "only linear and cosine take a final value"),
        ("warmup:2+linear", "a share of the run between 0 and 1"),
        ("linear+cosine", "only a warm-up comes before a +"),
    ],
)
def test_what_is_no_schedule_is_explained(text: str, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        parse_schedule(text)


def test_built_in_schedules_keep_their_names() -> None:
    with pytest.raises(ValueError, match="cannot be called 'linear'"):
        register_schedule("linear", jnp.ones_like)
