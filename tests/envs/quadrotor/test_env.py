"""The environment: actions, their history, ends, rewards at the end, and worlds of all kinds."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxrl
from jaxrl.envs.quadrotor import Hover, HoverParams
from jaxrl.envs.quadrotor.task import MOTION_SIZE, reward
from jaxrl.wrappers import RandomParams

ENV = Hover()
PARAMS: Any = ENV.default_params
STEP = jax.jit(ENV.step_env)
HOVER = jnp.full(4, 0.33405)


def at_rest() -> Any:
    """Level at the target, with rotors that carry it and nothing that disturbs."""
    _, state = ENV.reset(jax.random.key(0))
    motion = dataclasses.replace(
        state.motion,
        position=jnp.zeros(3),
        quaternion=jnp.array([1.0, 0, 0, 0]),
        velocity=jnp.zeros(3),
        angular_velocity=jnp.zeros(3),
        rpm=jnp.full(4, 14475.8),
    )
    return dataclasses.replace(state, motion=motion, force=jnp.zeros(3), torque=jnp.zeros(3))


def moved(state: Any, **parts: Any) -> Any:
    return dataclasses.replace(state, motion=dataclasses.replace(state.motion, **parts))


def test_the_history_holds_the_last_actions_the_newest_last():
    env: Any = jaxrl.make("quadrotor/hover", history=3)
    obs, state = jax.jit(env.reset)(jax.random.key(1))
    np.testing.assert_array_equal(obs[MOTION_SIZE:], np.zeros(12))
    actions = [jnp.full(4, 0.1 * t) + jnp.arange(4) / 100 for t in range(5)]
    step = jax.jit(env.step_env)
    for t, action in enumerate(actions):
        obs, state, *_ = step(jax.random.key(10 + t), state, action, env.default_params)
    np.testing.assert_allclose(obs[MOTION_SIZE:], np.concatenate(actions[2:]), rtol=1e-6)


def test_sizes_with_and_without_a_history():
    assert ENV.observation_space().shape == (146,)
    env: Any = jaxrl.make("quadrotor/hover?history=0")
    obs, state = env.reset(jax.random.key(0))
    assert obs.shape == (18,)
    assert env.step(jax.random.key(1), state, HOVER)[0].shape == (18,)
    assert ENV.global_state(at_rest()).shape == (28,)


def test_actions_beyond_the_box_are_clipped_in_all_that_depends_on_them():
    state = at_rest()
    beyond = STEP(jax.random.key(3), state, jnp.array([7.0, -7.0, jnp.nan, jnp.inf]), PARAMS)
    inside = STEP(jax.random.key(3), state, jnp.array([1.0, -1.0, -1.0, 1.0]), PARAMS)
    jax.tree.map(np.testing.assert_array_equal, beyond, inside)


def test_noise_is_new_in_each_step_and_disturbances_are_not():
    _, state = ENV.reset(jax.random.key(4))
    first = STEP(jax.random.key(5), state, HOVER, PARAMS)[1]
    second = STEP(jax.random.key(6), first, HOVER, PARAMS)[1]
    assert len({tuple(np.asarray(s.noise).tolist()) for s in (state, first, second)}) == 3
    for name in ("force", "torque"):
        np.testing.assert_array_equal(getattr(second, name), getattr(state, name))
        assert getattr(state, name).all()


def test_the_reward_is_that_of_state_and_action_before_the_step():
    state = moved(at_rest(), position=jnp.array([0.3, 0, 0]), velocity=jnp.array([0, 1.0, 0]))
    action = jnp.array([0.1, 0.5, 0.3, 0.3])
    _, _, got, terminated, _, info = STEP(jax.random.key(7), state, action, PARAMS)
    assert not terminated
    np.testing.assert_allclose(got, reward(state.motion, action, PARAMS), rtol=1e-6)
    assert float(info["distance"]) == pytest.approx(np.hypot(0.3, 0.01), abs=1e-4)


@pytest.mark.parametrize("late", [False, True])
def test_leaving_terminates_with_a_reward_of_0_also_in_the_last_step(late):
    state = moved(at_rest(), position=jnp.array([0.0, 0.0, 0.599]), velocity=jnp.array([0, 0, 2.0]))
    state = dataclasses.replace(state, step=jnp.int32(499 if late else 7))
    _, _, got, terminated, truncated, _ = STEP(jax.random.key(8), state, HOVER, PARAMS)
    assert terminated
    assert not truncated
    assert got == 0


def test_the_clock_truncates_with_the_usual_reward():
    for clock, expected in ((498, False), (499, True)):
        state = dataclasses.replace(at_rest(), step=jnp.int32(clock))
        _, _, got, terminated, truncated, _ = STEP(jax.random.key(9), state, HOVER, PARAMS)
        assert not terminated
        assert bool(truncated) == expected
        assert float(got) == pytest.approx(2)
    assert jaxrl.make("quadrotor/hover?max_steps=7").default_params.max_steps == 7


def test_hovering_lasts_an_episode_and_idling_does_not():
    def lifetime(action: jax.Array) -> jax.Array:
        def step(state: Any, key: jax.Array) -> tuple[Any, jax.Array]:
            _, state, _, terminated, *_ = ENV.step_env(key, state, action, PARAMS)
            return state, ~terminated

        alive = jax.lax.scan(step, at_rest(), jax.random.split(jax.random.key(0), 500))[1]
        return jnp.cumprod(alive).sum()

    lengths = jax.jit(jax.vmap(lifetime))(jnp.stack([HOVER, jnp.full(4, -1.0)]))
    assert lengths[0] == 500
    assert 30 < lengths[1] < 60  # from rest, 0.6 m take 0.35 s of free fall, and rotors do not stop at once


def test_drones_of_all_kinds_fly_in_one_vmap():
    masses = np.array([0.02, 0.027, 0.04], np.float32)
    params: Any = dataclasses.replace(PARAMS, mass=masses)
    axes = HoverParams(**{f.name: 0 if f.name == "mass" else None for f in dataclasses.fields(params)})
    state = at_rest()
    step = jax.vmap(lambda p: ENV.step_env(jax.random.key(0), state, HOVER, p)[1].motion.velocity[2], in_axes=(axes,))
    lift = 0.027 * 9.81
    np.testing.assert_allclose(jax.jit(step)(params), 0.01 * (lift / masses - 9.81), atol=1e-4)


def test_an_episode_keeps_the_drone_that_is_drawn_for_it():
    def draw(key: jax.Array, params: HoverParams, progress: jax.Array) -> HoverParams:
        del progress
        factor = jax.random.uniform(key, (2,), minval=0.8, maxval=1.25)
        return dataclasses.replace(params, mass=params.mass * factor[0], inertia=params.inertia * factor[1])

    venv = jaxrl.VectorEnv(RandomParams(ENV, draw), 8)
    _, state = jax.jit(venv.reset)(jax.random.key(1))
    after = jax.jit(venv.step)(jax.random.key(2), state, jnp.broadcast_to(HOVER, (8, 4)))[1]
    assert len(np.unique(state.own.mass)) == 8
    np.testing.assert_array_equal(state.own.mass, after.own.mass)


@pytest.mark.parametrize("options", [{"history": -1}, {"history": 1.5}, {"max_steps": 0}])
def test_options_out_of_range_are_refused(options):
    with pytest.raises(ValueError, match=next(iter(options))):
        jaxrl.make("quadrotor/hover", **options)
