"""Random maps: closed, of all fillings, with room for everybody and a way to every goal."""

import dataclasses
import functools
from collections import deque

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxrl
from jaxrl.envs.jaxnav import RandomMap
from jaxrl.envs.jaxnav.maps import regions

ENV = RandomMap(3, width=9, height=8, num_beams=4)
PER_ROBOT = ("position", "heading", "velocity", "crashed", "arrived", "goal")


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
        edited = jax.eval_shape(ENV.mutate, jax.random.key(1), state, None)
    assert {leaf.dtype.itemsize for leaf in jax.tree.leaves((state, edited))} <= {1, 4}


@functools.cache
def compiled_edits(env):
    return jax.jit(jax.vmap(env.mutate))


def edit(env, seed, levels):
    """One edit of each of 256 levels, and in which of them walls, starts and goals have changed, `[256]` each."""
    keys = jax.random.split(jax.random.key(seed), 256)
    edited = jax.tree.map(np.asarray, compiled_edits(env)(keys, levels))
    parts = ("walls", "position", "goal")
    changed = [(getattr(edited, part) != getattr(levels, part)).reshape(256, -1).any(1) for part in parts]
    return edited, changed


def test_an_edit_changes_one_cell_or_one_start_or_one_goal(levels):
    edited, changed = edit(ENV, 4, levels)
    assert np.sum(changed, 0).max() == 1
    assert np.sum(changed, 1).min() > 40  # a third of 256 is 85, and some edits break a rule
    assert ((edited.walls != levels.walls).sum((1, 2)) <= 1).all()
    for part in ("position", "goal"):
        moved = (getattr(edited, part) != getattr(levels, part)).any(-1)
        assert (moved.sum(1) <= 1).all()
        assert moved.any(0).all()  # each of the robots
    for part in ("heading", "velocity", "crashed", "arrived", "step"):
        np.testing.assert_array_equal(getattr(edited, part), getattr(levels, part))
    built = edited.walls & ~levels.walls
    assert 0 < built.sum() < (edited.walls != levels.walls).sum()  # walls come and go


def test_levels_that_are_edited_again_and_again_are_valid_starts(levels):
    now = levels
    for seed in range(20):
        now, _ = edit(ENV, 10 + seed, now)
        check_clearance(now)
        check_ways(now)
        assert np.linalg.norm(now.goal - now.position, axis=-1).min() > 0.6
    for edge in (now.walls[:, 0], now.walls[:, -1], now.walls[:, :, 0], now.walls[:, :, -1]):
        assert edge.all()
    assert now.walls.sum() > levels.walls.sum()


def test_a_wall_that_would_cut_off_a_goal_is_not_built(levels):
    """In a corridor, every wall between the robot and its goal does; unless all goals need a way, some are built."""
    corridor = np.ones((5, 9), bool)
    corridor[2, 1:-1] = False
    one = dataclasses.replace(levels, **{name: getattr(levels, name)[:, :1] for name in PER_ROBOT})
    built = {}
    for reachable in (True, False):
        env = RandomMap(1, width=9, height=5, num_beams=4, reachable=reachable)
        places = {"position": np.array([1.5, 2.5], np.float32), "goal": np.array([7.5, 2.5], np.float32)}
        alike = {name: np.broadcast_to(place, (256, 1, 2)) for name, place in places.items()}
        edited, _ = edit(env, 5, dataclasses.replace(one, **alike, walls=np.broadcast_to(corridor, (256, 5, 9))))
        built[reachable] = (edited.walls & ~corridor).any(0)
        assert not built[reachable][2, [1, 7]].any()  # where it starts and arrives
        assert (corridor & ~edited.walls).any()  # walls still go
    assert not built[True].any()
    assert built[False][2, 2:7].all()
