"""Wrappers with a memory, in lock-step with Gymnasium's where it has them, otherwise against slow loops."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxrl import VectorEnv
from jaxrl.environment import Environment, Step
from jaxrl.envs.classic import CartPole
from jaxrl.envs.classic.cartpole import State
from jaxrl.spaces import Box, Discrete, MultiDiscrete
from jaxrl.wrappers import ActionRepeat, FrameStack, StickyActions, TimeLimit
from jaxrl.wrappers.episodes import _stacked


class Echo(Environment):
    """Observes the action that was taken; rewards it. Terminates after an action of 999."""

    name = "echo"

    def observation_space(self, params: Any = None) -> Box:
        return Box(-1.0, 999.0, (1,))

    def action_space(self, params: Any = None) -> Discrete:
        return Discrete(1000)

    def reset_env(self, key: jax.Array, params: Any) -> tuple[jax.Array, jax.Array]:
        return jnp.full((1,), -1.0, jnp.float32), jnp.zeros((), jnp.int32)

    def step_env(self, key: jax.Array, state: jax.Array, action: jax.Array, params: Any) -> Step:
        action = self.action_space().clip(action)
        value = action.astype(jnp.float32)
        return value[None], state + 1, value, action == 999, jnp.zeros((), bool), {}


def played(env: Environment, actions: list[int]) -> tuple[np.ndarray, ...]:
    """The steps of one copy with these actions: observations, rewards, flags, final observations."""

    def step(state: Any, inputs: Any) -> Any:
        obs, state, reward, terminated, truncated, info = env.step(inputs[0], state, inputs[1])
        return state, (obs, reward, terminated, truncated, info["final_observation"])

    keys = jax.random.split(jax.random.key(0), len(actions) + 1)
    steps = jax.lax.scan(step, env.reset(keys[0])[1], (keys[1:], jnp.asarray(actions)))[1]
    return tuple(map(np.asarray, steps))


def test_no_limit_is_longer_than_it_can_count():
    with pytest.raises(ValueError, match="max_steps must be a whole number from 1 to 2147483647, got 10000000000"):
        TimeLimit(CartPole(), 10**10)


@pytest.mark.quick
@pytest.mark.parametrize("wrapper", ["TimeLimit", "FrameStackObservation"])
def test_in_lockstep_with_gymnasium(wrapper: str):
    gymnasium = pytest.importorskip("gymnasium")
    raw = gymnasium.make("CartPole-v1").unwrapped
    if wrapper == "TimeLimit":
        ours, theirs = TimeLimit(CartPole(), 7), gymnasium.wrappers.TimeLimit(raw, 7)
    else:
        ours, theirs = FrameStack(CartPole(), 3), gymnasium.wrappers.FrameStackObservation(raw, 3)
    step = jax.jit(ours.step_env)
    for seed, actions in ((0, [1, 0] * 10), (1, [1] * 20)):  # the second falls over
        theirs.reset(seed=seed)
        start = np.asarray(raw.state, np.float32)
        obs, state = ours.after_reset(jnp.asarray(start), State(*map(jnp.asarray, start), step=jnp.int32(0)))
        for action in actions:
            their_obs, reward, terminated, truncated, _ = theirs.step(action)
            obs, state, our_reward, *flags, _ = step(jax.random.key(0), state, action, ours.default_params)
            np.testing.assert_allclose(obs, np.reshape(their_obs, -1), atol=1e-5)
            assert (our_reward, *map(bool, flags)) == (reward, terminated, truncated)
            if terminated or truncated:
                break


@pytest.mark.quick
def test_truncation_comes_at_exactly_the_limit_and_is_no_termination():
    _, _, terminated, truncated, _ = played(TimeLimit(Echo(), 3), [0, 0, 0, 0, 999, 0, 0, 999, 5])
    np.testing.assert_array_equal(truncated, [0, 0, 1, 0, 0, 0, 0, 0, 0])
    np.testing.assert_array_equal(terminated, [0, 0, 0, 0, 1, 0, 0, 1, 0])  # the last at the limit: it has ended


@pytest.mark.quick
def test_frames_belong_to_one_episode_and_the_final_observation_has_its_own():
    obs, _, _, truncated, final = played(TimeLimit(FrameStack(Echo(), 3), 3), [1, 2, 3, 4])
    np.testing.assert_array_equal(truncated, [0, 0, 1, 0])
    np.testing.assert_array_equal(obs, [[-1, -1, 1], [-1, 1, 2], [-1, -1, -1], [-1, -1, 4]])
    np.testing.assert_array_equal(final, [[-1, -1, 1], [-1, 1, 2], [1, 2, 3], [-1, -1, 4]])


@pytest.mark.quick
def test_stacks_of_every_space():
    assert _stacked(Discrete(3), 2) == MultiDiscrete((3, 3))
    assert _stacked(MultiDiscrete((3, 2)), 2) == MultiDiscrete((3, 2, 3, 2))
    assert _stacked(Box(0, np.array([1.0, 2.0]), (2,)), 2) == Box(0, np.array([1.0, 2.0, 1.0, 2.0]), (4,))
    assert _stacked(Box(0, 255, (8, 8, 3), np.uint8), 4) == Box(0, 255, (8, 8, 12), np.uint8)


@pytest.mark.quick
@pytest.mark.parametrize("probability", [0.0, 0.25, 1.0])
def test_actions_stick_as_often_as_they_should(probability: float):
    num_envs, num_steps = 256, 40
    venv = VectorEnv(TimeLimit(StickyActions(Echo(), probability), num_steps // 2), num_envs)

    def step(state: Any, inputs: Any) -> Any:
        _, state, *_, info = venv.step(inputs[0], state, jnp.full(num_envs, inputs[1]))
        return state, info["final_observation"][..., 0]

    keys = jax.random.split(jax.random.key(0), num_steps + 1)
    chosen = jnp.arange(num_steps)  # always another one
    taken = np.asarray(jax.lax.scan(step, venv.reset(keys[0])[1], (keys[1:], chosen))[1])
    sticks = taken != np.arange(num_steps)[:, None]
    firsts = [0, num_steps // 2]
    assert not sticks[firsts].any()  # no episode begins with the action of the last one
    later = np.delete(sticks, firsts, axis=0)
    assert abs(later.mean() - probability) < 0.02
    again = taken[1:] == taken[:-1]
    np.testing.assert_array_equal(
        np.delete(again, num_steps // 2 - 1, axis=0), np.delete(sticks[1:], num_steps // 2 - 1, axis=0)
    )


@pytest.mark.quick
def test_repeated_actions_add_up_until_the_episode_ends():
    class Falling(CartPole):
        """Pays for the step of the episode."""

        def step_env(self, key: jax.Array, state: Any, action: Any, params: Any) -> Step:
            stepped = super().step_env(key, state, action, params)
            return *stepped[:2], stepped[1].step.astype(jnp.float32), *stepped[3:]

    env, inside = ActionRepeat(Falling(), 4), Falling()
    step, slow = jax.jit(env.step_env), jax.jit(inside.step_env)
    _, state = env.reset(jax.random.key(3))
    ended = False
    while not ended:
        obs, expected, total, terminated, *_ = slow(jax.random.key(0), state, 1, env.default_params)
        for _ in range(3):
            if not terminated:
                obs, expected, reward, terminated, *_ = slow(jax.random.key(0), expected, 1, env.default_params)
                total += float(reward)
        got_obs, state, got, ended, *_ = step(jax.random.key(0), state, 1, env.default_params)
        np.testing.assert_allclose(got_obs, obs, rtol=1e-5)
        assert (float(got), int(state.step), bool(ended)) == (total, int(expected.step), bool(terminated))
    assert int(state.step) % 4  # it ended amid a repetition


@pytest.mark.quick
def test_a_truncation_inside_ends_the_repetition():
    """Echo pays the action in each step, so the second action is taken twice, and the third begins an episode."""
    obs, rewards, terminated, truncated, final = played(ActionRepeat(TimeLimit(Echo(), 6), 4), [3, 5, 7])
    assert rewards.tolist() == [12.0, 10.0, 28.0]
    assert not terminated.any()
    assert truncated.tolist() == [False, True, False]
    assert (final[1].tolist(), obs[1].tolist()) == ([5.0], [-1.0])
    venv = VectorEnv(ActionRepeat(TimeLimit(Echo(), 6), 4), 2)
    _, state = venv.reset(jax.random.key(0))
    for action, reward in ((3, 12.0), (5, 10.0)):
        _, state, gained, *_ = venv.step(jax.random.key(action), state, jnp.full(2, action))
        assert gained.tolist() == [reward] * 2


def test_rewards_of_true_add_up_as_ones():
    class Reaching(CartPole):
        """Rewards with a boolean."""

        def step_env(self, key: jax.Array, state: Any, action: Any, params: Any) -> Step:
            stepped = super().step_env(key, state, action, params)
            return *stepped[:2], stepped[1].step > 0, *stepped[3:]

    env = ActionRepeat(Reaching(), 3)
    _, state = env.reset(jax.random.key(0))
    assert env.step(jax.random.key(1), state, 1)[2] == 3.0
    venv = VectorEnv(env, 2)
    _, state = venv.reset(jax.random.key(0))
    assert venv.step(jax.random.key(1), state, jnp.zeros(2, int))[2].tolist() == [3.0, 3.0]


@pytest.mark.parametrize("probability", [-0.1, 1.5, "0.1"])
def test_actions_stick_with_a_probability(probability: Any):
    with pytest.raises(ValueError, match=f"probability must be a number from 0 to 1, got {probability!r}"):
        StickyActions(Echo(), probability)
