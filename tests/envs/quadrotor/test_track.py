"""Following a target: everything is relative to it, and it really moves."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxrl
from jaxrl.envs.quadrotor import Track
from jaxrl.envs.quadrotor.task import lissajous

ENV = Track()
PARAMS: Any = ENV.default_params
STEP = jax.jit(ENV.step_env)
HOVER = jnp.full(4, 0.33405)


def target(state: Any) -> tuple[np.ndarray, np.ndarray]:
    position, velocity = lissajous(state.step * 0.01, state.phase, PARAMS)
    return np.asarray(position), np.asarray(velocity)


def with_motion(state: Any, **parts: Any) -> Any:
    return dataclasses.replace(state, motion=dataclasses.replace(state.motion, **parts))


def test_the_target_is_seen_from_the_drone():
    _, state = jax.jit(ENV.reset)(jax.random.key(0))
    state = dataclasses.replace(state, step=jnp.int32(130))
    obs = ENV.observation(state)
    position, velocity = target(state)
    assert obs.shape == (152,) == ENV.observation_space().shape
    np.testing.assert_allclose(obs[18:21], position - obs[:3], atol=1e-6)
    np.testing.assert_allclose(obs[21:24], velocity - obs[12:15], atol=1e-6)
    np.testing.assert_allclose(obs[18:21], position - state.motion.position, atol=0.006)  # six deviations of the noise
    np.testing.assert_array_equal(obs[24:], np.zeros(128))
    view = ENV.global_state(state)
    np.testing.assert_allclose(
        view[28:], np.concatenate([position, velocity]) - np.delete(view[:15], range(3, 12)), atol=1e-6
    )


def test_phases_differ_between_episodes_and_stay_within_one():
    _, states = jax.jit(jax.vmap(ENV.reset))(jax.random.split(jax.random.key(1), 2000))
    assert states.phase.min() >= 0
    assert states.phase.max() <= 2 * np.pi
    np.testing.assert_allclose(np.exp(1j * np.asarray(states.phase)).mean(0), 0, atol=0.06)
    one = jax.tree.map(lambda leaf: leaf[0], states)
    after = STEP(jax.random.key(2), one, HOVER, PARAMS)[1]
    np.testing.assert_array_equal(after.phase, one.phase)


def test_episodes_begin_around_the_target_as_hovering_does_around_the_origin():
    _, states = jax.vmap(ENV.reset)(jax.random.split(jax.random.key(3), 2000))
    position, velocity = jax.vmap(lambda s: lissajous(0.0 * s.step, s.phase, PARAMS))(states)
    away, moves = states.motion.position - position, states.motion.velocity - velocity
    assert np.abs(away).max() <= 0.2 + 1e-6
    assert np.abs(moves).max() <= 1 + 1e-6
    assert (np.abs(away).max(1) < 1e-6).mean() == pytest.approx(0.1, abs=0.03)
    assert np.abs(states.motion.position).max() > 0.4  # anywhere on the figure


def test_flying_with_the_target_is_rewarded_wherever_it_is():
    _, state = ENV.reset(jax.random.key(4))
    state = dataclasses.replace(state, step=jnp.int32(77))
    position, velocity = target(state)
    level = jnp.array([1.0, 0, 0, 0])
    along = with_motion(state, position=jnp.asarray(position), velocity=jnp.asarray(velocity), quaternion=level)
    assert float(STEP(jax.random.key(5), along, HOVER, PARAMS)[2]) == pytest.approx(2, abs=1e-4)
    beside = with_motion(along, position=along.motion.position + jnp.array([0.3, 0, 0]))
    assert float(STEP(jax.random.key(6), beside, HOVER, PARAMS)[2]) == pytest.approx(2 - 2.5 * 0.09, abs=1e-4)
    slower = with_motion(along, velocity=along.motion.velocity - jnp.array([0, 2.0, 0]))
    assert float(STEP(jax.random.key(7), slower, HOVER, PARAMS)[2]) == pytest.approx(2 - 0.005 * 4, abs=1e-4)


def test_an_episode_is_lost_too_far_from_the_target_not_from_the_origin():
    _, state = ENV.reset(jax.random.key(8))
    state = dataclasses.replace(state, phase=jnp.array([np.pi / 2, 0.0, 0.0], jnp.float32))  # at x = 0.5 m, and turning
    for x, expected in ((0.95, False), (1.15, True), (-0.05, False), (-0.15, True)):
        still = with_motion(state, position=jnp.array([x, 0.0, 0.0]), velocity=jnp.zeros(3))
        terminated = STEP(jax.random.key(9), still, HOVER, PARAMS)[3]
        assert bool(terminated) == expected, x


def test_the_distance_is_that_after_the_step():
    _, state = ENV.reset(jax.random.key(10))
    _, after, *_, info = STEP(jax.random.key(11), state, HOVER, PARAMS)
    assert after.step == 1
    wanted = np.linalg.norm(np.asarray(after.motion.position) - target(after)[0])
    np.testing.assert_allclose(info["distance"], wanted, rtol=1e-5)


def test_a_figure_without_size_is_hovering():
    """The same physics, rewards and ends, step by step."""
    still: Any = dataclasses.replace(PARAMS, amplitude=np.zeros(3, np.float32))
    hover: Any = jaxrl.make("quadrotor/hover")
    _, state = ENV.reset(jax.random.key(12), still)
    own = {field.name: getattr(state, field.name) for field in dataclasses.fields(state) if field.name != "phase"}
    other = type(hover.reset(jax.random.key(0))[1])(**own)
    step = jax.jit(hover.step_env)
    for t in range(3):
        ours = STEP(jax.random.key(20 + t), state, HOVER * t, still)
        theirs = step(jax.random.key(20 + t), other, HOVER * t, hover.default_params)
        state, other = ours[1], theirs[1]
        np.testing.assert_allclose(np.delete(ours[0], range(18, 24)), theirs[0], atol=1e-6)
        for a, b in zip(ours[2:], theirs[2:], strict=True):
            jax.tree.map(lambda x, y: np.testing.assert_allclose(x, y, atol=1e-6), a, b)
