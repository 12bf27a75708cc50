"""Random maps: closed, of all fillings, with room for everybody and a way to every goal."""

from collections import deque

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxrl
from jaxrl.envs.jaxnav import RandomMap
from jaxrl.envs.jaxnav.maps import regions

ENV = RandomMap(3, width=9, height=8, num_beams=4)


@pytest.fixture(scope="module")
def levels():
    """256 levels, leaves `[256, …]`."""
    _, state = jax.jit(jax.vmap(ENV.reset))(jax.random.split(jax.random.key(0), 256))
    return jax.tree.map(np.asarray, state)


def reached(walls, start):
    """The cells to which there is a way, by breadth-first search."""
    seen, queue = {start}, deque([start])
    while queue:
        y, x = queue.popleft()
        for cell in ((y + 1, x), (y - 1, x), (y, x + 1), (y, x - 1)):
            if not walls[cell] and cell not in seen:
                seen.add(cell)
                queue.append(cell)
    return seen


def cell_of(point):
    x, y = np.floor(point).astype(int)
    return y, x


def test_maps_are_closed_and_differ_in_how_full_they_are(levels):
    walls = levels.walls
    assert walls.shape == (256, 8, 9)
    for edge in (walls[:, 0], walls[:, -1], walls[:, :, 0], walls[:, :, -1]):
        assert edge.all()
    inner = walls[:, 1:-1, 1:-1]
    assert set(inner.sum((1, 2))) == set(range(12))  # fewer than 0.3 * 42 = 12.6
    share = inner.mean(0)
    assert abs(share.mean() - 5.5 / 42) < 0.02
    assert share.max() < 3 * share.min()


def check_clearance(levels):
    """Starts are 0.45 m and goals 0.3 m away from walls, and those of two robots are 0.9 m apart."""
    count, robots, _ = levels.position.shape
    for points, radius in ((levels.position, 0.45), (levels.goal, 0.3)):
        ring = radius * np.stack([np.cos(a := np.linspace(0, 2 * np.pi, 64)), np.sin(a)], -1)
        around = points[:, :, None] + ring
        x, y = np.moveaxis(np.floor(around).astype(int), -1, 0)
        assert not levels.walls[np.arange(count)[:, None, None], y, x].any()
        apart = np.linalg.norm(points[:, :, None] - points[:, None], axis=-1)
        assert apart[:, ~np.eye(robots, dtype=bool)].min() > 0.9


def test_starts_and_goals_are_clear_of_walls_and_of_each_other(levels):
    check_clearance(levels)
    assert np.linalg.norm(levels.goal - levels.position, axis=-1).min() > 0.6
    assert not levels.crashed.any()
    assert np.ptp(levels.heading) > 6


def check_ways(levels):
    """From each start there is a way to the robot's goal."""
    for walls, starts, goals in zip(levels.walls, levels.position, levels.goal, strict=True):
        for start, goal in zip(starts, goals, strict=True):
            assert cell_of(goal) in reached(walls, cell_of(start))


def test_there_is_a_way_to_every_goal(levels):
    check_ways(levels)


def test_without_being_asked_for_there_may_be_none():
    env = RandomMap(1, width=9, height=8, num_beams=4, reachable=False)
    _, state = jax.jit(jax.vmap(env.reset))(jax.random.split(jax.random.key(1), 512))
    levels = jax.tree.map(np.asarray, state)
    ways = [
        cell_of(g[0]) in reached(w, cell_of(p[0]))
        for w, p, g in zip(levels.walls, levels.position, levels.goal, strict=True)
    ]
    assert 0 < np.sum(~np.array(ways)) < 100


def test_regions_are_those_of_a_search():
    rng = np.random.default_rng(1)
    for _ in range(20):
        walls = np.ones((8, 9), bool)
        walls[1:-1, 1:-1] = rng.random((6, 7)) < 0.5
        number = np.asarray(regions(jnp.asarray(walls)))
        np.testing.assert_array_equal(number == -1, walls)
        for cell in map(tuple, np.argwhere(~walls)):
            same = {tuple(c) for c in np.argwhere(number == number[cell])}
            assert same == reached(walls, cell)


def test_more_walls_are_an_option():
    env = RandomMap(3, width=9, height=8, num_beams=4, fill=0.6)
    _, state = jax.jit(jax.vmap(env.reset))(jax.random.split(jax.random.key(2), 256))
    assert np.asarray(state.walls)[:, 1:-1, 1:-1].sum((1, 2)).max() > 15


def test_a_map_that_is_too_full_loses_walls_until_there_is_room_for_the_robots():
    env = RandomMap(3, width=9, height=8, num_beams=4, fill=1.0)
    _, state = jax.jit(jax.vmap(env.reset))(jax.random.split(jax.random.key(3), 128))
    levels = jax.tree.map(np.asarray, state)
    check_clearance(levels)
    assert levels.walls[:, 1:-1, 1:-1].sum((1, 2)).max() > 20
    check_ways(levels)


def test_too_many_robots_and_options_out_of_range_are_refused():
    with pytest.raises(ValueError, match="A map of 7 by 7 cells has room for 4 robots, not 5; make it larger"):
        RandomMap(5, width=7, height=7)
    for options, sentence in (
        ({"width": 3}, "width must be a whole number from 5 to 100"),
        ({"fill": 1.5}, "fill must be a number between 0 and 1"),
        ({"reachable": "perhaps"}, "reachable must be True or False"),
        ({"lidar_range": 0}, "lidar_range must be more than 0"),
        ({"action_type": "both"}, "action_type must be 'continuous' or 'discrete'"),
        ({"num_beams": 1}, "num_beams must be a whole number of at least 2"),
    ):
        with pytest.raises(ValueError, match=sentence):
            jaxrl.make("jaxnav/random", **options)


def test_draws_maps_with_64_bit_numbers_too():
    """Users may set `jax_enable_x64`."""
    with jax.enable_x64(True):
        _, state = jax.eval_shape(ENV.reset, jax.random.key(0))
    assert {leaf.dtype.itemsize for leaf in jax.tree.leaves(state)} <= {1, 4}
