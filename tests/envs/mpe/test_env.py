"""Spaces, masks, options, ends, parameters: what users and algorithms rely on."""

import dataclasses
import itertools
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxrl
from jaxrl.check import check_env
from jaxrl.envs.mpe import SCENARIOS, Agent, Landmark, World
from jaxrl.spaces import Box, Discrete

B = 300
SHAPES = {  # agents, observations, discrete actions, continuous actions: the peers' documentation
    "simple": (["agent_0"], [4], [5], [5]),
    "simple_spread": (["agent_0", "agent_1", "agent_2"], [18] * 3, [5] * 3, [5] * 3),
    "simple_tag": (["adversary_0", "adversary_1", "adversary_2", "agent_0"], [16, 16, 16, 14], [5] * 4, [5] * 4),
    "simple_adversary": (["adversary_0", "agent_0", "agent_1"], [8, 10, 10], [5] * 3, [5] * 3),
    "simple_push": (["adversary_0", "agent_0"], [8, 19], [5] * 2, [5] * 2),
    "simple_reference": (["agent_0", "agent_1"], [21, 21], [50, 50], [15, 15]),
    "simple_speaker_listener": (["speaker_0", "listener_0"], [3, 11], [3, 5], [3, 5]),
    "simple_crypto": (["eve_0", "bob_0", "alice_0"], [4, 8, 8], [4] * 3, [4] * 3),
    "simple_world_comm": (
        ["leadadversary_0", "adversary_0", "adversary_1", "adversary_2", "agent_0", "agent_1"],
        [34, 34, 34, 34, 28, 28],
        [20, 5, 5, 5, 5, 5],
        [9, 5, 5, 5, 5, 5],
    ),
    "simple_facmac_3a": ([f"adversary_{i}" for i in range(3)], [16] * 3, [5] * 3, [5] * 3),
    "simple_facmac_6a": ([f"adversary_{i}" for i in range(6)], [30] * 6, [5] * 6, [5] * 6),
    "simple_facmac_9a": ([f"adversary_{i}" for i in range(9)], [44] * 9, [5] * 9, [5] * 9),
}
ROLES = {
    "simple_tag": (0, 0, 0, 1),
    "simple_adversary": (0, 1, 1),
    "simple_speaker_listener": (0, 1),
    "simple_crypto": (0, 1, 2),
    "simple_world_comm": (0, 1, 1, 1, 2, 2),
}


@pytest.mark.parametrize("name", SHAPES)
def test_spaces(env, name):
    agents, seen, discrete, continuous = SHAPES[name]
    env, smooth = env(name, action_type="discrete"), env(name, action_type="continuous")
    assert list(env.agents) == agents
    assert [space.shape for space in env.agent_observation_spaces.values()] == [(size,) for size in seen]
    assert env.observation_space().shape == (max(seen),)
    assert list(env.agent_action_spaces.values()) == [Discrete(n) for n in discrete]
    assert env.action_space() == Discrete(max(discrete))
    assert list(smooth.agent_action_spaces.values()) == [Box(0.0, 1.0, (n,)) for n in continuous]
    assert smooth.action_space() == Box(0.0, 1.0, (max(continuous),))
    assert (env.has_action_mask, smooth.has_action_mask) == (True, False)


@pytest.mark.parametrize("name", ROLES)
def test_roles_follow_from_names(env, name):
    assert env(name, action_type="discrete").roles == ROLES[name]


TEAMS = ("simple_spread", "simple_push", "simple_crypto", "simple_tag?num_good=2", "simple_adversary?num_adversaries=2")
OTHERS = [name for name in SCENARIOS if name not in TEAMS and "facmac_" not in name]  # those are of other sizes


@pytest.mark.parametrize("name", [*TEAMS, *(pytest.param(name, marks=pytest.mark.slow) for name in OTHERS)])
def test_agents_are_a_team_where_they_always_earn_the_same(name):
    """Over random play, and only there: members of different teams earn something else at least once."""
    team = jaxrl.make(f"mpe/{name}")
    reward = np.asarray(jax.jit(partial(_random_rewards, team))(jax.random.key(0)))  # [T, N]
    for i, j in itertools.combinations(range(team.num_agents), 2):
        same = bool(np.all(reward[:, i] == reward[:, j]))
        assert same == (team.teams[i] == team.teams[j]), (i, j)


def _random_rewards(team, key):
    """The rewards of 4,000 random steps, `[T, N]`."""
    key_reset, key_play = jax.random.split(key)
    _, state = team.reset(key_reset)

    def step(state, key):
        key_action, key_step = jax.random.split(key)
        action = jax.vmap(team.action_space().sample)(jax.random.split(key_action, team.num_agents))
        _, state, reward, *_ = team.step(key_step, state, action)
        return state, reward

    return jax.lax.scan(step, state, jax.random.split(key_play, 4000))[1]


def test_names_and_aliases():
    assert jaxrl.list_envs("mpe/*") == sorted(f"mpe/{name}" for name in SCENARIOS)
    for name, (scenario, version, _) in SCENARIOS.items():
        assert isinstance(jaxrl.make(f"MPE_{name}_{version}"), scenario)
    assert jaxrl.make("mpe/simple_spread?num_agents=5").num_agents == 5


def other_kind(name):
    """The actions that a scenario does not have by default; tests/envs/test_registered.py checks those it has."""
    slow = pytest.mark.slow if name != "simple_speaker_listener" else ()
    return pytest.param(name, "discrete" if "facmac" in name else "continuous", marks=slow)


@pytest.mark.parametrize(("name", "kind"), [other_kind(name) for name in SCENARIOS])
def test_keeps_the_contract(name, kind):
    check_env(jaxrl.make(f"mpe/{name}", action_type=kind), num_steps=32)


@pytest.mark.quick
def test_episodes_have_exactly_max_steps(env):
    """And end by truncation, never otherwise."""
    env = env("simple", max_steps=7)
    _, state = jax.jit(env.reset)(jax.random.key(0))
    action = jnp.ones(1, jnp.int32)

    def body(state, key):
        _, state, _, terminated, truncated, info = env.step(key, state, action)
        return state, (terminated, truncated, state.step, info["final_observation"])

    _, (terminated, truncated, count, final) = jax.lax.scan(body, state, jax.random.split(jax.random.key(1), 21))
    assert not terminated.any()
    np.testing.assert_array_equal(np.flatnonzero(truncated), [6, 13, 20])
    np.testing.assert_array_equal(count, [1, 2, 3, 4, 5, 6, 0] * 3)
    assert (np.asarray(final[6, 0, :2]) != 0).any()  # not yet at rest again


def test_padded_actions_are_masked(env):
    env = env("simple_world_comm", action_type="discrete")
    state = jax.eval_shape(env.reset, jax.random.key(0))[1]  # the masks do not depend on it
    np.testing.assert_array_equal(env.action_mask(state).sum(1), [20, 5, 5, 5, 5, 5])
    assert env.action_mask(state)[1:, :5].all()


def test_an_action_beyond_ones_own_is_the_last_one(env, steps):
    env = env("simple_world_comm", action_type="discrete")
    _, state = jax.jit(env.batch_reset)(jax.random.split(jax.random.key(0), B))
    keys = jax.random.split(jax.random.key(1), B)
    outcomes = []
    for number in (17, 4):
        action = jnp.full((B, 6), number, jnp.int32).at[:, 0].set(0)
        outcomes.append(steps(env)(jax.random.clone(keys), state, action)[0][1].position)
    np.testing.assert_array_equal(*outcomes)


def test_continuous_actions_have_no_mask(env):
    with pytest.raises(TypeError, match="action_type='discrete'"):
        env("simple", action_type="continuous").action_mask(None)


@pytest.mark.quick
def test_words_are_heard_in_the_next_observation(env):
    env = env("simple_reference", action_type="discrete")
    _, state = jax.jit(env.reset)(jax.random.key(0))
    obs, state, *_ = jax.jit(env.step)(jax.random.key(1), state, jnp.array([5 * 7 + 1, 5 * 2]))
    np.testing.assert_array_equal(obs[1, -10:], np.eye(10)[7])
    np.testing.assert_array_equal(obs[0, -10:], np.eye(10)[2])
    assert state.velocity[0, 0] < 0 == state.velocity[1, 0]


def test_resets_fill_the_square(env):
    env = env("simple_tag", action_type="discrete")
    _, state = jax.jit(env.batch_reset)(jax.random.split(jax.random.key(0), B))
    agents, obstacles = np.asarray(state.position[:, :4]), np.asarray(state.position[:, 4:])
    for places, side in ((agents, 1.0), (obstacles, 0.9)):
        assert side - 0.02 < np.abs(places).max() <= side
        assert abs(places.mean()) < 0.05
        assert abs(places.var() - side**2 / 3) < 0.03
    assert not np.asarray(state.velocity).any()


def test_goals_are_drawn_evenly(env):
    env = env("simple_reference", action_type="discrete")
    _, state = jax.jit(env.batch_reset)(jax.random.split(jax.random.key(0), B))
    pairs = np.bincount(3 * state.goal[:, 0] + state.goal[:, 1], minlength=9)
    assert len(pairs) == 9
    assert pairs.min() > B / 9 - 25


def test_global_state_tells_everything(env):
    env = env("simple_speaker_listener", action_type="discrete")
    _, state = jax.jit(env.reset)(jax.random.key(0))
    state = dataclasses.replace(state, velocity=jnp.ones((2, 2)), message=jnp.array([[0.0, 0.0, 1.0]]))
    told = np.asarray(env.global_state(state))
    expected = [*np.ravel(state.position), 1, 1, 1, 1, 0, 0, 1, *np.eye(3)[int(state.goal[0])]]
    np.testing.assert_allclose(told, expected)


def test_parameters_can_be_mapped(env):
    """Three worlds in one program: as it is, without damping, with a heavy first agent, and three prices of contact."""
    env = env("simple_spread", action_type="continuous")
    default = env.default_params
    params = jax.tree.map(lambda leaf: np.broadcast_to(leaf, (3, *np.shape(leaf))), default)
    mass = np.ones((3, 3), np.float32)
    mass[2, 0] = 10.0
    rules = params.rules._replace(local_ratio=np.array([0.0, 0.5, 1.0], np.float32))
    params = dataclasses.replace(params, damping=np.array([0.25, 0.0, 0.25], np.float32), mass=mass, rules=rules)
    _, state = jax.jit(env.reset)(jax.random.key(0))
    apart = jnp.array([[-0.9, 0], [0.1, 0], [0.9, 0], [0, 0], [0, 0], [0, 0]])
    state = dataclasses.replace(state, position=apart, velocity=jnp.ones((3, 2)))
    action = jnp.zeros((3, 5)).at[:, 2].set(1.0)
    step = jax.jit(jax.vmap(lambda params: env.step(jax.random.key(1), state, action, params)))
    _, after, reward, *_ = step(params)
    np.testing.assert_allclose(after.velocity[:, 0, 0], [0.75 + 0.5, 1.5, 0.75 + 0.05], rtol=1e-5)
    np.testing.assert_allclose(reward[2], 0.0)  # only collisions count, and there are none
    np.testing.assert_allclose(reward[1], reward[0] / 2, rtol=1e-5)


def test_nobody_collides_with_itself(env):
    """Also where agents have no size; the first two of those that have one touch each other."""
    env = env("simple_spread")
    _, state = env.reset(jax.random.key(0))
    places = jnp.array([[-0.8, -0.8], [-0.8, -0.7], [0.8, 0.8]])
    state = dataclasses.replace(state, position=jnp.concatenate([places, places]), velocity=jnp.zeros((3, 2)))
    for size, collisions in ((0.0, [0, 0, 0]), (0.15, [1, 1, 0])):
        params = dataclasses.replace(env.default_params, size=jnp.full(6, size))
        np.testing.assert_allclose(env.reward(state, params), -0.5 * np.array(collisions), atol=1e-6)


BAD = [
    ("simple", {"max_steps": 0}, "max_steps must be a whole number of at least 1"),
    ("simple_spread", {"num_agents": 2.5}, "num_agents must be a whole number"),
    ("simple_spread", {"local_ratio": 1.5}, "local_ratio must be a number between 0 and 1"),
    ("simple_tag", {"num_good": 0}, "num_good must be a whole number of at least 1"),
    ("simple_tag", {"action_type": "Discrete"}, "action_type must be 'discrete' or 'continuous'"),
    ("simple_reference", {"num_agents": 1}, "num_agents must be a whole number of at least 2"),
    ("simple_crypto", {"num_words": 1}, "num_words must be at least num_messages"),
    ("simple_facmac", {"score": "max"}, "score must be 'min' or 'sum'"),
    ("simple_facmac", {"view_radius": -1}, "view_radius must be at least 0"),
]


@pytest.mark.parametrize(("name", "options", "message"), BAD)
def test_wrong_options(name, options, message):
    with pytest.raises(ValueError, match=message):
        jaxrl.make(f"mpe/{name}", **options)


def test_wrong_worlds():
    with pytest.raises(ValueError, match="collide must come before"):
        World([Agent("a", collides=False)], landmarks=[Landmark(collides=True)])
    with pytest.raises(ValueError, match="same number of words"):
        World([Agent("a", words=2), Agent("b", words=3)])


SIZES = [
    ("simple", {"num_agents": 3, "num_landmarks": 2}),
    ("simple_spread", {"num_agents": 7, "num_landmarks": 2}),
    ("simple_adversary", {"num_good": 3, "num_adversaries": 2, "num_landmarks": 1}),
    ("simple_push", {"num_good": 2, "num_adversaries": 3, "num_landmarks": 4}),
    ("simple_reference", {"num_agents": 4, "num_landmarks": 5, "num_words": 3}),
    ("simple_speaker_listener", {"num_landmarks": 6, "num_words": 2}),
    ("simple_crypto", {"num_messages": 3, "num_words": 5}),
    ("simple_world_comm", {"num_obstacles": 0, "num_forests": 0, "num_food": 1, "num_adversaries": 1, "num_good": 1}),
    ("simple_facmac", {"num_adversaries": 2, "num_good": 3, "num_obstacles": 0}),
]


@pytest.mark.parametrize(("name", "options"), SIZES, ids=lambda value: value if isinstance(value, str) else "")
def test_other_numbers_of_bodies(name, options):
    """Shapes only, which costs no compilation; the numbers are compared with mpe2 in test_lockstep."""
    env = jaxrl.make(f"mpe/{name}", **options)
    obs, state = jax.eval_shape(env.reset, jax.random.key(0))
    assert obs.shape == (env.num_agents, *env.observation_space().shape)
    action = jax.ShapeDtypeStruct((env.num_agents, *env.action_space().shape), env.action_space().dtype)
    obs, after, reward, *_ = jax.eval_shape(env.step, jax.random.key(0), state, action)
    assert reward.shape == (env.num_agents,)
    assert jax.tree.map(lambda leaf: leaf.shape, after) == jax.tree.map(lambda leaf: leaf.shape, state)
