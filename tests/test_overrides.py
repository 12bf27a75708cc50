"""What a subclass or a wrapper writes for one environment holds for B of them, whatever kernel it inherits."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxrl
from jaxrl.environment import Environment, Step
from jaxrl.envs.hide_and_seek import HideAndSeek
from jaxrl.envs.minatar.breakout import Breakout
from jaxrl.envs.overcooked import Overcooked
from jaxrl.envs.smax import SMAX
from jaxrl.wrappers import Wrapper

B = 3


def elsewhere(kind: Any) -> Any:
    """A subclass that writes reset and step anew: other observations, and rewards of 5."""

    class Elsewhere(kind):
        def reset_env(self, key: jax.Array, params: Any) -> tuple[Any, Any]:
            obs, state = super().reset_env(key, params)
            return jnp.ones_like(obs), state

        def step_env(self, key: jax.Array, state: Any, action: Any, params: Any) -> Any:
            obs, after, reward, *rest = super().step_env(key, state, action, params)
            return jnp.ones_like(obs), after, jnp.full_like(reward, 5.0), *rest

    return Elsewhere


class Ones(Wrapper):
    """All observations are 1, also those that are asked for."""

    def reset_env(self, key: jax.Array, params: Any) -> tuple[Any, Any]:
        obs, state = self.env.reset_env(key, params)
        return jnp.ones_like(obs), state

    def step_env(self, key: jax.Array, state: Any, action: Any, params: Any) -> Any:
        obs, *rest = self.env.step_env(key, state, action, params)
        return jnp.ones_like(obs), *rest

    def observation(self, state: Any, params: Any = None) -> Any:
        return jnp.ones_like(self.env.observation(state, params))


def step_of_batch(env: Environment, **options: Any) -> tuple[Any, Any, Any]:
    """The observations before and after a step of B environments, and its rewards."""
    venv = jaxrl.VectorEnv(env, B, **options)
    obs, state = jax.jit(venv.reset)(jax.random.key(0))
    agents = (len(getattr(env, "agents", ())),) if hasattr(env, "agents") else ()
    action = jnp.zeros((B, *agents, *env.action_space().shape), jnp.int32)
    after, _, reward, *_ = jax.jit(venv.step)(jax.random.key(1), state, action)
    return obs, after, reward


@pytest.mark.parametrize("options", [{}, {"reset": "pool", "pool_size": 2}], ids=["fresh", "pool"])
@pytest.mark.parametrize(
    "make",
    [
        elsewhere(SMAX),
        lambda: elsewhere(HideAndSeek)(scenario="chase"),
        elsewhere(Overcooked),
        elsewhere(Breakout),
    ],
    ids=["smax", "hide_and_seek", "overcooked", "minatar"],
)
def test_a_subclass_is_heard_in_batches(make: Any, options: dict[str, Any]) -> None:
    obs, after, reward = step_of_batch(make(), **options)
    assert (obs == 1).all()
    assert (after == 1).all()
    assert (reward == 5).all()


@pytest.mark.parametrize("name", ["smax/3m", "overcooked/cramped_room"])
def test_a_wrapper_that_writes_its_observation_is_heard_in_batches(name: str) -> None:
    env = Ones(jaxrl.make(name))
    assert env.has_observation
    obs, after, _ = step_of_batch(env)
    assert (obs == 1).all()
    assert (after == 1).all()
    _, state = jax.jit(env.batch_reset)(jax.random.split(jax.random.key(2), B))
    assert (jax.jit(env.batch_observation)(state) == 1).all()


@pytest.mark.quick
def test_the_observation_of_a_parent_is_kept_only_if_a_class_says_so() -> None:
    """Training takes final observations from it."""
    assert SMAX().has_observation
    changed = elsewhere(SMAX)
    assert not changed().has_observation

    class Again(changed):
        def observation(self, state: Any, params: Any = None) -> Any:
            return jnp.ones_like(super().observation(state, params))

    assert Again().has_observation

    class Paid(SMAX):
        keeps_observation = True

        def step_env(self, key: jax.Array, state: Any, action: Any, params: Any) -> Any:
            obs, after, reward, *rest = super().step_env(key, state, action, params)
            return obs, after, reward + 5, *rest

    env = Paid()
    assert env.has_observation
    obs, after, reward = step_of_batch(env)
    plain = step_of_batch(SMAX())
    np.testing.assert_allclose(obs, plain[0], atol=1e-6)
    np.testing.assert_allclose(after, plain[1], atol=1e-6)
    np.testing.assert_allclose(reward, plain[2] + 5)


class Noisy(Wrapper):
    """What is observed is a draw of the wrapper's own."""

    def reset_env(self, key: jax.Array, params: Any) -> tuple[Any, Any]:
        key_own, key_env = jax.random.split(key)
        return jax.random.uniform(key_own, (3, 75)), self.env.reset_env(key_env, params)[1]

    def step_env(self, key: jax.Array, state: Any, action: Any, params: Any) -> Any:
        key_own, key_env = jax.random.split(key)
        return jax.random.uniform(key_own, (3, 75)), *self.env.step_env(key_env, state, action, params)[1:]


@pytest.mark.quick
def test_the_last_step_and_the_next_start_draw_apart() -> None:
    """SMAX uses a key for both, but never the same draws of it."""
    env = Noisy(jaxrl.make("smax/3m?max_steps=1"))
    _, state = jax.jit(env.reset)(jax.random.key(0))
    obs, *_, truncated, info = jax.jit(env.step)(jax.random.key(1), state, jnp.full(3, 4))
    assert truncated
    assert (obs != info["final_observation"]).all()


@pytest.mark.quick
def test_what_a_class_writes_for_batches_itself_stays() -> None:
    class Kernel(SMAX):
        def step_env(self, key: jax.Array, state: Any, action: Any, params: Any) -> Step:
            return self._paid(super().step_env(key, state, action, params))

        def batch_step_env(self, *args: Any, **options: Any) -> Step:
            return self._paid(super().batch_step_env(*args, **options))

        def _paid(self, stepped: Step) -> Step:
            return *stepped[:2], stepped[2] + 5, *stepped[3:]  # pyright: ignore[reportReturnType]

    *_, reward = step_of_batch(Kernel())
    *_, plain = step_of_batch(SMAX())
    np.testing.assert_allclose(reward, plain + 5)  # once
