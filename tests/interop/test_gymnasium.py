"""Gymnasium's own checker and its own environments say whether ours are what they expect."""

import pickle
import warnings
from functools import partial

import jax.numpy as jnp
import numpy as np
import pytest

import jaxrl
from jaxrl.environment import Environment
from jaxrl.spaces import Discrete

gymnasium = pytest.importorskip("gymnasium")
from gymnasium.utils.env_checker import check_env  # noqa: E402

from jaxrl.interop import to_gymnasium, to_gymnasium_vector  # noqa: E402


@pytest.mark.parametrize("name", ["CartPole-v1", "probe/multi_discrete_action", "MountainCarContinuous-v0"])
def test_official_checker(name):
    with warnings.catch_warnings():
        # Gymnasium advises against unbounded spaces and asks for a registered spec; both are matters of taste.
        warnings.filterwarnings("ignore", ".*(infinity|not within the observation space|spec is None|env.spec).*")
        check_env(to_gymnasium(jaxrl.make(name)), skip_render_check=True)


class _Corridor(Environment):
    """A walk from place 0 to place 3: the observation is the place."""

    def observation_space(self, params=None):
        return Discrete(4)

    def action_space(self, params=None):
        return Discrete(2)

    def reset_env(self, key, params):
        place = jnp.zeros((), jnp.int32)
        return place, place

    def step_env(self, key, state, action, params):
        place = jnp.clip(state + 2 * self.action_space().clip(action) - 1, 0, 3)
        return place, place, jnp.float32(place == 3), place == 3, jnp.zeros((), bool), {}


def test_a_discrete_observation_is_a_number_for_tables():
    env = to_gymnasium(_Corridor())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", ".*spec.*")
        check_env(env, skip_render_check=True)
    visits = {env.reset(seed=0)[0]: 1}
    terminated = False
    while not terminated:
        obs, _, terminated, *_ = env.step(1)
        visits[obs] = 1
    assert visits == dict.fromkeys(range(4), 1)


@pytest.mark.usefixtures("toys")  # whose registry is gone after the test
def test_copies_share_their_programs():
    """One for each environment object and, where `make` has made them, one for each name with its options."""
    traced = []

    class Corridor(_Corridor):
        def __init__(self, length=3):
            self.length = length

        def step_env(self, key, state, action, params):
            traced.append(self.length)
            return super().step_env(key, state, action, params)

    def play(env):
        adapted = to_gymnasium(env)
        adapted.reset(seed=0)
        adapted.step(1)

    jaxrl.register("corridors/own", Corridor)
    lone = Corridor(2)
    for env in (lone, lone, *map(jaxrl.make, ["corridors/own"] * 3), jaxrl.make("corridors/own", length=4)):
        play(env)
    assert traced == [2, 3, 4]
    jaxrl.register("corridors/own", partial(Corridor, 5), replace=True)
    play(jaxrl.make("corridors/own"))
    assert traced == [2, 3, 4, 5]  # not the program of what had that name before


def test_lockstep_with_gymnasiums_own_cartpole():
    ours, theirs = to_gymnasium(jaxrl.make("CartPole-v1")), gymnasium.make("CartPole-v1").unwrapped
    obs, info = ours.reset(seed=3)
    theirs.reset(seed=3)
    theirs.state = tuple(obs.astype(np.float64))
    assert info["action_mask"].all()
    assert ours.action_space.sample(info["action_mask"]) in ours.action_space
    terminated = False
    for step in range(200):
        action = step % 2
        mine, reward, terminated, truncated, _ = ours.step(action)
        other, their_reward, their_end, _, _ = theirs.step(action)
        np.testing.assert_allclose(mine, other, atol=1e-4)
        assert (reward, terminated, truncated) == (their_reward, their_end, False)
        if terminated:
            break
    assert terminated


def test_a_seed_decides_everything():
    env = to_gymnasium(jaxrl.make("CartPole-v1"))
    runs = []
    for seed in (1, 1, 2):
        runs.append([env.reset(seed=seed)[0], *(env.step(a)[0] for a in (0, 1, 1)), env.reset()[0]])
    np.testing.assert_array_equal(runs[0], runs[1])
    assert not np.array_equal(runs[0], runs[2])


def test_pictures_only_where_asked_for():
    env = to_gymnasium(jaxrl.make("CartPole-v1"), render_mode="rgb_array")
    env.reset(seed=0)
    picture = env.render()
    assert picture is not None
    assert (picture.dtype, picture.ndim) == (np.uint8, 3)
    assert to_gymnasium(jaxrl.make("CartPole-v1")).render() is None
    with pytest.raises(ValueError, match="rgb_array"):
        to_gymnasium(jaxrl.make("CartPole-v1"), render_mode="human")


def test_vector_environment_resets_in_the_same_step_and_keeps_the_final_observation():
    venv = to_gymnasium_vector(jaxrl.make("CartPole-v1?max_steps=9"), 3)
    assert isinstance(venv, gymnasium.vector.VectorEnv)
    obs, info = venv.reset(seed=0)
    assert obs in venv.observation_space
    assert info["action_mask"].shape == (3, 2)
    assert venv.single_action_space.sample(info["action_mask"][0]) in venv.single_action_space
    ends = 0
    for step in range(27):
        before = obs
        obs, reward, terminated, truncated, info = venv.step(np.full(3, step % 2))
        done = terminated | truncated
        assert reward.tolist() == [1, 1, 1]
        assert ("final_obs" in info) == bool(done.any())
        if done.any():
            ends += done.sum()
            np.testing.assert_array_equal(info["_final_obs"], done)
            # The pole has gone on by one step in the final observation, and has begun anew in the next.
            velocity = before[done, 1] * 0.02 + before[done, 0]
            np.testing.assert_allclose(info["final_obs"][done, 0], velocity, atol=1e-6)
            assert (np.abs(obs[done]) <= 0.05).all()
    assert ends == 9  # alternating pushes keep the pole up for longer than nine steps


def test_vector_environment_is_accepted_by_gymnasiums_wrappers():
    wrapped = gymnasium.wrappers.vector.RecordEpisodeStatistics(
        to_gymnasium_vector(jaxrl.make("CartPole-v1?max_steps=5"), 2)
    )
    wrapped.reset(seed=0)
    info = {}
    for step in range(5):
        *_, info = wrapped.step(np.full(2, step % 2))
    assert info["episode"]["r"].tolist() == [5, 5]
    assert info["episode"]["l"].tolist() == [5, 5]


def test_gymnasiums_wrappers_may_change_what_a_step_returns():
    envs = to_gymnasium_vector(jaxrl.make("CartPole-v1"), 2)
    clipped = gymnasium.wrappers.vector.ClipReward(envs, max_reward=0.5)  # in place
    clipped.reset(seed=0)
    assert clipped.step(np.zeros(2, int))[1].tolist() == [0.5, 0.5]


def test_arrays_are_the_users_own_to_change():
    env = to_gymnasium(jaxrl.make("CartPole-v1"))
    begun, facts = env.reset(seed=0)
    obs, *_, info = env.step(0)
    for array in (begun, obs, facts["action_mask"], info["action_mask"]):
        array[:] = 0
    assert env.step(0)[4]["action_mask"].tolist() == [1, 1]


def test_an_episode_begins_with_reset_and_takes_one_action():
    env, envs = to_gymnasium(jaxrl.make("CartPole-v1")), to_gymnasium_vector(jaxrl.make("CartPole-v1"), 2)
    with pytest.raises(RuntimeError, match="No episode of classic/cartpole has begun; call reset"):
        env.step(0)
    with pytest.raises(RuntimeError, match="No episodes of classic/cartpole have begun; call reset"):
        envs.step(np.zeros(2, int))
    env.reset(seed=0)
    with pytest.raises(ValueError, match=r"classic/cartpole.step takes one array of the shape \[\], got \[2\]"):
        env.step([0, 1])
    envs.reset(seed=0)
    assert envs.step([0, 1])[0].shape == (2, 4)
    with pytest.raises(TypeError, match=r"step takes one array of the shape \[2\] \(2 environments\), of numbers"):
        envs.step(["left", "right"])


@pytest.mark.parametrize("vector", [False, True])
def test_a_pickled_copy_goes_on_alike(vector):
    """As it goes to another process."""
    env, action = to_gymnasium(jaxrl.make("CartPole-v1")), np.array(1)
    if vector:
        env, action = to_gymnasium_vector(jaxrl.make("CartPole-v1"), 1), np.array([1])
    env.reset(seed=3)
    again = pickle.loads(pickle.dumps(env))
    np.testing.assert_array_equal(again.step(action)[0], env.step(action)[0])
    np.testing.assert_array_equal(again.reset()[0], env.reset()[0])


def test_what_are_no_parameters_is_told():
    for convert in (to_gymnasium, lambda env, params: to_gymnasium_vector(env, 2, params)):
        with pytest.raises(TypeError, match=r"of classic/cartpole are like its default_params, a Params, not a str"):
            convert(jaxrl.make("CartPole-v1"), "rgb_array")


def test_teams_are_sent_to_pettingzoo():
    for convert in (to_gymnasium, lambda env: to_gymnasium_vector(env, 2)):
        with pytest.raises(ValueError, match="use to_pettingzoo"):
            convert(jaxrl.make("smax/3m"))
    with pytest.raises(TypeError, match=r"jaxrl\.make"):
        to_gymnasium("CartPole-v1")  # pyright: ignore[reportArgumentType]


def test_a_step_after_the_end_warns():
    env = to_gymnasium(jaxrl.make("CartPole-v1?max_steps=1"))
    env.reset(seed=0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        env.step(0)
    with pytest.warns(UserWarning, match=r"The episode has ended; call reset\(\)"):
        env.step(0)
    env.reset()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        env.step(0)


def test_each_of_several_seeds_decides_its_own_environment():
    venv = to_gymnasium_vector(jaxrl.make("CartPole-v1"), 3)

    def played(seeds):
        return np.stack([venv.reset(seed=seeds)[0], *(venv.step([1, 1, 1])[0] for _ in range(12))])

    one, other = played([5, 6, 7]), played([9, 6, 5])  # some fall and begin anew
    np.testing.assert_array_equal(one[:, 1], other[:, 1])
    np.testing.assert_array_equal(one[0, 0], other[0, 2])
    assert not np.array_equal(one[:, 2], other[:, 2])
    with pytest.raises(ValueError, match="seed is one whole number, or 3 for as many environments; got 2"):
        venv.reset(seed=[1, 2])


def test_the_facts_of_the_last_step_are_kept():
    venv = to_gymnasium_vector(jaxrl.make("quadrotor/hover?max_steps=2"), 2)
    venv.reset(seed=0)
    assert "final_info" not in venv.step(np.zeros((2, 4)))[4]
    info = venv.step(np.zeros((2, 4)))[4]
    assert info["_final_info"].tolist() == info["final_info"]["_distance"].tolist() == [True, True]
    np.testing.assert_array_equal(info["final_info"]["distance"], info["distance"])


def test_a_vector_environment_has_a_picture_of_each_copy():
    venv = to_gymnasium_vector(jaxrl.make("CartPole-v1"), 2, render_mode="rgb_array")
    with pytest.raises(RuntimeError, match="call reset before render"):
        venv.render()
    venv.reset(seed=0)
    one, other = venv.render() or (None, None)
    assert one is not None
    assert other is not None
    assert one.shape == other.shape
    assert not np.array_equal(one, other)
    assert to_gymnasium_vector(jaxrl.make("CartPole-v1"), 2).render() is None
