"""The laws of motion, against slow float64 code that shares nothing with ours, and against what must hold."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxrl.environment import as_arrays
from jaxrl.envs.quadrotor.physics import HoverParams, Motion, advance, hover_action, rotation_matrix, thrusts

PARAMS: Any = as_arrays(HoverParams())
NOTHING: Any = np.zeros(3, np.float32)
HOVER_RPM = 14475.8


def motion(
    position: Any = (0, 0, 0),
    quaternion: Any = (1, 0, 0, 0),
    velocity: Any = (0, 0, 0),
    spin: Any = (0, 0, 0),
    rpm: Any = (0, 0, 0, 0),
) -> Motion:
    unit = np.asarray(quaternion) / np.linalg.norm(quaternion)
    parts = (position, unit, velocity, spin, rpm)
    return Motion(*(jnp.asarray(part, jnp.float32) for part in parts))


@jax.jit
def fly(start: Motion, actions: jax.Array, force: jax.Array, torque: jax.Array, params: Any) -> Motion:
    """The motion after each of T actions, leaves `[T, …]`."""

    def step(at: Motion, action: jax.Array) -> tuple[Motion, Motion]:
        after = advance(at, action, force, torque, params)
        return after, after

    return jax.lax.scan(step, start, actions)[1]


def hold(action: Any, steps: int) -> jax.Array:
    return jnp.broadcast_to(jnp.asarray(action, jnp.float32), (steps, 4))


# The slow version: Hamilton products, vectors of forces at the places of the rotors, NumPy's cross product.


def product(a, b):
    return np.array([a[0] * b[0] - a[1:] @ b[1:], *(a[0] * b[1:] + b[0] * a[1:] + np.cross(a[1:], b[1:]))])


def turned(q, vector):
    return product(product(q, np.array([0.0, *vector])), np.array([q[0], *-q[1:]]))[1:]


def slow_slope(y, wanted, force, torque):
    q, v, w, rpm = y[3:7], y[7:10], y[10:13], y[13:17]
    places = 0.028 * np.array([[1, -1, 0], [-1, -1, 0], [-1, 1, 0], [1, 1, 0]])
    inertia = np.diag([3.85e-6, 3.85e-6, 5.9675e-6])
    pushes = [np.array([0, 0, 3.16e-10 * speed**2]) for speed in rpm]
    twist = torque + sum(np.cross(place, push) for place, push in zip(places, pushes, strict=True))
    twist = twist + sum(sign * 0.005964552 * push for sign, push in zip((-1, 1, -1, 1), pushes, strict=True))
    unit = q / np.linalg.norm(q)
    acceleration = (turned(unit, sum(pushes)) + force) / 0.027 + np.array([0, 0, -9.81])
    spin_up = np.linalg.solve(inertia, twist - np.cross(w, inertia @ w))
    return np.concatenate([v, 0.5 * product(q, np.array([0.0, *w])), acceleration, spin_up, (wanted - rpm) / 0.15])


def slow_step(y, action, force, torque):
    wanted, h = (np.clip(action, -1, 1) + 1) / 2 * 21702, 0.01
    k1 = slow_slope(y, wanted, force, torque)
    k2 = slow_slope(y + h / 2 * k1, wanted, force, torque)
    k3 = slow_slope(y + h / 2 * k2, wanted, force, torque)
    k4 = slow_slope(y + h * k3, wanted, force, torque)
    y = y + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
    y[3:7] /= np.linalg.norm(y[3:7])
    y[13:] = np.clip(y[13:], 0, 21702)
    return y


def flat(at: Motion) -> np.ndarray:
    parts = (at.position, at.quaternion, at.velocity, at.angular_velocity, at.rpm)
    return np.concatenate([np.asarray(part, np.float64) for part in parts], -1)


@pytest.mark.parametrize(
    ("steps", "size", "tolerance"),
    [
        pytest.param(500, 0.002, 1e-3, id="a gentle flight of 5 s"),
        pytest.param(25, 1.0, 2e-4, id="a wild one of a quarter of a second"),
    ],
)
def test_a_flight_equals_slow_float64(steps, size, tolerance):
    rng = np.random.default_rng(0)
    actions = np.clip(0.33405 + size * rng.normal(size=(steps, 4)), -1, 1).astype(np.float32)
    force: Any = (rng.normal(size=3) * 0.002).astype(np.float32)
    torque: Any = (rng.normal(size=3) * 1e-7).astype(np.float32)
    start = motion(
        rng.uniform(-0.2, 0.2, 3),
        [0.9, -0.3, 0.1, 0.3],
        rng.uniform(-1, 1, 3),
        rng.uniform(-1, 1, 3),
        [HOVER_RPM] * 4,
    )
    got = flat(fly(start, jnp.asarray(actions), force, torque, PARAMS))
    y = flat(start)
    for t in range(steps):
        y = slow_step(y, actions[t].astype(np.float64), force.astype(np.float64), torque.astype(np.float64))
        scale = np.maximum(1, np.abs(y))  # rotor speeds are large numbers
        np.testing.assert_allclose(got[t] / scale, y / scale, rtol=0, atol=tolerance)
    assert np.abs(y[10:13]).max() > (0.5 if size < 1 else 5)  # it did turn


def test_the_action_that_hovers():
    action = hover_action(PARAMS)
    assert float(action) == pytest.approx(0.33405, abs=1e-5)
    last = jax.tree.map(lambda x: x[-1], fly(motion(rpm=[HOVER_RPM] * 4), hold(action, 100), NOTHING, NOTHING, PARAMS))
    np.testing.assert_allclose(last.velocity, 0, atol=1e-4)
    np.testing.assert_allclose(last.rpm, HOVER_RPM, atol=0.1)


@pytest.mark.parametrize("curve", [(0.0, 0.0, 3.16e-10), (0.001, 2e-6, 1e-10), (0.0, 4e-6, 0.0)])
def test_the_action_that_hovers_carries_any_drone(curve):
    params: Any = as_arrays(HoverParams(mass=0.04, rpm_min=500.0, thrust_curve=np.float32(curve)))
    rpm = params.rpm_min + (hover_action(params) + 1) / 2 * (params.rpm_max - params.rpm_min)
    np.testing.assert_allclose(4 * thrusts(rpm, params), 0.04 * 9.81, rtol=1e-5)


def test_without_thrust_it_falls_as_a_stone_does():
    path = fly(motion(velocity=[0.3, 0, 1]), hold(-1, 100), NOTHING, NOTHING, PARAMS)
    seconds = np.arange(1, 101) * 0.01
    np.testing.assert_allclose(path.velocity[:, 2], 1 - 9.81 * seconds, atol=1e-4)
    np.testing.assert_allclose(path.position[:, 2], seconds - 9.81 / 2 * seconds**2, atol=1e-4)
    np.testing.assert_allclose(path.position[:, 0], 0.3 * seconds, atol=1e-5)
    np.testing.assert_allclose(path.quaternion, [[1, 0, 0, 0]] * 100)


def test_free_tumbling_keeps_angular_momentum_and_energy():
    """In the axes of the world, also its direction: the drone precesses, as its inertia differs between axes."""
    path = fly(motion(spin=[4.0, -2.0, 6.0]), hold(-1, 500), NOTHING, NOTHING, PARAMS)
    momentum = np.einsum(
        "tij,tj->ti", jax.vmap(rotation_matrix)(path.quaternion), PARAMS.inertia * path.angular_velocity
    )
    wanted = PARAMS.inertia * np.array([4.0, -2.0, 6.0])
    np.testing.assert_allclose(momentum, np.broadcast_to(wanted, (500, 3)), atol=1e-4 * float(np.linalg.norm(wanted)))
    energy = np.sum(PARAMS.inertia * path.angular_velocity**2, -1)
    np.testing.assert_allclose(energy, energy[0], rtol=1e-4)
    assert np.ptp(path.angular_velocity[:, 0]) > 3  # it does precess
    np.testing.assert_allclose(np.linalg.norm(path.quaternion, axis=-1), 1, atol=1e-6)


def test_motors_follow_with_a_lag():
    path = fly(motion(), hold([1, 0, -1, 1], 100), NOTHING, NOTHING, PARAMS)
    grown = 1 - np.exp(-np.arange(1, 101)[:, None] * 0.01 / 0.15)
    np.testing.assert_allclose(path.rpm, 21702 * np.array([1, 0.5, 0, 1]) * grown, rtol=1e-5, atol=0.1)


def test_rotor_speeds_stay_in_their_range():
    after = advance(motion(rpm=[30000, 21702, -500, 0]), jnp.array([1.0, 1.0, -1.0, -1.0]), NOTHING, NOTHING, PARAMS)
    np.testing.assert_allclose(after.rpm, [21702, 21702, 0, 0])


@pytest.mark.parametrize(
    ("stronger", "spin_axis", "drift"),
    [
        pytest.param((0, 3), (0, -1, 0), (-1, 0, 0), id="front rotors lift the nose, and it flies backwards"),
        pytest.param((2, 3), (1, 0, 0), (0, -1, 0), id="left rotors lift the left side, and it flies to the right"),
        pytest.param((1, 3), (0, 0, 1), (0, 0, 0), id="rotors that turn clockwise turn the drone the other way"),
    ],
)
def test_which_way_it_turns(stronger, spin_axis, drift):
    actions = np.full(4, 0.33405, np.float32)
    actions[list(stronger)] += 0.01
    actions[[i for i in range(4) if i not in stronger]] -= 0.01
    path = fly(motion(rpm=[HOVER_RPM] * 4), hold(actions, 30), NOTHING, NOTHING, PARAMS)
    spin, velocity = path.angular_velocity[-1], path.velocity[-1]
    np.testing.assert_allclose(spin / np.linalg.norm(spin), spin_axis, atol=1e-3)
    flat_velocity = np.array(velocity) * [1, 1, 0]
    if any(drift):
        np.testing.assert_allclose(flat_velocity / np.linalg.norm(flat_velocity), drift, atol=1e-3)
    else:
        np.testing.assert_allclose(flat_velocity, 0, atol=1e-6)


def test_a_force_pushes_along_the_worlds_axes_and_a_torque_turns_around_the_drones():
    lying = motion(quaternion=[np.sqrt(0.5), 0, np.sqrt(0.5), 0])  # its x axis points down
    force: Any = np.array([0.0, 0.0, 0.027], np.float32)
    torque: Any = np.array([3.85e-6, 0, 0], np.float32)
    path = fly(lying, hold(-1, 10), force, torque, PARAMS)
    np.testing.assert_allclose(path.velocity[-1], [0, 0, 0.1 * (1 - 9.81)], atol=1e-6)
    np.testing.assert_allclose(path.angular_velocity[-1], [0.1, 0, 0], atol=1e-6)


def test_a_rotation_matrix_turns_vectors_as_its_quaternion_does():
    rng = np.random.default_rng(1)
    for _ in range(5):
        q = rng.normal(size=4)
        q /= np.linalg.norm(q)
        matrix = rotation_matrix(jnp.asarray(q, jnp.float32))
        for axis in np.eye(3):
            np.testing.assert_allclose(matrix @ axis, turned(q, axis), atol=1e-6)


def test_each_number_of_the_drone_matters():
    """A parameter that no step uses would vary nothing."""
    start = motion(spin=[1, 2, 3], quaternion=[0.9, 0.1, -0.3, 0.3], rpm=[9000, 12000, 14000, 16000])
    action, force = jnp.array([0.1, 0.2, 0.9, -0.4]), jnp.array([0.01, 0.02, 0.03])
    usual = flat(advance(start, action, force, NOTHING, PARAMS))
    names = ("gravity", "mass", "inertia", "rotors", "yaw_torque", "thrust_curve", "rpm_min", "rpm_max", "motor_time")
    for name in (*names, "time_step"):
        params: Any = dataclasses.replace(
            PARAMS, **{name: np.float32(1.2) * getattr(PARAMS, name) + (name == "rpm_min")}
        )
        assert not np.array_equal(usual, flat(advance(start, action, force, NOTHING, params))), name
