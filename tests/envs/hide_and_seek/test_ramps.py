"""Ramps, falls and what is told of an episode, in hand-made worlds."""

from typing import Any

import numpy as np
import pytest
from hand_made import HUNT, after, outcome, world

RAMP = (3, 3)  # rises to the right, from 2.75 to 3.25
BELOW = ((2.4, 3), (4.5, 3))  # one hider before the ramp, the other beyond it
NOTHING = [1e6, 1e6, 0.0, 0.0]
WALL = [[3.4, 3, 0.05, 2.9], *[NOTHING] * 11]  # beyond the ramp, from one end of the floor to the other


def test_a_ramp_is_a_way_over_a_wall():
    state = world(hiders=BELOW, ramp=RAMP, walls=WALL)
    assert not state.sight[0, 1]
    heights, over = [], []
    for _ in range(12):
        state = after(state, hider_0="x")
        x, height = float(state.position[0, 0]), float(state.height[0])
        if x < 3.25:
            assert height == pytest.approx(max(2 * (x - 2.75), 0), abs=1e-4)
        heights.append(height)
        over.append(bool(state.sight[0, 1]))
        assert over[-1] == (height >= 0.9 or x > 3.45), "who stands high looks over walls"
    assert max(heights) >= 0.9
    assert state.position[0, 0] > 3.6
    np.testing.assert_array_equal(state.object_position[1], RAMP)
    without = after(world(hiders=BELOW, ramp=(1, 1), walls=WALL), 12, hider_0="x")
    assert without.position[0, 0] < 3.35 - 0.15 + 0.01
    assert without.height[0] == 0


def test_from_its_high_side_a_ramp_is_an_obstacle():
    """It moves if nobody has locked it."""
    for locked_by, moves in ((0, False), (-1, True)):
        state = world(hiders=((3.6, 3), (1, 5)), ramp=RAMP, locked_by=[-1, locked_by])
        state = after(state, 10, hider_0="-x")
        assert state.height[0] == 0
        assert (state.object_position[1, 0] < 2.9) == moves
        assert state.position[0, 0] - state.object_position[1, 0] > 0.25 + 0.15 - 0.03


def test_without_support_one_falls_two_metres_a_second():
    state = world(height=[1, 0, 0])
    falls = [float(state.height[0])]
    for _ in range(7):
        state = after(state)
        falls.append(float(state.height[0]))
    np.testing.assert_allclose(falls, np.maximum(1 - 0.15 * np.arange(1, 9), 0), atol=1e-5)


def test_who_stays_on_top_of_a_ramp_has_climbed_it_once():
    state = after(world(hiders=((1, 1), (2.72, 5))), 3, hider_1="x")
    stays = after(state, 4)
    assert stays.height[1] >= 0.9
    np.testing.assert_array_equal(stays.tally.climbs, [0, 1])


@pytest.mark.parametrize("outside", [(), (0,), (0, 1), (2,)])
def test_who_stands_on_the_wall_around_the_floor_costs_the_team(outside):
    places: Any = [(1, 1), (1, 5), (5, 5)]
    for agent in outside:
        places[agent] = (0.05, 1 + agent)
    state = world(places[:2], places[2], height=[float(agent in outside) for agent in range(3)])
    state, reward, _ = outcome(state)
    seen = bool(state.sight[2, :2].any())
    hiders = (-1 if seen else 1) - 10 * sum(agent in outside for agent in (0, 1))
    seekers = (1 if seen else -1) - 10 * (2 in outside)
    np.testing.assert_array_equal(reward, [hiders, hiders, seekers])


def test_an_episode_is_told_by_phase_and_kind():
    """In the preparation a hider pushes the box and another locks the ramp; in the hunt one climbs it and is seen."""
    faces = [[1, 0], [1, 0], [-1, 0]]
    start = world(hiders=((2.5, 1), (2.5, 5)), box=(3, 1), ramp=(3, 5), seeker=(5, 1), heading=faces, step=0)
    state = after(start, HUNT, hider_0="x", hider_1="lock")
    pushed = float(state.object_position[0, 0] - start.object_position[0, 0])
    assert pushed > 0.3
    way, seen, info = 0.0, 0, {}
    for order in ("lock", "lock", "lock", "x", "x", "x", "x"):
        before = state
        state, _, info = outcome(before, hider_0=order, hider_1="x lock")
        way += float(np.linalg.norm(state.object_position[0] - before.object_position[0]))
        seen += bool(state.sight[2, :2].any())
    assert seen > 0
    assert way > 0
    assert state.locked_by.tolist() == [-1, 0], "nobody holds on to the lock of the box"
    told = {name: float(value) for name, value in info.items()}
    wanted = {
        "seen_fraction": seen / 7,
        "boxes_moved_preparation": pushed,
        "boxes_moved_hunt": way,
        "ramps_moved_preparation": 0.0,
        "ramps_moved_hunt": 0.0,
        "boxes_locked_preparation": 0.0,
        "boxes_locked_hunt": 0.0,
        "ramps_locked_preparation": 1.0,
        "ramps_locked_hunt": 1.0,
        "ramps_used_preparation": 0.0,
        "ramps_used_hunt": 1.0,
    }
    for name, value in wanted.items():
        assert told[name] == pytest.approx(value, abs=1e-4), name
