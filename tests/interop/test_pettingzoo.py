"""PettingZoo's own test of the parallel API, and what it does not look at."""

import pickle
import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxrl

pytest.importorskip("pettingzoo")
with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # PettingZoo's tests import a game in a way it deprecates
    from pettingzoo.test import parallel_api_test

from jaxrl.environment import MultiAgentEnvironment
from jaxrl.interop import to_pettingzoo
from jaxrl.spaces import Box, Discrete


@pytest.fixture(scope="module")
def tag():
    return to_pettingzoo(jaxrl.make("mpe/simple_tag", max_steps=6))


@pytest.mark.parametrize("options", [{}, {"action_type": "continuous"}])
def test_official_test(options, tag, capsys):
    env = to_pettingzoo(jaxrl.make("mpe/simple_speaker_listener", max_steps=6, **options)) if options else tag
    parallel_api_test(env, num_cycles=20)
    assert "Passed" in capsys.readouterr().out


@pytest.mark.slow
def test_official_test_on_smax(capsys):
    parallel_api_test(to_pettingzoo(jaxrl.make("smax/3m", mode="selfplay")), num_cycles=120)
    assert "Passed" in capsys.readouterr().out


def test_each_agent_gets_its_own_part(tag):
    obs, infos = tag.reset(seed=1)
    assert {name: x.shape for name, x in obs.items()} == {
        "adversary_0": (16,), "adversary_1": (16,), "adversary_2": (16,), "agent_0": (14,),
    }  # fmt: skip
    for agent, seen in obs.items():
        assert seen in tag.observation_space(agent)
        assert infos[agent]["action_mask"].tolist() == [1] * tag.action_space(agent).n
        assert infos[agent]["alive"]
    assert tag.state().shape == (20,)


def test_equals_the_environment_itself(tag):
    env = tag.env
    seen, _ = tag.reset(seed=5)
    state = tag.stepper.state
    actions = {"adversary_0": 1, "adversary_1": 2, "adversary_2": 3, "agent_0": 4}
    obs, rewards, *_ = tag.step(actions)
    expected, _, reward, *_ = jax.jit(env.step_env)(
        jax.random.key(0), state, np.array([1, 2, 3, 4]), env.default_params
    )
    for i, agent in enumerate(env.agents):
        np.testing.assert_allclose(obs[agent], expected[i, : len(obs[agent])], atol=1e-6)
        np.testing.assert_allclose(rewards[agent], reward[i], rtol=1e-6)
    again, _ = tag.reset(seed=5)
    assert all(np.array_equal(seen[agent], again[agent]) for agent in seen)


class _Told(MultiAgentEnvironment):
    """Two agents who are told a number each, and a place of two numbers."""

    agents, agent_info = ("left", "right"), ("each",)

    def observation_space(self, params=None):
        return Box(0.0, 1.0, (1,))

    def action_space(self, params=None):
        return Discrete(2)

    def reset_env(self, key, params):
        return jnp.zeros((2, 1)), jnp.zeros(())

    def step_env(self, key, state, action, params):
        no, info = jnp.zeros((), bool), {"each": jnp.arange(2), "place": jnp.array([7, 8])}
        return jnp.zeros((2, 1)), state, jnp.zeros(2), no, no, info


def test_each_agent_is_told_its_own_info_and_all_of_the_episode_s():
    env = to_pettingzoo(_Told())
    env.reset(seed=0)
    infos = env.step({"left": 0, "right": 1})[-1]
    assert [infos[agent]["each"] for agent in env.agents] == [0, 1]
    assert [infos[agent]["place"].tolist() for agent in env.agents] == [[7, 8], [7, 8]]


def test_arrays_are_the_users_own_to_change(tag):
    obs, _ = tag.reset(seed=1)
    before = obs["agent_0"].copy()
    for array in (obs["adversary_0"], tag.state()):
        array[:] = 0
    np.testing.assert_array_equal(obs["agent_0"], before)
    assert tag.state().any()


def test_agents_leave_together_by_the_clock(tag):
    tag.reset(seed=0)
    for step in range(6):
        assert tag.agents == tag.possible_agents
        *_, terminated, truncated, _ = tag.step(dict.fromkeys(tag.agents, 0))
        assert set(truncated.values()) == {step == 5}
        assert set(terminated.values()) == {False}
    assert tag.agents == []


def test_actions_are_those_of_the_agents(tag):
    tag.reset(seed=0)
    with pytest.raises(ValueError, match="no agent 'adversary0' in mpe/simple_tag; there are adversary_0, "):
        tag.step({"adversary0": 1})
    with pytest.raises(TypeError, match="a dict of actions by agent, not a list"):
        tag.step([1, 1, 1, 1])


@pytest.mark.parametrize("action", [[1, 2], "up", None, np.inf])
def test_what_is_no_action_of_an_agent_is_told(tag, action):
    tag.reset(seed=0)
    with pytest.raises(ValueError, match=r"adversary_1 acts in Discrete\(n=5\), and .* is no such action"):
        tag.step({"adversary_0": 1, "adversary_1": action})


@pytest.mark.parametrize("method", ["step", "render", "state"])
def test_an_episode_begins_with_reset(method):
    env = to_pettingzoo(jaxrl.make("mpe/simple"), render_mode="rgb_array")
    with pytest.raises(RuntimeError, match=f"No episode of mpe/simple has begun; call reset before {method}"):
        getattr(env, method)(*([{"agent_0": 1}] if method == "step" else []))


def test_a_pickled_copy_goes_on_alike(tag):
    tag.reset(seed=3)
    again = pickle.loads(pickle.dumps(tag))
    actions = dict.fromkeys(tag.agents, 1)
    np.testing.assert_array_equal(again.step(actions)[0]["agent_0"], tag.step(actions)[0]["agent_0"])
    np.testing.assert_array_equal(again.state(), tag.state())


def test_single_agents_are_sent_to_gymnasium():
    with pytest.raises(ValueError, match="use to_gymnasium"):
        to_pettingzoo(jaxrl.make("CartPole-v1"))
