import dataclasses
from typing import Any

import jax
import numpy as np
import pytest

from jaxrl.environment import Environment
from jaxrl.replay import Policy, Replay, record
from jaxrl.vector import VectorEnv

pytestmark = pytest.mark.quick


def test_an_episode_is_recorded_to_its_end(walk: Any, replay: Replay) -> None:
    x, goal = replay.states["x"], walk.goal
    assert replay.terminated
    assert not replay.cut
    assert not replay.truncated
    assert len(x) == 1 + replay.num_steps * replay.frames_per_step
    assert replay.frames_per_step == 2
    between = x[:: replay.frames_per_step]
    assert (between[:-1] < goal).all()
    assert between[-1] >= goal
    assert replay.info["x"] == x[-1]
    np.testing.assert_allclose(x[1::2], (between[:-1] + between[1:]) / 2, rtol=1e-6)
    assert replay.actions.shape == replay.rewards.shape == (replay.num_steps,)
    assert replay.episode_return == -replay.num_steps
    assert all(isinstance(leaf, np.ndarray) for leaf in jax.tree.leaves((replay.states, replay.actions, replay.info)))


def test_the_key_decides_the_episode(walk: Environment, forward: Policy, replay: Replay) -> None:
    same = record(walk, forward, jax.random.key(0))
    other = record(walk, forward, jax.random.key(1))
    np.testing.assert_array_equal(same.states["x"], replay.states["x"])
    assert not np.array_equal(other.states["x"], replay.states["x"])


def test_the_policy_gets_its_memory_back(walk: Environment) -> None:
    def every_other(obs, carry, key, mask):
        step = 0 if carry is None else carry
        return step % 2, step + 1

    actions = record(walk, every_other, jax.random.key(0), max_steps=6).actions
    np.testing.assert_array_equal(actions, [0, 1, 0, 1, 0, 1])


def test_one_environment_is_recorded(walk: Environment, forward: Policy) -> None:
    with pytest.raises(TypeError, match="not a VectorEnv"):
        record(VectorEnv(walk, 2), forward, jax.random.key(0))  # pyright: ignore[reportArgumentType]


def test_max_steps_cuts_an_episode_short(walk: Environment, forward: Policy) -> None:
    cut = record(walk, forward, jax.random.key(0), max_steps=2)
    assert cut.num_steps == 2
    assert cut.cut
    assert cut.outcome == "cut short"
    assert not cut.terminated
    assert not cut.truncated
    with pytest.raises(ValueError, match="at least 1"):
        record(walk, forward, jax.random.key(0), max_steps=0)


@pytest.mark.parametrize(
    ("info", "terminated", "truncated", "outcome"),
    [
        ({"won": np.True_}, True, False, "won"),
        ({"won": np.False_}, True, False, "lost"),
        ({"won": np.False_}, False, True, "time up"),
        ({"won": np.False_}, False, False, "cut short"),
        ({"won": np.True_}, False, False, "cut short"),
        ({}, True, False, "return 5.0"),
        ({}, False, False, "cut short"),
    ],
)
def test_the_outcome_in_words(replay: Replay, info: dict, terminated: bool, truncated: bool, outcome: str) -> None:
    rewards = np.array([[1.0, 3.0], [2.0, 4.0]])  # two steps, two agents: means 2 and 3
    ended = dataclasses.replace(replay, rewards=rewards, terminated=terminated, truncated=truncated, info=info)
    assert ended.outcome == outcome


def test_a_notebook_shows_a_player_in_a_frame_of_its_own(replay: Replay) -> None:
    shown = replay._repr_html_()
    assert shown.startswith("<iframe")
    assert "<script" not in shown
    assert "&lt;script" in shown


def test_an_environment_without_a_picture_says_so(replay: Replay) -> None:
    class Blind(Environment):
        name = "blind"

    with pytest.raises(NotImplementedError, match="blind has no picture"):
        dataclasses.replace(replay, env=Blind()).scene()


@pytest.mark.parametrize(
    ("rewards", "outcome"),
    [
        ([[0, 0], [1, -1]], "red won"),
        ([[1, -1], [-1, 1]], "draw"),
        ([[1, 1], [0, 0]], "return 1.0"),
        ([[0, 0]], "return 0.0"),
    ],
)
def test_zero_sum_games_say_who_won(replay: Replay, rewards: list, outcome: str) -> None:
    class Duel(Environment):
        name = "duel"
        agents = ("red", "blue")

    ended = dataclasses.replace(replay, env=Duel(), rewards=np.array(rewards, float), terminated=True, info={})
    assert ended.outcome == outcome


def test_a_state_with_typed_keys_is_rendered(walk: Any) -> None:
    class Keyed(type(walk)):
        def draw(self, states: Any, params: Any = None) -> Any:
            return super().draw(states["own"], params)

    state = {"own": {"x": np.float32(1), "way": np.float32(0)}, "key": jax.random.key(0)}
    assert Keyed().render(state).dtype == np.uint8
