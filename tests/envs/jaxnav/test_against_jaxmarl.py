"""The same levels and orders, step by step, in JaxMARL's JaxNav."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxrl

pytest.importorskip("jaxmarl")
from jaxmarl.environments.jaxnav import jaxnav_env, jaxnav_singletons

from jaxrl.envs.jaxnav import MAPS, NamedMap, RandomMap

pytestmark = [
    pytest.mark.filterwarnings("ignore:scatter inputs have incompatible types"),  # in theirs
    pytest.mark.filterwarnings("ignore:max_dist_to_goal"),
]
LEVELS, STEPS, ROBOTS = 8, 60, 3
SPACING = 6.0 / 119  # of the points along a beam that theirs looks at


def their_state(state):
    """Ours as theirs, for one level."""
    false = jnp.zeros(ROBOTS, bool)
    return jaxnav_env.State(
        pos=state.position,
        theta=state.heading,
        vel=state.velocity,
        done=false,
        term=false,
        goal_reached=state.arrived,
        move_term=state.crashed,
        step=state.step,
        ep_done=False,
        goal=state.goal,
        map_data=state.walls.astype(jnp.int32),
        rew_lambda=0.5,
    )


def orders(obs, key):
    """Towards the goal, with noise, so that many arrive and many crash."""
    bearing = obs[:, -2] * np.pi
    speed = jnp.where(jnp.abs(bearing) < 0.8, 1.0, 0.3)
    noise = jax.random.normal(key, (ROBOTS, 2)) * np.array([0.3, 0.2], np.float32)
    order = jnp.stack([speed, jnp.clip(2 * bearing, -0.5, 0.5)], axis=1) + noise
    return jnp.clip(order, np.array([0, -np.pi / 6]), np.array([1, np.pi / 6])).astype(jnp.float32)


@pytest.fixture(scope="module")
def played():
    """Both games under the same orders until the end: leaves `[LEVELS, STEPS, …]`."""
    ours, theirs = (
        RandomMap(ROBOTS, width=9, height=9),
        jaxnav_env.JaxNav(ROBOTS, map_params={"map_size": (9, 9), "max_dist_to_goal": 6.0}),
    )
    params = ours.default_params

    def run(key):
        key, key_start = jax.random.split(key)
        obs, state = ours.reset_env(key_start, params)

        def step(carry, key):
            obs, state, other, over = carry
            action = orders(obs, key)
            obs, state, reward, terminated, *_ = ours.step_env(key, state, action, params)
            named = {agent: action[i] for i, agent in enumerate(theirs.agents)}
            seen, other, rewards, dones, _ = theirs.step_env(key, other, named)
            seen = jnp.stack([seen[agent] for agent in theirs.agents])
            rewards = jnp.stack([rewards[agent] for agent in theirs.agents])
            both = (obs, state, reward, terminated), (seen, other, rewards, dones["__all__"])
            return (obs, state, other, over | terminated), (*both, over)

        start = obs, state, their_state(state), jnp.zeros((), bool)
        return jax.lax.scan(step, start, jax.random.split(key, STEPS))[1]

    with jax.debug_key_reuse(False):  # theirs does not care
        ours, theirs, over = jax.jit(jax.vmap(run))(jax.random.split(jax.random.key(0), LEVELS))
    playing = ~np.asarray(over)
    return *(jax.tree.map(lambda leaf: np.asarray(leaf)[playing], side) for side in (ours, theirs)), params


def test_robots_are_in_the_same_places(played):
    (_, state, _, terminated), (_, other, _, done), _ = played
    assert len(terminated) > 2 * STEPS
    np.testing.assert_allclose(state.position, other.pos, atol=1e-4)
    np.testing.assert_allclose(np.cos(state.heading - other.theta), 1.0, atol=1e-6)
    np.testing.assert_allclose(state.velocity, other.vel, atol=1e-5)
    np.testing.assert_array_equal(terminated, done)


def test_the_same_robots_crash_and_arrive(played):
    (_, state, *_), (_, other, *_), _ = played
    assert state.crashed.any(0).any()
    assert state.arrived.any(0).any()
    np.testing.assert_array_equal(state.crashed, other.move_term)
    np.testing.assert_array_equal(state.arrived, other.goal_reached)


def test_beams_are_as_long_as_theirs_up_to_the_points_that_theirs_looks_at(played):
    """Theirs returns the first point inside a wall, and may look past a corner."""
    (obs, *_), (seen, *_), _ = played
    ours, theirs = ((each[..., :-5] + 0.5) * 6 for each in (obs, seen))
    late = theirs - ours
    assert np.mean((late > -2 * SPACING) & (late < 2 * SPACING)) > 0.995
    assert np.mean(late > -2 * SPACING) > 0.9999
    np.testing.assert_allclose(obs[..., -5:], seen[..., -5:], atol=1e-4)


def test_rewards_are_the_same_but_for_beams_of_the_threshold(played):
    (obs, _, reward, _), (seen, _, rewards, _), params = played

    def near(each):
        return -0.1 * ((each[..., :-5] + 0.5) * 6 <= 0.4 + 1e-6).any(-1)

    own = near(obs) - near(seen)
    share = float(params.own_share)
    expected = rewards + share * own + (1 - share) * own.mean(-1, keepdims=True)
    np.testing.assert_allclose(reward, expected, atol=1e-4)
    assert np.abs(own).mean() < 0.02


@pytest.mark.parametrize("name", sorted(MAPS))
def test_maps_are_jaxmarls(name):
    ours, theirs = MAPS[name], getattr(jaxnav_singletons, MAPS[name].origin)()
    np.testing.assert_array_equal(ours.walls, theirs.map_data)
    np.testing.assert_allclose(ours.starts, theirs.start_pose, atol=1e-5)
    np.testing.assert_allclose(ours.goals, theirs.goal_pose[:, :2], atol=1e-5)
    env = jaxrl.make(ours.origin)
    assert isinstance(env, NamedMap)
    assert env.name == f"jaxnav/{name}"


def test_discrete_orders_are_jaxmarls():
    env = RandomMap(1, action_type="discrete")
    _, state = jax.jit(env.reset)(jax.random.key(0))
    step = jax.jit(env.step_env)
    for action, (speed, turn) in enumerate(np.asarray(jaxnav_env.DISCRETE_ACTS)):
        order = jnp.array([action], jnp.int32)
        after = step(jax.random.key(1), state, order, env.default_params)[1]
        np.testing.assert_allclose(after.velocity[0], np.clip([speed, turn], -0.1, 0.1), atol=1e-6)
