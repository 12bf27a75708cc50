"""The environment: ends, rewards, who acts, what is seen, and pictures."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxrl
from jaxrl.envs.jaxnav import Map, NamedMap, RandomMap
from jaxrl.errors import UnknownNameError

ROOM = Map(
    ("#######", "#.....#", "#.....#", "#.....#", "#######"), ((1.5, 1.5, 0.0), (1.5, 3.5, 0.0)), ((5.5, 1.5),) * 2
)
ENV = NamedMap(ROOM, num_beams=5, max_steps=50)
PARAMS: Any = ENV.default_params
STEP = jax.jit(ENV.step_env)
AHEAD, STAY = [1.0, 0.0], [0.0, 0.0]


def drive(state, *orders, steps=1, params=PARAMS):
    """The results of some steps with the same orders."""
    results = []
    for _ in range(steps):
        results.append(STEP(jax.random.key(0), state, jnp.array(orders, jnp.float32), params))
        state = results[-1][1]
    return results


@pytest.fixture
def start():
    return jax.jit(ENV.reset)(jax.random.key(0))[1]


def test_a_robot_drives_ahead_and_is_paid_for_the_way(start):
    results = drive(start, AHEAD, STAY, steps=12)
    state = results[-1][1]
    way = 0.1 * sum(min(0.1 * t, 1.0) for t in range(1, 13))
    np.testing.assert_allclose(state.position[0], [1.5 + way, 1.5], atol=1e-5)
    np.testing.assert_allclose(state.position[1], [1.5, 3.5], atol=1e-6)
    own = np.array([0.25 * 0.1 - 0.01, -0.01])
    np.testing.assert_allclose(results[-1][2], 0.5 * own + 0.5 * own.mean(), atol=1e-5)


def test_arrival_is_paid_once_and_the_episode_goes_on(start):
    results = drive(start, AHEAD, STAY, steps=45)
    arrivals = [float(reward[0] - reward[1]) for _, _, reward, *_ in results]
    assert sum(value > 1 for value in arrivals) == 1
    first = int(np.argmax(arrivals))
    assert arrivals[first] == pytest.approx(0.5 * 4.0, abs=1e-4)
    infos = [info for *_, info in results]
    assert [bool(info["arrived"][0]) for info in infos] == [t >= first for t in range(45)]
    assert not any(info["arrived"][1] or info["won"] for info in infos)


def test_who_crashes_stays_is_masked_and_is_in_the_way(start):
    ahead = dataclasses.replace(start, heading=jnp.array([-np.pi / 2, 0.0], jnp.float32))
    results = drive(ahead, AHEAD, STAY, steps=10)
    state, info = results[-1][1], results[-1][-1]
    assert list(info["crashed"]) == [True, False]
    assert list(np.asarray(ENV.agent_mask(state))) == [False, True]
    costs = [float(reward[0] - reward[1]) for _, _, reward, *_ in results]
    assert min(costs) == pytest.approx(0.5 * -4.0, abs=0.1)
    later = drive(state, AHEAD, STAY, steps=3)[-1][1]
    np.testing.assert_array_equal(later.position[0], state.position[0])
    np.testing.assert_array_equal(later.velocity[0], 0.0)


def test_robots_crash_into_each_other():
    facing = Map(ROOM.rows, ((1.5, 2.5, 0.0), (5.5, 2.5, np.pi)), ((5.5, 2.5), (1.5, 2.5)))
    env = NamedMap(facing, num_beams=5)
    _, state = env.reset(jax.random.key(0))
    step = jax.jit(env.step_env)
    ends = []
    while not any(ends):
        order = jnp.array([AHEAD, AHEAD], jnp.float32)
        _, state, _, terminated, truncated, info = step(jax.random.key(0), state, order, env.default_params)
        ends.append(bool(terminated | truncated))
        assert bool(info["crashed"].all()) == bool(terminated) == ends[-1]
        assert not info["won"]
    assert len(ends) < 40
    gap = float(state.position[1, 0] - state.position[0, 0])
    assert 0.3 <= gap <= 0.5  # the sides of both, less the last step


def test_it_is_won_when_all_have_arrived_and_cut_off_at_the_limit(start):
    at_goal = dataclasses.replace(start, position=start.goal + jnp.array([[0.0, 0.3], [0.0, 1.5]]))
    *_, terminated, truncated, info = drive(at_goal, STAY, STAY)[0]
    assert (bool(terminated), bool(truncated), bool(info["won"])) == (False, False, False)
    both = dataclasses.replace(at_goal, arrived=jnp.array([False, True]))
    *_, terminated, truncated, info = drive(both, STAY, STAY)[0]
    assert (bool(terminated), bool(truncated), bool(info["won"])) == (True, False, True)
    late = dataclasses.replace(start, step=jnp.int32(49))
    *_, terminated, truncated, info = drive(late, STAY, STAY)[0]
    assert (bool(terminated), bool(truncated), bool(info["won"])) == (False, True, False)
    last = dataclasses.replace(both, step=jnp.int32(49))
    *_, terminated, truncated, info = drive(last, STAY, STAY)[0]
    assert (bool(terminated), bool(truncated), bool(info["won"])) == (True, False, True)


def test_a_robot_sees_walls_the_other_one_and_its_goal(start):
    obs = np.asarray(ENV.observation(start))
    np.testing.assert_allclose(ENV.beam_angles, [-np.pi, -np.pi / 2, 0, np.pi / 2, np.pi], atol=1e-6)
    beams = (obs[:, :5] + 0.5) * 6
    np.testing.assert_allclose(beams[0], [0.5, 0.5, 4.5, 1.75, 0.5], atol=1e-4)  # the other one is 2 m to the left
    np.testing.assert_allclose(beams[1], [0.5, 1.75, 4.5, 0.5, 0.5], atol=1e-4)
    np.testing.assert_allclose(obs[0, 5:], [-0.5, 0.0, 4 / 6 - 0.5, 0.0, 0.0], atol=1e-5)
    assert obs[1, 8] == pytest.approx(np.arctan2(-2, 4) / np.pi, abs=1e-5)


def test_all_of_the_state_is_in_the_global_state(start):
    before = np.asarray(ENV.global_state(start))
    assert before.shape == (3 * 5 + 10 * 2 + 1,)
    for name in ("position", "heading", "velocity", "goal"):
        changed = dataclasses.replace(start, **{name: getattr(start, name) + 0.1})
        assert (np.asarray(ENV.global_state(changed)) != before).any()
    for name in ("crashed", "arrived"):
        changed = dataclasses.replace(start, **{name: jnp.array([False, True])})
        assert (np.asarray(ENV.global_state(changed)) != before).sum() == 1
    assert (np.asarray(ENV.global_state(dataclasses.replace(start, step=jnp.int32(9)))) != before).sum() == 1


def test_maps_of_ones_own_are_checked():
    with pytest.raises(ValueError, match="same length"):
        Map(("###", "##"), ((1.5, 1.5, 0.0),), ((1.5, 1.5),))
    with pytest.raises(ValueError, match="a wall, #, in every cell on its edge"):
        Map(("###", "#..", "###"), ((1.5, 1.5, 0.0),), ((1.5, 1.5),))
    with pytest.raises(ValueError, match="Each start of a map needs a goal"):
        Map(("###", "#.#", "###"), ((1.5, 1.5, 0.0),), ())
    with pytest.raises(UnknownNameError, match=r"no map 'corner3'. Did you mean corner2"):
        NamedMap("corner3")


@pytest.mark.quick
def test_names_lead_here():
    assert isinstance(jaxrl.make("jaxnav"), RandomMap)
    assert jaxrl.make("jaxnav/random?num_agents=4&width=15").num_agents == 4
    assert jaxrl.make("jaxnav/corner2?num_beams=20").observation_space().shape == (25,)


def test_a_picture_shows_every_robot_and_its_goal(start):
    frame = ENV.render(start)
    for color in ((47, 127, 214), (217, 163, 92)):
        assert (np.abs(frame.astype(int) - color).sum(-1) < 30).sum() > 100
