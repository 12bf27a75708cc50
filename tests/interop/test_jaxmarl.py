"""The dict view against JaxMARL's own base class, wrappers and environments."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxrl

pytest.importorskip("jaxmarl")
import jaxmarl
from jaxmarl.environments.multi_agent_env import MultiAgentEnv
from jaxmarl.environments.smax import map_name_to_scenario
from jaxmarl.wrappers.baselines import (
    CTRolloutManager,
    LogWrapper,
    MPELogWrapper,
    OvercookedV2LogWrapper,
    SMAXLogWrapper,
)
from jaxmarl.wrappers.transformers import TransformersCTRolloutManager

from jaxrl.interop import from_jaxmarl, to_jaxmarl

COPIES = 3


@pytest.fixture(scope="module")
def view():
    return to_jaxmarl(jaxrl.make("mpe/simple_tag", max_steps=3))


def test_looks_like_an_environment_of_jaxmarl(view):
    theirs = jaxmarl.make("MPE_simple_tag_v3")
    assert isinstance(view, MultiAgentEnv)
    assert view.num_agents == theirs.num_agents
    assert view.agents == theirs.agents
    for agent in theirs.agents:
        for space in ("observation_space", "action_space"):
            ours, other = getattr(view, space)(agent), getattr(theirs, space)(agent)
            assert (type(ours), ours.shape, getattr(ours, "n", 0)) == (type(other), other.shape, getattr(other, "n", 0))
    assert list(view.agent_classes.values()) == [["adversary_0", "adversary_1", "adversary_2"], ["agent_0"]]


def test_steps_as_the_environment_does_and_resets_when_over(view):
    env = view.env
    obs, state = view.reset(jax.random.key(0))
    before = state.env_state
    action = jnp.array([1, 2, 3, 4])
    actions = {agent: action[i] for i, agent in enumerate(view.agents)}
    step = jax.jit(view.step)
    for t in range(3):
        obs, state, rewards, dones, infos = step(jax.random.key(t + 1), state, actions)
        if t == 0:
            expected, _, reward, *_ = jax.jit(env.step_env)(jax.random.key(9), before, action, env.default_params)
            for i, agent in enumerate(view.agents):
                np.testing.assert_allclose(obs[agent], expected[i, : obs[agent].size], atol=1e-6)
                np.testing.assert_allclose(rewards[agent], reward[i], atol=1e-6)
        assert {name: bool(done) for name, done in dones.items()} == dict.fromkeys([*view.agents, "__all__"], t == 2)
        assert infos["truncated"].tolist() == [t == 2] * 4
    assert state.env_state.step == 0
    np.testing.assert_array_equal(view.get_obs(state)["agent_0"], obs["agent_0"])


@pytest.mark.parametrize("name", [pytest.param("hide_and_seek/chase", marks=pytest.mark.slow), "coin_game"])
def test_old_keys_pass(name):
    """JaxMARL's scripts have them."""
    view: Any = to_jaxmarl(jaxrl.make(name))
    (obs, state), (same, _) = view.reset(jax.random.PRNGKey(0)), view.reset(jax.random.key(0))
    jax.tree.map(np.testing.assert_array_equal, obs, same)
    actions = {agent: jnp.zeros(view.action_space(agent).shape, jnp.int32) for agent in view.agents}
    obs, *_ = view.step(jax.random.PRNGKey(1), state, actions)
    same, *_ = view.step(jax.random.key(1), state, actions)
    jax.tree.map(np.testing.assert_array_equal, obs, same)
    for agent in view.agents:
        assert obs[agent].shape == view.observation_space(agent).shape


def test_the_state_to_reset_to_can_be_chosen(view):
    _, state = view.reset(jax.random.key(0))
    _, chosen = view.reset(jax.random.key(7))
    actions, obs = {agent: jnp.int32(0) for agent in view.agents}, {}
    for t in range(3):
        obs, state, *_ = view.step(jax.random.key(t), state, actions, chosen)
    np.testing.assert_array_equal(obs["agent_0"], view.get_obs(chosen)["agent_0"])


def test_jaxmarls_log_wrapper_counts_our_episodes(view):
    env = MPELogWrapper(view)
    _, state = jax.vmap(env.reset)(jax.random.split(jax.random.key(0), 2))
    actions = {agent: jnp.zeros(2, jnp.int32) for agent in view.agents}
    summed, infos = jnp.zeros((2, 4)), {}
    for t in range(3):
        keys = jax.random.split(jax.random.key(t), 2)
        _, state, rewards, _, infos = jax.vmap(env.step)(keys, state, actions)
        summed += jnp.stack([rewards[agent] for agent in view.agents], 1)
    assert infos["returned_episode_lengths"].tolist() == [[3] * 4] * 2
    np.testing.assert_allclose(infos["returned_episode_returns"], summed * 4, rtol=1e-6)  # as their wrapper scales it


def _rollout(env):
    """A step of several copies as in the loops of JaxMARL's IPPO and MAPPO: `(obs, infos by actor)`."""
    keys = jax.random.split(jax.random.PRNGKey(0), COPIES)
    obs, state = jax.vmap(env.reset)(keys)
    actions = {agent: jnp.zeros(COPIES, jnp.int32) for agent in env.agents}
    legal = getattr(env, "get_legal_moves" if "hanabi" in env.name else "get_avail_actions")
    masks = jax.vmap(legal)(state.env_state)  # under the log wrapper, as their scripts call it
    obs, state, reward, _, infos = jax.vmap(env.step)(keys, state, actions)
    if "shaped_reward" in infos:
        shaped = infos.pop("shaped_reward")
        reward = jax.tree.map(lambda own, more: own + 0.5 * more, reward, shaped)
        infos["shaped_reward"] = jnp.stack([shaped[agent] for agent in env.agents])
    infos = jax.tree.map(lambda x: x.reshape(COPIES * env.num_agents), infos)
    return obs, masks, jnp.stack([reward[agent] for agent in env.agents]), infos


@pytest.mark.parametrize(
    ("name", "wrapper", "told"),
    [
        ("hanabi", LogWrapper, "returned_episode_returns"),
        ("smax/3m", SMAXLogWrapper, "returned_won_episode"),
        ("overcooked/cramped_room", LogWrapper, "shaped_reward"),
        ("overcooked_v2/demo_cook_simple", OvercookedV2LogWrapper, "returned_episode_recipe_returns"),
        ("coin_game", LogWrapper, "own_coins"),
    ],
)
def test_the_loops_of_jaxmarls_baselines_run(name, wrapper, told):
    env = wrapper(to_jaxmarl(jaxrl.make(name)))
    obs, masks, reward, infos = jax.eval_shape(lambda: _rollout(env))
    assert obs[env.agents[0]].shape == (COPIES, *env.observation_space().shape)
    assert masks[env.agents[0]].shape == (COPIES, env.action_space().n)
    assert reward.shape == (env.num_agents, COPIES)
    assert told in infos


def test_each_agent_has_its_own_number_of_the_info():
    class Told(type(jaxrl.make("coin_game"))):
        def step_env(self, key, state, action, params):
            info = {"shaped_reward": jnp.array([1.0, 2.0]), "own": jnp.array([3, 4]), "all": 5, "map": jnp.ones((2, 2))}
            return *super().step_env(key, state, action, params)[:5], info

    env = to_jaxmarl(Told())
    _, state = env.reset(jax.random.key(0))
    infos = env.step(jax.random.key(1), state, dict.fromkeys(env.agents, jnp.int32(0)))[4]
    assert {agent: float(value) for agent, value in infos["shaped_reward"].items()} == {"red": 1.0, "blue": 2.0}
    assert (infos["own"].tolist(), infos["all"].tolist(), "map" in infos) == ([3, 4], [5, 5], False)


def test_jaxmarls_log_wrapper_finds_our_recipes():
    view: Any = to_jaxmarl(jaxrl.make("overcooked_v2/demo_cook_simple"))
    theirs: Any = jaxmarl.make("overcooked_v2", layout="demo_cook_simple")
    ours, other = (OvercookedV2LogWrapper(env).recipe_dict for env in (view, theirs))
    assert {name: int(code) for name, code in ours.items()} == {name: int(code) for name, code in other.items()}
    assert int(view.reset(jax.random.key(0))[1].recipe) in set(map(int, ours.values()))


@pytest.mark.parametrize("name", ["hanabi", "overcooked/cramped_room", "mpe/simple_tag"])
def test_jaxmarls_rollout_manager_steps_ours(name):
    logged: Any = LogWrapper(to_jaxmarl(jaxrl.make(name)))
    manager = CTRolloutManager(logged, COPIES)

    def step():
        key = jax.random.PRNGKey(0)
        obs, state = manager.batch_reset(key)
        masks = manager.get_valid_actions(state.env_state)
        actions = {agent: manager.batch_sample(key, agent) for agent in manager.agents}
        return obs, masks, manager.batch_step(key, state, actions)

    obs, masks, (_, _, reward, _, infos) = jax.eval_shape(step)
    assert obs[manager.agents[0]].shape == (COPIES, manager.obs_size)
    assert masks[manager.agents[0]].shape[0] == reward["__all__"].shape[0] == COPIES
    if "overcooked" in name:
        assert set(infos["shaped_reward"]) | {"__all__"} == set(reward)  # one is added to the other


def test_jaxmarls_transformers_see_units_as_in_its_smax():
    theirs = jaxmarl.make("HeuristicEnemySMAX", scenario=map_name_to_scenario("3m"))
    managers = [TransformersCTRolloutManager(env, COPIES) for env in (to_jaxmarl(jaxrl.make("smax/3m")), theirs)]
    ours, other = (jax.eval_shape(manager.batch_reset, jax.random.PRNGKey(0))[0] for manager in managers)
    assert jax.tree.map(jnp.shape, ours) == jax.tree.map(jnp.shape, other)


@pytest.mark.slow
def test_jaxmarls_rollout_manager_finds_world_state_and_masks_on_smax():
    env = to_jaxmarl(jaxrl.make("smax/3m"))
    manager = CTRolloutManager(env, batch_size=2, preprocess_obs=False)
    obs, state = manager.batch_reset(jax.random.key(0))
    assert obs["__all__"].shape == (2, env.state_size) == (2, 72)
    mask = manager.get_valid_actions(state)
    assert mask["ally_0"].shape == (2, 8)
    assert env.num_allies == 3  # looked up on our environment


@pytest.mark.slow
@pytest.mark.parametrize("name", ["switch_riddle", "overcooked", "hanabi", "coin_game", "MPE_simple_tag_v3"])
def test_jaxmarl_environments_keep_our_contract(name):
    jaxrl.check_env(jaxrl.make(f"jaxmarl:{name}"))


def test_agents_may_be_numbers():
    """And what they see a tuple."""
    with jax.debug_key_reuse(False):  # STORM uses a key twice
        assert jaxrl.make("jaxmarl:storm_2p").agents == ("0", "1")


@pytest.mark.slow
def test_agents_that_are_numbers_and_see_several_arrays():
    with jax.debug_key_reuse(False):  # STORM uses a key twice
        env = jaxrl.make("jaxmarl:storm_2p")
        obs, state = env.reset(jax.random.key(0))
        obs, state, reward, *_ = jax.jit(env.step)(jax.random.key(1), state, jnp.array([0, 4]))
    assert env.agents == ("0", "1")
    assert obs.shape == (2, *env.observation_space().shape)
    assert (obs.dtype, reward.shape) == (jnp.float32, (2,))


def test_stepping_through_us_equals_stepping_jaxmarl():
    theirs = jaxmarl.make("MPE_simple_tag_v3")
    ours = from_jaxmarl(theirs, time_limit=26)
    obs, state = ours.reset(jax.random.key(3))
    seen, their_state = theirs.reset(jax.random.key(3))
    assert obs.shape == (4, 16)
    np.testing.assert_array_equal(obs[3, :14], seen["agent_0"])
    assert (obs[3, 14:] == 0).all()
    action = jnp.array([1, 2, 3, 4])
    step, their_step = jax.jit(ours.step_env), jax.jit(theirs.step_env)
    for t in range(26):  # one more than their max_steps: that is when their clock rings
        obs, state, reward, terminated, truncated, _ = step(jax.random.key(t), state, action, None)
        actions = {agent: action[i] for i, agent in enumerate(theirs.agents)}
        seen, their_state, rewards, dones, _ = their_step(jax.random.key(t), their_state, actions)
        np.testing.assert_array_equal(obs[0], seen["adversary_0"])
        assert reward[1] == rewards["adversary_1"]
        assert bool(truncated) == bool(dones["__all__"]) == (t == 25)
        assert not terminated


def test_their_world_state_is_the_global_state():
    env = jaxrl.make("jaxmarl:HeuristicEnemySMAX")
    assert env.has_global_state
    _, state = jax.jit(env.reset_env)(jax.random.key(0), None)
    after = jax.jit(env.step_env)(jax.random.key(1), state, jnp.arange(env.num_agents), None)[1]
    for ours in (state, after):
        world = env.env.get_world_state(ours.env_state)
        np.testing.assert_allclose(env.global_state(ours), world, rtol=1e-6)
    back = from_jaxmarl(to_jaxmarl(jaxrl.make("smax/3m")))
    _, state = jax.jit(back.reset_env)(jax.random.key(0), None)
    np.testing.assert_array_equal(back.global_state(state), back.env.env.global_state(state.env_state.env_state))
    assert not jaxrl.make("jaxmarl:MPE_simple_spread_v3").has_global_state


@pytest.mark.slow
def test_mabraxs_episodes_are_cut_and_begin_anew_here():
    pytest.importorskip("brax")
    env = jaxrl.make("jaxmarl:ant_4x2?backend=spring&episode_length=4&action_repeat=2")
    assert (env.num_agents, env.time_limit) == (4, 2)
    step = jax.jit(env.step)
    obs, state = jax.jit(env.reset)(jax.random.key(0))
    action, start = jnp.zeros((4, *env.action_space().shape)), obs
    for t in range(2):
        obs, state, _, terminated, truncated, info = step(jax.random.key(t), state, action)
        assert (bool(terminated), bool(truncated)) == (False, t == 1)
        assert not np.array_equal(info["final_observation"], start)
    assert not np.array_equal(obs, start)  # brax would begin every episode alike
    with pytest.raises(TypeError, match=r"make this Ant with auto_reset=False"):
        jaxrl.make("jaxmarl:ant_4x2?auto_reset=true")


def test_unknown_names_and_libraries():
    with pytest.raises(ValueError, match=r"no environment 'overcook'. Did you mean overcooked"):
        jaxrl.make("jaxmarl:overcook")
    with pytest.raises(ValueError, match=r"one of brax:NAME, .*, jaxmarl:NAME, .*, pgx:NAME for another lib"):
        jaxrl.make("atari:pong")
    with pytest.raises(TypeError, match=r"as in from_jaxmarl\(jaxmarl.make\(id\)\).* not a str"):
        from_jaxmarl("overcooked")
    with pytest.raises(ValueError, match="time_limit"):
        jaxrl.make("jaxmarl:coin_game", time_limit=0)
    with pytest.raises(ValueError, match="time_limit must be a whole number of at least 1, got 'soon'"):
        jaxrl.make("jaxmarl:coin_game?time_limit=soon")
    with pytest.raises(TypeError, match=r"missing 2 .*'policy' and 'params'\. .*from_jaxmarl\(jaxmarl\.make\("):
        jaxrl.make("jaxmarl:LearnedPolicyEnemySMAX")
    with pytest.raises(TypeError, match=r"jaxmarl cannot make SMAX of these options: .*'num_allies'"):
        jaxrl.make("jaxmarl:SMAX", scenario="3m")
    with (
        jax.debug_key_reuse(False),
        pytest.raises(TypeError, match="dicts of agents, and MGinTheGrid returns another tree"),
    ):
        jaxrl.make("jaxmarl:storm_np")
    with (
        jax.debug_key_reuse(False),
        pytest.raises(TypeError, match=r"returns another tree: .* Its agents are \[0, 1"),
    ):
        jaxrl.make("jaxmarl:storm")


def test_an_environment_has_agents():
    with pytest.raises(ValueError, match=r"from_jaxmarl takes environments with agents, and .* has none"):
        jaxrl.make("jaxmarl:MPE_simple_spread_v3?num_agents=0")


def test_mpe_ignores_no_option():
    with pytest.raises(TypeError, match=r"MPE_simple_spread_v3 has no option 'steps'. It has num_agents, .*max_steps"):
        jaxrl.make("jaxmarl:MPE_simple_spread_v3?steps=9")
    with pytest.raises(ValueError, match="max_steps must be a whole number; got 'few'"):
        jaxrl.make("jaxmarl:MPE_simple_spread_v3?max_steps=few")
    env = jaxrl.make("jaxmarl:MPE_simple_v3?max_steps=9&damping=0.5")
    assert (env.env.max_steps, env.env.damping) == (9, 0.5)


def test_an_agent_without_an_action_is_named():
    env = to_jaxmarl(jaxrl.make("mpe/simple_spread"))
    _, state = env.reset(jax.random.key(0))
    with pytest.raises(ValueError, match="an action for each agent, and there is none for agent_1, agent_2"):
        env.step_env(jax.random.key(0), state, {"agent_0": jnp.int32(0)})
    with pytest.raises(TypeError, match="a dict of actions by agent, not a list"):
        env.step_env(jax.random.key(0), state, [0, 0, 0])  # pyright: ignore[reportArgumentType]
    with pytest.raises(ValueError, match=r"agent_1 acts in Discrete\(n=5\), and .* is no such action"):
        env.step_env(jax.random.key(0), state, {agent: jnp.zeros(int(agent[-1]) + 1) for agent in env.agents})


def test_single_agents_are_sent_to_gymnax():
    with pytest.raises(TypeError, match="not a CartPole; use to_gymnax, or"):
        to_jaxmarl(jaxrl.make("CartPole-v1"))
