"""Evaluation counts each episode exactly once, whatever its length, and plays as the policy would."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import toy_algorithm as toy

import jaxrl
from jaxrl.algorithm import Algorithm
from jaxrl.spaces import Box, Discrete
from jaxrl.train.evaluate import evaluate
from jaxrl.train.members import member_of
from jaxrl.train.metrics import own_metrics
from jaxrl.train.programs import member_keys

EPISODES = 16


def algorithm(act: Any) -> Algorithm:
    """An algorithm of which only `act(obs, carry, key, action_mask, reset)` is used."""

    def full(
        state: Any,
        obs: Any,
        carry: Any = None,
        key: jax.Array | None = None,
        *,
        action_mask: jax.Array | None = None,
        reset: jax.Array | None = None,
    ) -> tuple[Any, Any]:
        return act(obs, carry, key, action_mask, reset)

    return Algorithm(lambda key: None, lambda state: (state, {}), full)


def always(action: int) -> Algorithm:
    return algorithm(lambda obs, carry, *_: (jnp.full(obs.shape[0], action), None))


def initial_lengths(env: toy.Countdown, seed: int) -> np.ndarray:
    """The lengths that the episodes of an evaluation are going to have: they are what is observed at first."""
    key_reset, _ = jax.random.split(jax.random.key(seed))
    obs, _ = env.batch_reset(jax.random.split(key_reset, EPISODES))
    return np.asarray(obs)[:, 0]


def test_every_episode_is_counted_once_and_to_its_end() -> None:
    env = toy.Countdown()
    played = evaluate(always(1), env, None, jax.random.key(3), EPISODES)
    lengths = initial_lengths(env, 3)
    assert len(set(lengths)) > 3
    np.testing.assert_array_equal(played.lengths, lengths)
    np.testing.assert_array_equal(played.returns, lengths)
    assert played.won is not None
    assert bool(played.won.all())
    assert bool(played.finished.all())
    assert played.kind_returns == {}


def test_the_summary_is_plain_numbers() -> None:
    env = toy.Countdown()
    summary = evaluate(always(0), env, None, jax.random.key(3), EPISODES).summary()
    lengths = initial_lengths(env, 3)
    assert summary == {
        "episodes": EPISODES,
        "return_mean": 0.0,
        "return_std": 0.0,
        "length_mean": lengths.mean(),
        "win_rate": 0.0,
    }


class Told(toy.Countdown):
    """Info has the steps that are left, and the action."""

    def step_env(self, key: jax.Array, state: Any, action: Any, params: Any) -> Any:
        *stepped, info = super().step_env(key, state, action, params)
        left = stepped[0][0]
        return (*stepped, {**info, "left": left, "action": action})


def test_numbers_of_the_info_are_those_at_the_end_of_each_episode() -> None:
    played = evaluate(always(1), Told(), None, jax.random.key(3), EPISODES, log_info=("left", "action"))
    plain = evaluate(always(1), Told(), None, jax.random.key(3), EPISODES)
    np.testing.assert_array_equal(played.lengths, plain.lengths)
    assert plain.info == {}
    summary = played.summary()
    assert {name: summary[name] for name in own_metrics(summary)} == {"info/left": 0.0, "info/action": 1.0}
    np.testing.assert_array_equal(played.info["left"], np.zeros(EPISODES))  # not those of a later episode


def test_later_episodes_count_for_nothing() -> None:
    """This policy loses its first episode and wins all others, which the short ones begin before the last has ended."""

    def act(obs: Any, carry: Any, key: Any, mask: Any, reset: Any) -> tuple[Any, Any]:
        begun = (jnp.zeros(obs.shape[0]) if carry is None else carry) + reset
        return (begun > 1).astype(jnp.int32), begun

    played = evaluate(algorithm(act), Told(), None, jax.random.key(3), EPISODES, log_info=("action",))
    assert played.won is not None
    for numbers in (played.won, played.returns, played.info["action"]):
        np.testing.assert_array_equal(numbers, np.zeros(EPISODES))


def test_a_number_that_the_info_does_not_have_is_refused() -> None:
    with pytest.raises(ValueError, match="has no number 'right'; it has action, left, won"):
        evaluate(always(1), Told(), None, jax.random.key(3), EPISODES, log_info=("right",))


def test_memory_starts_as_the_policy_wants_it() -> None:
    """This policy's memory starts at 7 and it acts only then: one action an episode."""

    def act(obs: Any, carry: Any, key: Any, mask: Any, reset: Any) -> tuple[Any, Any]:
        carry = jnp.zeros(obs.shape[0]) if carry is None else carry
        carry = jnp.where(reset, 7.0, carry + 1)
        return (carry == 7).astype(jnp.int32), carry

    played = evaluate(algorithm(act), toy.Countdown(), None, jax.random.key(3), EPISODES)
    np.testing.assert_array_equal(played.returns, np.ones(EPISODES))


def test_greedy_has_no_key_and_sampling_has_a_new_one_every_step() -> None:
    def act(obs: Any, carry: Any, key: Any, mask: Any, reset: Any) -> tuple[Any, Any]:
        if key is None:
            return jnp.zeros(obs.shape[0], jnp.int32), None
        return jax.random.bernoulli(key, 0.5, obs.shape[:1]).astype(jnp.int32), None

    env = toy.Countdown()
    assert evaluate(algorithm(act), env, None, jax.random.key(3), EPISODES).returns.sum() == 0
    played = evaluate(algorithm(act), env, None, jax.random.key(3), EPISODES, greedy=False)
    share = played.returns / played.lengths
    assert ((share > 0) & (share < 1)).any()


def test_masks_reach_the_policy_where_actions_are_discrete() -> None:
    class OnlyOne(toy.Countdown):
        def action_mask(self, state: Any, params: Any = None) -> jax.Array:
            return jnp.array([False, True])

    obedient = algorithm(lambda obs, carry, key, mask, reset: (mask.argmax(1), None))
    played = evaluate(obedient, OnlyOne(), None, jax.random.key(3), EPISODES)
    np.testing.assert_array_equal(played.returns, played.lengths)


class Duo(jaxrl.MultiAgentEnvironment):
    """Two agents with real-valued actions and their own rewards; three steps, or none at all to the end."""

    agents = ("a", "b")

    def __init__(self, length: int = 3) -> None:
        self.length = length

    def observation_space(self, params: Any = None) -> Box:
        return Box(0.0, 1.0, (1,))

    def action_space(self, params: Any = None) -> Box:
        return Box(-1.0, 1.0, ())

    def reset_env(self, key: jax.Array, params: Any) -> tuple[jax.Array, jax.Array]:
        return jnp.zeros((2, 1)), jnp.int32(0)

    def step_env(self, key: jax.Array, state: jax.Array, action: jax.Array, params: Any) -> Any:
        end = state + 1 == self.length
        return jnp.zeros((2, 1)), state + 1, jnp.array([1.0, 0.0]), end, jnp.array(False), {}


def no_mask(obs: Any, carry: Any, key: Any, mask: Any, reset: Any) -> tuple[Any, Any]:
    assert mask is None
    return jnp.zeros(obs.shape[:2]), None


def test_the_return_of_a_team_is_the_mean_over_agents_and_winning_is_optional() -> None:
    played = evaluate(algorithm(no_mask), Duo(), None, jax.random.key(0), 4)
    np.testing.assert_array_equal(played.returns, np.full(4, 1.5))
    assert played.summary()["returns"] == {"a": 3.0, "b": 0.0}  # they are of two kinds
    assert played.won is None
    assert "win_rate" not in played.summary()


def test_environments_of_one_name_share_a_program() -> None:
    traced = []

    def act(obs: Any, carry: Any, key: Any, mask: Any, reset: Any) -> tuple[Any, Any]:
        traced.append(obs.shape)
        return jnp.zeros(obs.shape[0], jnp.int32), None

    algo, counts = algorithm(act), []
    for name in ("classic/cartpole?max_steps=2", "classic/cartpole?max_steps=2", "classic/cartpole?max_steps=3"):
        played = evaluate(algo, jaxrl.make(name), None, jax.random.key(3), EPISODES)
        assert played.lengths.tolist() == [int(name[-1])] * EPISODES
        counts.append(len(traced))
    assert counts[0] == counts[1] < counts[2]


def test_endless_episodes_are_cut() -> None:
    played = evaluate(algorithm(no_mask), Duo(length=-1), None, jax.random.key(0), 4, max_steps=5)
    np.testing.assert_array_equal(played.lengths, np.full(4, 5))
    assert not played.finished.any()
    assert played.warning() == "4 of 4 episodes of the evaluation had no end after 5 steps and were cut."
    assert evaluate(algorithm(no_mask), Duo(), None, jax.random.key(0), 4, max_steps=5).warning() is None


def test_members_side_by_side_play_as_alone() -> None:
    config = toy.Config()
    algo, env = toy.make(config), config.make_env()
    states = jax.vmap(algo.init)(jax.random.split(jax.random.key(1), 2))
    states.params["theta"] = jnp.array([0.0, 9.0])
    played = jax.vmap(lambda s, k: evaluate(algo, env, s, k, EPISODES))(states, member_keys(5, 2))
    for member in range(2):
        alone = evaluate(algo, env, member_of(states, member), jax.random.key(5 + member), EPISODES)
        jax.tree.map(lambda a, b, m=member: np.testing.assert_array_equal(a[m], b), played, alone)
    summary = played.summary()
    assert summary["win_rate"] == [0.0, 1.0]


def test_counts_must_be_positive() -> None:
    with pytest.raises(ValueError, match="episodes must be at least 1, got 0"):
        evaluate(always(0), toy.Countdown(), None, jax.random.key(0), 0)
    with pytest.raises(ValueError, match="max_steps must be at least 1, got 0"):
        evaluate(always(0), toy.Countdown(), None, jax.random.key(0), max_steps=0)


def test_the_toy_keeps_its_spaces() -> None:
    assert toy.Countdown().action_space() == Discrete(2)
