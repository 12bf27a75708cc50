"""Whether a door is blocked: beside a slow search for a way through it."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxrl
from jaxrl.envs.hide_and_seek.layouts import start
from jaxrl.envs.hide_and_seek.rules import doors_blocked
from jaxrl.envs.hide_and_seek.world import Params, State

B, CELL = 192, 0.01


def rooms(door_width: float) -> tuple[State, Params]:
    """Rooms of every direction. A box lies anywhere close to the open door, at any angle, and another farther away."""
    env = jaxrl.make("hide_and_seek/room?num_boxes=2")
    params = dataclasses.replace(env._kernel_params(None, False), door_width=np.float32(door_width))
    state = jax.jit(lambda keys: start(keys, env.layout, env.cast, params))(jax.random.split(jax.random.key(0), B))
    rng = np.random.default_rng(0)
    doors = np.asarray(state.doors)
    door = doors[doors[:, 2].argmax(0), :2, np.arange(B)]
    place, heading = np.asarray(state.object_position).copy(), np.asarray(state.object_heading).copy()
    for box, reach in ((0, 0.5), (1, 1.5)):
        angle = rng.uniform(0, 2 * np.pi, B)
        place[box] = (door + rng.uniform(-reach, reach, (B, 2))).T
        heading[box] = np.stack([np.cos(angle), np.sin(angle)])
    return dataclasses.replace(state, object_position=jnp.asarray(place), object_heading=jnp.asarray(heading)), params


def distance(x: np.ndarray, y: np.ndarray, rect: np.ndarray, heading: np.ndarray) -> np.ndarray:
    """From points to a rectangle (centre, half sizes)."""
    dx, dy = x - rect[0], y - rect[1]
    own_x, own_y = heading[0] * dx + heading[1] * dy, heading[0] * dy - heading[1] * dx
    return np.hypot(np.maximum(abs(own_x) - rect[2], 0), np.maximum(abs(own_y) - rect[3], 0))


def passable(state: State, params: Params, world: int) -> bool:
    """Whether a centre gets from one side of the open door to the other, in steps of a centimetre."""
    doors = np.asarray(state.doors)[..., world]
    door = doors[doors[:, 2].argmax()]
    grid = np.arange(-60, 61) * CELL
    x, y = np.meshgrid(door[0] + grid, door[1] + grid, indexing="ij")
    low, high = params.border + params.agent_radius, params.floor - params.border - params.agent_radius
    free = (low < x) & (x < high) & (low < y) & (y < high)
    for wall in np.asarray(state.walls)[..., world]:
        free &= distance(x, y, wall, np.array([1.0, 0.0])) > params.agent_radius
    walls_alone = free.copy()
    for place, heading in zip(
        np.asarray(state.object_position)[..., world], np.asarray(state.object_heading)[..., world], strict=True
    ):
        free &= distance(x, y, np.array([*place, 0.25, 0.25]), heading) > params.agent_radius
    upright = not walls_alone[60, 20]  # its wall is above and below it
    before = np.zeros_like(free)
    before[(slice(0, 20), slice(None)) if upright else (slice(None), slice(0, 20))] = True
    reached = before & free
    while True:
        wider = reached.copy()
        for axis in (0, 1):
            for by in (1, -1):
                moved = np.roll(reached, by, axis)
                moved[(slice(None),) * axis + ((0,) if by == 1 else (-1,))] = False
                wider |= moved
        wider &= free
        if (wider == reached).all():
            return bool(reached[101:].any() if upright else reached[:, 101:].any())
        reached = wider


@pytest.mark.parametrize("door_width", [0.4, pytest.param(0.7, marks=pytest.mark.slow)])
def test_a_blocked_door_has_no_way_through(door_width: float):
    state, params = rooms(door_width)
    blocked = np.asarray(jax.jit(doors_blocked)(state, params)) > 0
    free = np.array([passable(state, params, world) for world in range(B)])
    assert 0.1 < blocked.mean() < 0.9
    assert (blocked & free).sum() <= 1, "there is a way through doors that count as blocked"  # one has a crack of 1 mm
    assert (blocked == ~free).mean() > 0.93


def test_no_agent_gets_through_a_door_that_is_narrower():
    state, params = rooms(0.25)
    np.testing.assert_array_equal(jax.jit(doors_blocked)(state, params), 1)


def test_each_world_has_its_own_door():
    """Parameters with a batch axis give what each world gives alone."""
    state, params = rooms(0.4)
    wide = dataclasses.replace(params, door_width=jnp.where(jnp.arange(B) % 2 == 0, 0.4, 1.6))
    blocked = np.asarray(jax.jit(doors_blocked)(state, params))
    mixed = np.asarray(jax.jit(doors_blocked)(state, wide))
    np.testing.assert_array_equal(mixed[::2], blocked[::2])
    assert mixed[1::2].sum() < blocked[1::2].sum()


def test_without_doors_nothing_is_blocked():
    env = jaxrl.make("hide_and_seek/chase")
    params = env._kernel_params(None, False)
    state = jax.jit(lambda keys: start(keys, env.layout, env.cast, params))(jax.random.split(jax.random.key(0), 3))
    np.testing.assert_array_equal(jax.jit(doors_blocked)(state, params), 0)
