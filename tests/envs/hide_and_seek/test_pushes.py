"""Bodies make way for each other, in hand-made worlds: boxes are pushed, agents keep apart, walls stop what is held."""

import numpy as np
import pytest
from hand_made import after, world

NEAR = 0.02  # metres, what bodies that push may be in each other
NOTHING = [1e6, 1e6, 0.0, 0.0]


def test_who_walks_into_a_box_pushes_it():
    state = world(hiders=((2.4, 1), (1, 5)))
    pushed = after(state, 10, hider_0="x")
    assert pushed.object_position[0, 0] - state.object_position[0, 0] > 0.3
    np.testing.assert_allclose(pushed.object_position[0, 1], 1, atol=1e-4)
    assert pushed.object_position[0, 0] - pushed.position[0, 0] > 0.25 + 0.15 - NEAR
    rest = after(pushed, 12)
    np.testing.assert_allclose(after(rest, 5).object_position[0], rest.object_position[0], atol=1e-3)
    slower = pushed.position[0, 0] - state.position[0, 0]
    assert slower < after(world(), 10, hider_0="x").position[0, 0] - 1 - 0.2


def test_a_locked_box_stops_who_walks_into_it():
    state = after(world(hiders=((2.4, 1), (1, 5)), locked_by=[1, -1]), 10, hider_0="x")
    np.testing.assert_array_equal(state.object_position[0], [3, 1])
    assert 0.4 - NEAR < 3 - state.position[0, 0] < 0.4 + NEAR


@pytest.mark.parametrize("locked_by", [-1, 0])
def test_one_object_pushes_the_next(locked_by):
    """Or stops there, if that one is locked."""
    state = after(world(hiders=((2.4, 1), (1, 5)), ramp=(3.55, 1), locked_by=[-1, locked_by]), 10, hider_0="x")
    (box, _), (ramp, _) = np.asarray(state.object_position)
    assert ramp - box > 0.5 - NEAR
    assert (ramp > 3.6) == (locked_by < 0)
    assert box > 3.02


@pytest.mark.parametrize("places", [((2, 3), (2.8, 3), (5, 5)), ((5, 5), (2.8, 3), (2, 3))], ids=["mates", "rivals"])
def test_agents_keep_apart_and_are_equally_strong(places):
    """Head on nobody gets anywhere, whatever its number; whoever stands in the way is moved."""
    state, [left] = world(places[:2], places[2]), [i for i in (0, 2) if places[i][0] == 2]
    names = ("hider_0", "hider_1", "seeker_0")
    against = after(state, 10, **{names[left]: "x", "hider_1": "-x"})
    np.testing.assert_allclose(against.position[[left, 1], 0] - 2.4, [-0.15, 0.15], atol=NEAR)
    along = after(state, 10, **{names[left]: "x"})
    assert along.position[1, 0] > 2.9
    assert along.position[1, 0] - along.position[left, 0] > 0.3 - NEAR


def test_a_wall_stops_who_carries_a_box_against_it():
    wall = [[3.5, 3, 0.05, 2.9], *[NOTHING] * 11]
    state = after(world(hiders=((2.5, 1), (1, 5)), walls=wall), hider_0="grab")
    state = after(state, 8, hider_0="x grab")
    assert state.held[0] == 0
    np.testing.assert_allclose(state.object_position[0], [3.2, 1], atol=NEAR)
    np.testing.assert_allclose(state.position[0], [2.7, 1], atol=NEAR)
    turned = after(state, 8, hider_0="turn grab")
    assert turned.held[0] == 0
    assert turned.object_position[0, 0] < 3.2 + NEAR
    # Half of its diagonal is longer than half its side: there is no room to turn it on the spot.
    corners = np.abs(np.asarray(turned.object_heading[0])).sum() * 0.25
    assert turned.object_position[0, 0] + corners < 3.45 + NEAR


def test_nobody_turns_a_box_for_which_there_is_no_room():
    """In a corridor as wide as the box, its holder cannot turn either, until it lets go."""
    walls = [[3, 1.305, 2.9, 0.05], [3, 0.695, 2.9, 0.05], *[NOTHING] * 10]
    state = after(world(hiders=((2.5, 1), (1, 5)), walls=walls), hider_0="grab")
    state = after(state, 5, hider_0="turn grab")
    assert state.held[0] == 0
    np.testing.assert_allclose(state.object_heading[0], [1, 0], atol=0.05)
    np.testing.assert_allclose(state.heading[0], [1, 0], atol=0.05)
    assert after(state, 5, hider_0="turn").heading[0, 0] < 0.9
