"""Classic control equals Gymnasium step by step, from states put into both."""

import dataclasses
import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxrl
from jaxrl.envs.classic import acrobot, cartpole, mountain_car, pendulum

gymnasium = pytest.importorskip("gymnasium")

ZERO: Any = np.int32(0)


def car_state(x):
    return mountain_car.State(x[0], x[1], ZERO)


# id: our state from Gymnasium's
STATES = {
    "CartPole-v1": lambda x: cartpole.State(*x, step=ZERO),
    "Acrobot-v1": lambda x: acrobot.State(x[:2], x[2:], ZERO),
    "MountainCar-v0": car_state,
    "MountainCarContinuous-v0": car_state,
    "Pendulum-v1": lambda x: pendulum.State(x[0], x[1], ZERO),
}
LIMITS = {
    "CartPole-v1": 500,
    "Acrobot-v1": 500,
    "MountainCar-v0": 200,
    "MountainCarContinuous-v0": 999,
    "Pendulum-v1": 200,
}


def reference_steps(env_id: str, count: int) -> dict[str, np.ndarray]:
    """`count` random steps of Gymnasium, with the states they began in; new episodes where they ended."""
    env: Any = gymnasium.make(env_id).unwrapped
    rng = np.random.default_rng(0)
    env.action_space.seed(0)
    env.reset(seed=0)
    rows = []
    action = env.action_space.sample()
    for t in range(count):
        if rng.random() < 0.2:  # pushes that last a while reach more of the state space
            action = env.action_space.sample()
        before = np.array(env.state, np.float32)
        env.state = before.astype(np.float64) if env_id != "CartPole-v1" else tuple(before.astype(np.float64))
        obs, reward, terminated, _, _ = env.step(action)
        rows.append((before, action, obs, reward, terminated))
        if terminated or t % 300 == 299:
            env.reset(seed=t)
    names = ("state", "action", "obs", "reward", "terminated")
    return {name: np.array(column) for name, column in zip(names, zip(*rows, strict=True), strict=True)}


@pytest.mark.parametrize("env_id", STATES)
def test_a_thousand_steps_equal_gymnasium(env_id):
    wanted = reference_steps(env_id, 1000)
    env: Any = jaxrl.make(env_id)
    states = jax.tree.map(lambda *leaves: np.stack(leaves), *map(STATES[env_id], wanted["state"]))
    keys = jax.random.split(jax.random.key(0), 1000)
    step = jax.jit(jax.vmap(env.step_env, in_axes=(0, 0, 0, None)))
    actions = wanted["action"].astype(env.action_space().dtype)
    obs, _, reward, terminated, truncated, _ = step(keys, states, actions, env.default_params)
    np.testing.assert_allclose(obs, wanted["obs"], rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(reward, wanted["reward"], rtol=1e-5, atol=1e-5)
    np.testing.assert_array_equal(terminated, wanted["terminated"])
    assert not truncated.any()


@pytest.mark.quick
@pytest.mark.parametrize("env_id", STATES)
def test_spaces_are_gymnasiums(env_id):
    env: Any = jaxrl.make(env_id)
    reference: Any = gymnasium.make(env_id)
    wanted = reference.observation_space
    np.testing.assert_allclose(np.broadcast_to(env.observation_space().high, wanted.shape), wanted.high)
    np.testing.assert_allclose(np.broadcast_to(env.observation_space().low, wanted.shape), wanted.low)
    if isinstance(reference.action_space, gymnasium.spaces.Discrete):
        assert env.action_space().n == reference.action_space.n
    else:
        assert float(env.action_space().low) == reference.action_space.low.item()
        assert float(env.action_space().high) == reference.action_space.high.item()


@pytest.mark.quick
@pytest.mark.parametrize("env_id", STATES)
def test_truncated_at_gymnasiums_limit(env_id):
    env: Any = jaxrl.make(env_id)
    limit = gymnasium.spec(env_id).max_episode_steps
    assert env.default_params.max_steps == limit == LIMITS[env_id]
    _, state = jax.jit(env.reset)(jax.random.key(0))
    action = jnp.zeros(env.action_space().shape, env.action_space().dtype)
    step = jax.jit(env.step_env)
    for clock, expected in ((limit - 2, False), (limit - 1, True)):
        late = dataclasses.replace(state, step=jnp.int32(clock))
        *_, terminated, truncated, _ = step(jax.random.key(1), late, action, env.default_params)
        assert not terminated
        assert bool(truncated) == expected


def test_arriving_at_the_last_step_is_termination_alone():
    env: Any = jaxrl.make("MountainCar-v0")
    state = mountain_car.State(jnp.float32(0.49), jnp.float32(0.06), jnp.int32(199))
    *_, terminated, truncated, _ = jax.jit(env.step_env)(jax.random.key(0), state, jnp.int32(2), env.default_params)
    assert terminated
    assert not truncated


def test_starts_are_gymnasiums():
    """Range of each number of 2,000 first observations."""
    wanted = {
        "classic/cartpole": ([-0.05] * 4, [0.05] * 4),
        "classic/acrobot": ([math.cos(0.1), -0.1] * 2 + [-0.1] * 2, [1.0, 0.1] * 2 + [0.1] * 2),
        "classic/mountain_car": ([-0.6, 0.0], [-0.4, 0.0]),
        "classic/mountain_car_continuous": ([-0.6, 0.0], [-0.4, 0.0]),
        "classic/pendulum": ([-1.0] * 3, [1.0] * 3),
    }
    for name, (low, high) in wanted.items():
        obs, _ = jaxrl.VectorEnv(jaxrl.make(name), 2000).reset(jax.random.key(0))
        np.testing.assert_allclose(obs.min(0), low, atol=0.01)
        np.testing.assert_allclose(obs.max(0), high, atol=0.01)


def test_physics_vary_without_recompilation():
    """Twice the force moves the cart twice as fast, both in one `vmap`."""
    env: Any = jaxrl.make("classic/cartpole")
    params = dataclasses.replace(env.default_params, force=np.array([10.0, 20.0], np.float32))
    axes = cartpole.Params(**{f.name: 0 if f.name == "force" else None for f in dataclasses.fields(params)})
    state = cartpole.State(*jnp.zeros(4), step=ZERO)
    step = jax.vmap(lambda p: env.step_env(jax.random.key(0), state, jnp.int32(1), p)[0], in_axes=(axes,))
    velocity = jax.jit(step)(params)[:, 1]
    np.testing.assert_allclose(velocity[1], 2 * velocity[0], rtol=1e-6)


def test_length_of_an_episode_is_an_option():
    assert jaxrl.make("CartPole-v1?max_steps=7").default_params.max_steps == 7
