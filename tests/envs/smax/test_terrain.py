"""Walls, slow ground, cover and fire: by hand, and against slow NumPy."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxrl.envs.smax import terrain
from jaxrl.envs.smax.terrain import Zone, Zones, zones_of
from tests.envs.smax.sandbox import DUMMY, LEFT, RIFLE, RIGHT, STOP, UP, attack, battle, play, start

FAR = (28.0, 28.0)


def zones_from(zones: list[Zone]) -> Zones:
    """The arrays of at least one zone."""
    made = zones_of(zones)
    assert made is not None
    return made


def test_slow_ground_halves_the_way():
    for zones, way in (((), 4.0), ([Zone("slow", 10, 10, 9, 2)], 2.0), ([Zone("slow", 10, 10, 9, 2, True, 0.75)], 1.0)):
        env = battle({"dummy": DUMMY}, ["dummy"], ["dummy"], [(10.0, 10.0), FAR], zones)
        states, _ = play(env, start(env), [RIGHT, STOP], 4)
        np.testing.assert_allclose(states.position[-1, 0], [10 + way, 10], atol=1e-4)


def test_overlapping_slow_ground_multiplies_and_fire_adds():
    zones = zones_from(
        [Zone("slow", 0, 0, 2, 2), Zone("slow", 1, 0, 2, 2), Zone("burn", 0, 0, 1, 1), Zone("burn", 0, 0, 3, 3, True)]
    )
    x, y = jnp.asarray([0.5, -1.5, 5.0]), jnp.zeros(3)
    np.testing.assert_allclose(terrain.slowed(zones, x, y), [0.25, 0.5, 1.0])
    np.testing.assert_allclose(terrain.burn(zones, x, y), [10, 5, 0])


def test_fire_takes_health_per_second():
    env = battle({"dummy": DUMMY}, ["dummy"], ["dummy"], [(10.0, 10.0), FAR], [Zone("burn", 10, 10, 1, 1, effect=10)])
    states, _ = play(env, start(env), [STOP, STOP], 4)
    np.testing.assert_allclose(states.health[:, 0], [95, 90, 85, 80], atol=1e-3)


def test_units_stop_at_walls_and_slide_along_them():
    wall = Zone("wall", 14, 10, 1, 3)
    env = battle({"dummy": DUMMY}, ["dummy"], ["dummy"], [(10.0, 10.0), FAR], [wall])
    states, _ = play(env, start(env), [RIGHT, STOP], 8)
    assert 12.6 < states.position[-1, 0, 0] <= 12.9  # its radius is 0.1, and a tick takes it 0.125 far
    before, after = ((jnp.asarray([x]), jnp.asarray([y])) for x, y in ((12.8, 10.0), (13.2, 10.3)))
    slid = terrain.stop(zones_from([wall]), before, after, jnp.asarray([0.1]))
    np.testing.assert_allclose(np.concatenate(slid), [12.8, 10.3], atol=1e-6)


def test_who_stands_in_a_wall_can_leave_it():
    env = battle({"dummy": DUMMY}, ["dummy"], ["dummy"], [(14.0, 10.0), FAR], [Zone("wall", 14, 10, 1, 3)])
    states, _ = play(env, start(env), [RIGHT, STOP], 8)
    assert states.position[-1, 0, 0] > 15


def sees(env, state):
    """Whether ally 0 observes enemy 0, and enemy 0 ally 0."""
    obs = np.asarray(env.observation(state))
    return bool(obs[0, :7].any()), bool(obs[1, :7].any())


def test_cover_hides_until_the_unit_shoots_for_a_second():
    zones = [Zone("cover", 13, 10, 1, 1, True)]
    env = battle({"rifle": RIFLE}, ["rifle"], ["rifle"], [(10.0, 10.0), (13.0, 10.0)], zones)
    state = start(env)
    assert sees(env, state) == (False, True)
    assert not env.action_mask(state)[0, attack(0)]
    states, _ = play(env, state, [attack(0), STOP])
    assert states.health[0, 1] == 100  # nobody shoots what is hidden
    states, _ = play(env, state, [STOP, attack(0)])
    shot = jax.tree.map(lambda leaf: leaf[0], states)
    assert shot.health[0] == 90
    assert sees(env, shot) == (True, True)
    later, _ = play(env, shot, [STOP, STOP], 3)
    after = [sees(env, jax.tree.map(lambda leaf, t=t: leaf[t], later))[0] for t in range(3)]
    assert after == [True, False, False]  # it shot at the first tick of its step


def test_cover_hides_nobody_from_those_in_it():
    zones = [Zone("cover", 11, 10, 3, 1)]
    env = battle({"rifle": RIFLE}, ["rifle"], ["rifle"], [(10.0, 10.0), (13.0, 10.0)], zones)
    assert sees(env, start(env)) == (True, True)


@pytest.mark.parametrize(("effect", "seen"), [(1.0, False), (0.0, True)])
def test_walls_block_sight_and_shots_where_asked(effect, seen):
    env = battle(
        {"rifle": RIFLE},
        ["rifle"],
        ["rifle"],
        [(10.0, 10.0), (13.0, 10.0)],
        [Zone("wall", 11.5, 10, 0.2, 2, effect=effect)],
    )
    state = start(env)
    assert sees(env, state) == (seen, seen)
    assert env.action_mask(state)[0, attack(0)] == seen
    states, _ = play(env, state, [attack(0), STOP])
    assert (states.health[0, 1] < 100) == seen


def test_a_cone_of_sight_turns_with_walking_and_shooting():
    """Units with 90 degrees see nobody behind or beside them; they begin looking to the other side."""
    scout = RIFLE._replace(sight_angle=90.0)
    places = [(14.0, 10.0), (10.0, 10.0), (14.0, 13.5), (17.0, 12.0)]
    env = battle({"scout": scout, "dummy": DUMMY}, ["scout"], ["dummy"] * 3, places)
    state = start(env)

    def seen(state):
        return np.asarray(env.observation(state))[0].reshape(-1)[: 3 * 17].reshape(3, 17)[:, 0] > 0

    np.testing.assert_array_equal(seen(state), [False, False, True])
    np.testing.assert_array_equal(env.action_mask(state)[0, 5:], [False, False, True])
    for action, expected in ((UP, [False, True, False]), (LEFT, [True, False, False]), (STOP, [False, False, True])):
        after = jax.tree.map(lambda leaf: leaf[0], play(env, state, [action, STOP, STOP, STOP])[0])
        np.testing.assert_array_equal(seen(after), expected)
    after = jax.tree.map(lambda leaf: leaf[0], play(env, state, [attack(2), STOP, STOP, STOP])[0])
    np.testing.assert_allclose(after.heading[0], np.asarray([3, 2]) / np.sqrt(13), atol=1e-5)
    # Nobody shoots what is behind.
    states, _ = play(env, state, [attack(0), STOP, STOP, STOP])
    assert states.health[0, 1] == 100


def test_lines_of_sight_against_slow_numpy():
    """A line is blocked if one of many points on it is inside a wall."""
    rng = np.random.default_rng(0)
    walls = [Zone("slow", 5, 5, 4, 4)]
    for k in range(5):
        (x, y), (width, height) = rng.uniform(2, 8, 2), rng.uniform(0.3, 2, 2)
        walls.append(Zone("wall", x, y, width, height, bool(rng.random() < 0.5), float(k > 0)))
    seer, seen = rng.uniform(0, 10, (2, 40)), rng.uniform(0, 10, (2, 50))
    ends = [(jnp.asarray(x), jnp.asarray(y)) for x, y in (seer, seen)]
    ours = np.asarray(terrain.blocked_lines(zones_from(walls), *ends))
    parts = np.linspace(0, 1, 2001)
    for i in range(40):
        for j in range(50):
            x, y = seer[:, i, None] + parts * (seen[:, j] - seer[:, i])[:, None]
            depth = -1.0  # how far into the nearest wall, in parts of its size; only clear cases are compared
            for wall in walls:
                if wall.kind != "wall" or not wall.effect:
                    continue
                a, b = np.abs(x - wall.x) / wall.half_width, np.abs(y - wall.y) / wall.half_height
                depth = max(depth, (1 - (np.sqrt(a * a + b * b) if wall.round else np.maximum(a, b))).max())
            if abs(depth) > 1e-2:
                assert ours[i, j] == (depth > 0), (i, j, depth)


def test_zones_in_observations():
    """A block for each zone: kind, offset and half size in parts of the map, mirrored for the enemies."""
    env = battle(
        {"dummy": DUMMY}, ["dummy"], ["dummy"], [(8.0, 8.0), (24.0, 8.0)], [Zone("burn", 16, 24, 4, 2, True, 10)]
    )
    obs = np.asarray(env.observation(start(env)))[:, -10:]
    np.testing.assert_allclose(obs, [[0, 0, 0, 1, 0.25, 0.5, 0.125, 0.0625, 1, 0.2]] * 2, atol=1e-6)


@pytest.mark.parametrize(
    ("zone", "says"),
    [
        (("lava", 1, 1, 1, 1), "the kind of a zone must be 'none' or 'wall'"),
        (("slow", 1, 1, 0, 1), "wider and higher than 0"),
        (("slow", 1, 1, 1, 1, False, 2.0), "up to 1 but for fire"),
        (("burn", "x", 1, 1, 1), "x of the zone burn must be a number"),
    ],
)
def test_wrong_zones(zone, says):
    with pytest.raises(ValueError, match=says):
        battle({}, ["marine"], ["marine"], [(8, 8), (24, 8)], [zone])
