"""What holds whatever agents do: nobody gets through a wall, what is locked stays, and no energy comes from nowhere."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from slow_sight import depth_of_disc, sight

import jaxrl
from jaxrl.envs.hide_and_seek.observe import OBJECT, OTHER, OWN, agents_of, line_of_sight, objects_of, walls_of
from jaxrl.envs.hide_and_seek.physics import SLOP

OPTIONS = "num_long_boxes=1&max_steps=100&preparation=20"
WORLDS, STEPS = 8, 150


@functools.cache
def walker(scenario):
    """The environment, and a compiled function from (state, actions `[T, B, …]`) to (state, records `[T, B, …]`)."""
    env = jaxrl.make(f"hide_and_seek/{scenario}?{OPTIONS}")

    def step(state, action):
        keys = jax.random.wrap_key_data(jax.random.bits(jax.random.key(0), (action.shape[0], 2)))
        keys = jax.vmap(jax.random.fold_in)(keys, state.step + 1)
        obs, after, reward, _, _, info = env.batch_step(keys, state, action)
        return after, (state, info["final_state"], obs, after, reward)

    return env, jax.jit(lambda state, actions: jax.lax.scan(step, state, actions))


def actions(env, rng, steps, worlds):
    """Random actions that last: a new one in one of six steps. In the last quarter of the worlds, soon none at all."""
    sizes = np.array(env.action_space().nvec)
    drawn = rng.integers(0, sizes, (steps, worlds, env.num_agents, len(sizes)))
    keep = rng.random((steps, worlds, env.num_agents, 1)) < 5 / 6
    for t in range(1, steps):
        drawn[t] = np.where(keep[t], drawn[t - 1], drawn[t])
    drawn[steps // 3 :, -(worlds // 4) :, :, :3] = env.num_buckets // 2
    return drawn.astype(np.int32)


def walk(scenario, steps, worlds, seed=0):
    """`(env, before, after, obs, next_state, reward)`: NumPy leaves `[T, B, …]`."""
    env, run = walker(scenario)
    rng = np.random.default_rng(seed)
    with jax.debug_key_reuse(False):
        _, state = jax.jit(env.batch_reset)(jax.random.split(jax.random.key(seed), worlds))
        _, records = run(state, actions(env, rng, steps, worlds))
    return env, *jax.tree.map(np.asarray, records)


@pytest.fixture(scope="module")
def walked():
    return walk("quadrant", STEPS, WORLDS)


def check_invariants(env, before, after):
    """Of every step, leaves `[T, B, …]`."""
    params = env.default_params
    for leaf in jax.tree.leaves(after):
        assert np.isfinite(leaf).all()
    radius, low, high = params.agent_radius, params.border, params.floor - params.border
    x, y, ground = after.position[..., 0], after.position[..., 1], after.height < params.high
    assert (np.minimum(x, y) >= np.where(ground, low + radius - SLOP, 0) - 1e-5).all()
    assert (np.maximum(x, y) <= np.where(ground, high - radius + SLOP, params.floor) + 1e-5).all()
    some = jax.tree.map(lambda leaf: leaf[::5], after)  # what is in a wall stays there for a while
    for w in range(after.walls.shape[-2]):
        wall = [after.walls[..., w, i, None] for i in range(4)]
        assert (depth_of_disc(wall, x, y, radius) < SLOP + 1e-4)[ground].all()
        assert not in_wall(some, params, [part[::5] for part in wall]).any()
    # Nobody is beyond one either: no step is longer than a wall and a body are thick, and none ends in a wall.
    way = np.linalg.norm(after.position - before.position, axis=-1)
    assert way.max() <= 3 * params.max_travel + 1e-5
    assert way.max() > 0.1
    locked = (before.locked_by >= 0) & (after.locked_by >= 0)
    assert locked.any()
    np.testing.assert_array_equal(after.object_position[locked], before.object_position[locked])
    np.testing.assert_array_equal(after.object_heading[locked], before.object_heading[locked])
    np.testing.assert_allclose(np.linalg.norm(after.object_heading, axis=-1), 1, atol=1e-5)
    np.testing.assert_allclose(np.linalg.norm(after.heading, axis=-1), 1, atol=1e-5)


def in_wall(state, params, wall):
    """Whether a point of an object, of 21 x 5 all over it, is more than a centimetre inside a wall."""
    grid = np.stack(np.meshgrid(np.linspace(-1, 1, 21), np.linspace(-1, 1, 5)), -1).reshape(-1, 2)
    local = grid * params.object_size[:, None]  # [O, P, 2]
    cos, sin = state.object_heading[..., None, 0], state.object_heading[..., None, 1]
    x = state.object_position[..., None, 0] + cos * local[..., 0] - sin * local[..., 1]
    y = state.object_position[..., None, 1] + sin * local[..., 0] + cos * local[..., 1]
    inside_x = np.abs(x - wall[0][..., None]) < wall[2][..., None] - 0.01
    return inside_x & (np.abs(y - wall[1][..., None]) < wall[3][..., None] - 0.01)


def test_nobody_gets_through_a_wall_and_what_is_locked_stays(walked):
    env, before, after, *_ = walked
    check_invariants(env, before, after)
    assert (before.held >= 0).any()
    assert np.linalg.norm(after.object_velocity, axis=-1).max() > 0.5


@pytest.mark.slow
@pytest.mark.parametrize("scenario", ["quadrant", "random_walls"])
def test_invariants_for_10000_steps_of_64_worlds(scenario):
    for seed in range(20):
        env, before, after, *_ = walk(scenario, 500, 64, seed)
        check_invariants(env, before, after)


def test_without_pushes_energy_only_falls(walked):
    _, before, after, *_ = walked
    idle = slice(STEPS // 3, None), slice(-(WORLDS // 4), None)
    speed = [np.square(state.velocity).sum(-1)[idle] for state in (before, after)]
    assert (speed[1] <= speed[0] + 1e-6).all()
    assert (np.abs(after.spin) <= np.abs(before.spin) + 1e-6)[idle].all()
    late = slice(STEPS // 3 + 30, STEPS // 3 + 50), idle[1]
    np.testing.assert_allclose(after.velocity[late], 0, atol=1e-3)


def test_lines_of_sight_are_the_same_in_both_directions(walked):
    env, _, after, *_ = walked
    flat = jax.tree.map(lambda leaf: np.moveaxis(leaf.reshape(-1, *leaf.shape[2:]), 0, -1), after)
    agents, params = agents_of(flat), env._kernel_params(None, False)
    rects, walls = objects_of(flat).rect(params), walls_of(flat)
    free = np.asarray(jax.jit(line_of_sight)(agents.x, agents.y, agents.x, agents.y, rects, walls))
    assert 0.2 < free.mean() < 0.9
    np.testing.assert_array_equal(free, np.swapaxes(free, 0, 1))


def test_sight_equals_a_slow_version(walked):
    env, _, after, *_ = walked
    compared = 0
    for t, b in zip(range(0, STEPS, 2), np.arange(0, STEPS, 2) % WORLDS, strict=True):
        state = jax.tree.map(lambda leaf, t=t, b=b: leaf[t, b], after)
        narrow, wide = (sight(state, env.default_params, grow) for grow in (1e-4, -1e-4))
        clear = narrow == wide  # not decided by rounding
        np.testing.assert_array_equal(state.sight[clear], narrow[clear])
        compared += clear.mean() / len(range(0, STEPS, 2))
    assert compared > 0.99
    assert 0.1 < after.sight.mean() < 0.5


def test_what_is_not_seen_is_not_observed(walked):
    env, _, _, obs, state, _ = walked
    num_agents, first = env.num_agents, len(OWN) + env.num_rays
    for i in range(num_agents):
        rows = [(j, len(OTHER)) for j in range(num_agents) if j != i]
        rows += [(num_agents + o, len(OBJECT)) for o in range(env.cast.num_objects)]
        at = first
        for target, size in rows:
            row, seen = obs[..., i, at : at + size], state.sight[..., i, target]
            np.testing.assert_array_equal(row[..., 0], seen)
            assert not row[~seen].any()
            place = np.concatenate([state.position, state.object_position], -2)[..., target, :]
            np.testing.assert_allclose(row[..., 1:3][seen], (place - state.position[..., i, :])[seen], atol=1e-5)
            at += size
        assert at == obs.shape[-1]


def test_rewards_are_those_of_the_rules(walked):
    env, before, after, _, _, reward = walked
    seen = after.sight[..., 2:4, :2].any((-1, -2))
    low, high = env.default_params.border, env.default_params.floor - env.default_params.border
    out = ((after.position < low) | (after.position > high)).any(-1)
    for team, sign in ((slice(0, 2), -1), (slice(2, 4), 1)):
        wanted = np.where(seen, sign, -sign) - 10.0 * out[..., team].sum(-1)
        wanted = np.where(before.step < 20, 0, wanted)
        np.testing.assert_array_equal(reward[..., team], np.stack([wanted, wanted], -1))
    assert seen.any()
    assert not seen.all()
    waiting = before.step < 20
    np.testing.assert_allclose(after.heading[waiting][:, 2:], before.heading[waiting][:, 2:], atol=1e-5)
    assert np.abs(after.heading[waiting][:, :2] - before.heading[waiting][:, :2]).max() > 0.1


def test_lidar_measures_the_distance_to_the_nearest_thing(walked):
    """A point just before the end of a ray is free, a point just behind it is not."""
    env, _, _, obs, state, _ = walked
    params, t, b = env.default_params, STEPS // 2, 0
    rays = obs[t, b, :, len(OWN) : len(OWN) + env.num_rays] * params.lidar_range
    state = jax.tree.map(lambda leaf: jnp.asarray(leaf[t, b]), state)
    rects, walls = objects_of(state).rect(params), walls_of(state)
    for i in np.flatnonzero(state.height < params.high):
        angle = 2 * np.pi * np.arange(env.num_rays) / env.num_rays
        for reach, free in ((rays[i] - 0.01, True), (rays[i] + 0.01, False)):
            x, y = state.position[i, 0] + reach * np.cos(angle), state.position[i, 1] + reach * np.sin(angle)
            hit = (np.minimum(x, y) < params.border) | (np.maximum(x, y) > params.floor - params.border)
            for rect in [rects[o] for o in range(len(rects.x))] + [walls[w] for w in range(len(walls.x))]:
                px, py = rect.local(x, y)
                hit |= (abs(px) < rect.half_x) & (abs(py) < rect.half_y)
            for j in range(env.num_agents):
                if j != i:
                    hit |= np.hypot(x - state.position[j, 0], y - state.position[j, 1]) < params.agent_radius
            assert (np.asarray(hit) != free).mean() > 0.9  # a ray may graze a corner
