"""Rewards against slow code, and what loses an episode."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxrl.environment import as_arrays
from jaxrl.envs.quadrotor.physics import HoverParams, Motion
from jaxrl.envs.quadrotor.task import is_lost, reward

PARAMS: Any = as_arrays(HoverParams())
AT_TARGET = Motion(jnp.zeros(3), jnp.array([1.0, 0, 0, 0]), jnp.zeros(3), jnp.zeros(3), jnp.zeros(4))


def slow_reward(error: Any, action: Any, weights: Any) -> float:
    cost = 0.0
    for number in range(3):
        cost += weights[0] * float(error.position[number]) ** 2 + weights[2] * float(error.velocity[number]) ** 2
    cost += weights[1] * (1 - float(error.quaternion[0]) ** 2)
    for number in range(4):
        cost += weights[3] * (float(action[number]) - 0.334053) ** 2
    return 2 - 0.5 * cost


@pytest.mark.parametrize("weights", [(5, 5, 0.01, 0.01), (40, 5, 1, 1)])
def test_rewards_equal_slow_ones(weights):
    names = ("position_cost", "tilt_cost", "velocity_cost", "action_cost")
    params: Any = dataclasses.replace(PARAMS, **dict(zip(names, map(np.float32, weights), strict=True)))
    rng = np.random.default_rng(0)
    for _ in range(10):
        q = rng.normal(size=4)
        parts = (rng.normal(size=3), q / np.linalg.norm(q), rng.normal(size=3), rng.normal(size=3), rng.normal(size=4))
        error = Motion(*(jnp.asarray(part, jnp.float32) for part in parts))
        action = jnp.asarray(rng.uniform(-1, 1, 4), jnp.float32)
        np.testing.assert_allclose(reward(error, action, params), slow_reward(error, action, weights), rtol=1e-5)


def test_the_best_reward_is_that_of_hovering_at_the_target():
    action = jnp.full(4, 0.334053)
    assert float(reward(AT_TARGET, action, PARAMS)) == pytest.approx(2)
    slope = jax.grad(lambda a: reward(AT_TARGET, a, PARAMS))(action)
    np.testing.assert_allclose(slope, 0, atol=1e-6)


def test_what_costs_follows_the_mass():
    heavy: Any = dataclasses.replace(PARAMS, mass=np.float32(0.05))
    assert reward(AT_TARGET, jnp.full(4, 0.334053), heavy) < 2 - 1e-3


@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("sign", [-1, 1])
@pytest.mark.parametrize(("name", "limit"), [("position", 0.6), ("velocity", 1000.0), ("angular_velocity", 1000.0)])
def test_an_episode_is_lost_beyond_a_limit_along_any_axis(name, limit, sign, axis):
    for factor, expected in ((0.999, False), (1.001, True)):
        value = jnp.zeros(3).at[axis].set(sign * factor * limit)
        assert bool(is_lost(dataclasses.replace(AT_TARGET, **{name: value}), PARAMS)) == expected


def test_what_is_not_finite_is_lost():
    for name in ("position", "velocity", "angular_velocity"):
        broken = dataclasses.replace(AT_TARGET, **{name: jnp.array([0.0, jnp.nan, 0.0])})
        assert is_lost(broken, PARAMS)
