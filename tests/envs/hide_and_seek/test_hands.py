"""Grabbing, carrying and locking: hand-made worlds, in which what follows is known, and every vote on a lock."""

import dataclasses
import itertools
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
from hand_made import NAME, after, world

import jaxrl
from jaxrl.envs.hide_and_seek.rules import locking, nearest

BESIDE = (2.5, 1)  # a quarter of a metre from the middle of the box at (3, 1) to its left side, and so in reach


def test_who_grabs_a_box_carries_and_turns_it():
    """Seen from its holder it stays where and as it was taken, here to the right and aslant."""
    faces: Any = {"heading": [[0.8, 0.6], [1, 0], [1, 0]], "object_heading": [[0.96, 0.28], [1, 0]]}
    state = after(world(hiders=(BESIDE, (1, 5)), **faces), hider_0="grab")
    assert state.held.tolist() == [0, -1, -1]

    def seen(state):
        cos, sin = state.heading[0]
        turn = np.array([[cos, sin], [-sin, cos]])
        return np.stack([turn @ (state.object_position[0] - state.position[0]), turn @ state.object_heading[0]])

    start, carried = seen(state), after(state, 12, hider_0="y turn grab")
    np.testing.assert_allclose(seen(carried), start, atol=0.02)
    assert carried.position[0, 1] - state.position[0, 1] > 1
    assert carried.object_heading[0] @ state.object_heading[0] < 0.5
    left = after(carried, 3)
    assert left.held[0] == -1
    np.testing.assert_array_equal(left.object_position[0], carried.object_position[0])


def test_what_one_carries_weighs_as_much_as_it():
    """From a standstill: a step's three thirds of force and damping, for a mass of 1 alone and of 2 with a box."""
    free, loaded = world(), world(hiders=(BESIDE, (1, 5)))
    for state, mass, order in ((free, 1, "y"), (after(loaded, hider_0="grab"), 2, "y grab")):
        speed, third = 0.0, 0.075 / 3
        for _ in range(3):
            speed = (speed + 22.5 / mass * third) / (1 + 10 / mass * third)
        np.testing.assert_allclose(after(state, hider_0=order).velocity[0], [0, speed], rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"hiders": ((2.4, 1), (1, 5))}, "too far"),
        ({"heading": [[-1, 0], [1, 0], [1, 0]]}, "behind its back"),
        ({"locked_by": [1, -1]}, "locked"),
        ({"hiders": ((1, 1), (1, 5)), "seeker": BESIDE, "step": 2}, "a seeker in the preparation"),
    ],
)
def test_a_box_is_not_grabbed(fields, why):
    state = after(world(**{"hiders": (BESIDE, (1, 5)), **fields}), hider_0="grab", seeker_0="grab")
    assert state.held.tolist() == [-1, -1, -1], why


def test_of_two_objects_the_nearer_is_grabbed():
    for to_box, to_ramp, nearer in ((0.2, 0.22, 0), (0.22, 0.2, 1)):
        box, ramp = (2.75 + to_box, 0.85), (2.35, 1.25 + to_ramp)
        state = world(hiders=(BESIDE, (1, 5)), box=box, ramp=ramp, heading=[[0.7071, 0.7071], [1, 0], [1, 0]])
        assert after(state, hider_0="grab").held[0] == nearer


def test_a_grip_breaks_beyond_one_and_a_half_times_the_reach():
    for distance, held in ((0.36, 0), (0.39, -1)):
        place = (3 - 0.25 - distance, 1)
        grip = [[0.25 + distance, 0, 1, 0], [0] * 4, [0] * 4]
        state = world(hiders=(place, (1, 5)))
        state = dataclasses.replace(state, held=jnp.int32([0, -1, -1]), grip=jnp.float32(grip))
        assert after(state, hider_0="grab").held[0] == held


def test_two_who_pull_apart_leave_the_box_in_the_middle_and_lose_it():
    state = after(world(hiders=((2.5, 1), (3.5, 1)), heading=[[1, 0], [-1, 0], [1, 0]]), hider_0="grab", hider_1="grab")
    assert state.held.tolist() == [0, 0, -1]
    pulled = after(state, hider_0="-x grab", hider_1="x grab")
    assert pulled.object_position[0, 0] - pulled.position[0, 0] > 0.53
    alone = after(pulled, 4, hider_0="grab")  # it comes back to where it was taken
    np.testing.assert_allclose(alone.object_position[0, 0] - alone.position[0, 0], 0.5, atol=0.01)
    apart = after(pulled, 3, hider_0="-x grab", hider_1="x grab")
    np.testing.assert_allclose(apart.object_position[0], [3, 1], atol=0.01)
    assert apart.held.tolist() == [-1, -1, -1]


def test_a_lock_holds_against_carrying_and_pushing_until_its_own_team_opens_it():
    near = world(hiders=(BESIDE, (1, 5)), seeker=(3.5, 1), heading=[[1, 0], [1, 0], [-1, 0]])
    state = after(near, hider_0="grab lock")
    assert state.locked_by.tolist() == [0, -1]
    assert state.held[0] == -1, "what is locked is not held"
    moved = after(state, 10, hider_0="x grab lock", seeker_0="-x grab")
    np.testing.assert_array_equal(moved.object_position[0], near.object_position[0])
    assert moved.locked_by[0] == 0
    assert after(state, seeker_0="lock", hider_0="lock").locked_by[0] == 0
    away = after(state, 4, hider_0="-x lock")
    assert after(away, 2).locked_by[0] == 0, "who is out of reach has no say"
    opened = after(state, hider_0="grab")
    assert (opened.locked_by[0], opened.held[0]) == (-1, -1)
    assert after(opened, hider_0="grab").held[0] == 0


def test_every_vote_on_a_lock():
    """Of two hiders and two seekers on one object, against the rules as sentences."""
    yes_or_no, found = (False, True), []
    cases = list(itertools.product((-1, 0, 1), *[yes_or_no] * 10))
    for before, *flags in cases:
        attends, asks, acting = flags[:4], flags[4:8], (True, True, *flags[8:])
        votes = [[asks[a] for a in team if attends[a] and acting[a]] for team in ((0, 1), (2, 3))]
        lockers = [team for team in (0, 1) if votes[team] and all(votes[team])]
        owner = before
        if before == -1 and len(lockers) == 1:
            owner = lockers[0]
        if before >= 0 and votes[before] and not any(votes[before]):
            owner = -1
        found.append(owner)
    before, *flags = (jnp.asarray(column) for column in zip(*cases, strict=True))
    attends, asks = jnp.stack(flags[:4])[:, None], jnp.stack(flags[4:8])
    acting = jnp.stack([jnp.ones_like(flags[0])] * 2 + flags[8:])
    np.testing.assert_array_equal(locking(before[None], attends, asks, acting, 2)[0], found)


def test_the_nearest_is_the_first_of_the_closest_in_sight_and_reach():
    rng, params = np.random.default_rng(0), jaxrl.make(NAME).default_params
    distance = rng.integers(0, 5, (3, 4, 200)) * np.float32(0.125)  # with ties, and some out of reach
    seen = rng.random(distance.shape) < 0.6
    chosen = np.asarray(nearest(jnp.asarray(distance), jnp.asarray(seen), params))
    for a, b in np.ndindex(3, 200):
        near = [(distance[a, o, b], o) for o in range(4) if seen[a, o, b] and distance[a, o, b] <= 0.25]
        assert np.flatnonzero(chosen[a, :, b]).tolist() == ([min(near)[1]] if near else [])
