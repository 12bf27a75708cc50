"""Squares, circles and rays against slow NumPy versions that look at many points."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxrl.envs.jaxnav import rules

RNG = np.random.default_rng(0)
WALLS = np.ones((7, 9), bool)
WALLS[1:-1, 1:-1] = RNG.random((5, 7)) < 0.3
HALF = 0.25
SIDE = np.linspace(-1, 1, 81)
AROUND = rules.neighbours(jnp.asarray(WALLS))
POINTS = np.stack(np.meshgrid(SIDE, SIDE), -1).reshape(-1, 2)  # of a square of side 2


def is_wall(points):
    x, y = np.floor(points).astype(int).T
    return WALLS[y.clip(0, 6), x.clip(0, 8)]


def turned(points, angle):
    return points @ np.array([[np.cos(angle), np.sin(angle)], [-np.sin(angle), np.cos(angle)]])


def poses(count):
    return RNG.uniform([1, 1], [8, 6], (count, 2)), RNG.uniform(-np.pi, np.pi, count)


def test_squares_hit_walls():
    position, heading = poses(400)
    hits = jax.jit(jax.vmap(rules.hits_wall, (0, 0, None, None)))
    got, grown, shrunk = (
        np.asarray(hits(position.astype(np.float32), heading.astype(np.float32), half, AROUND))
        for half in (HALF, HALF + 0.01, HALF - 0.01)
    )
    slow = np.array([is_wall(p + HALF * turned(POINTS, a)).any() for p, a in zip(position, heading, strict=True)])
    sure = grown == shrunk  # points may miss a corner's tip
    assert sure.mean() > 0.95
    np.testing.assert_array_equal(got[sure], slow[sure])
    assert 0.1 < slow.mean() < 0.9


def test_squares_hit_each_other():
    hits = jax.jit(jax.vmap(rules.hits_robot, (0, 0, None)))
    center = RNG.uniform(0, 1.2, (300, 3, 2))
    angle = RNG.uniform(-np.pi, np.pi, (300, 3))
    got, grown, shrunk = (
        np.asarray(hits(center.astype(np.float32), angle.astype(np.float32), half))
        for half in (HALF, HALF + 0.01, HALF - 0.01)
    )

    def covers(k, i, j):
        """Whether a point of square j lies in square i."""
        points = center[k, j] + HALF * turned(POINTS, angle[k, j])
        return (np.abs(turned(points - center[k, i], -angle[k, i])) <= HALF).all(1).any()

    slow = np.array([[any(covers(k, i, j) for j in range(3) if j != i) for i in range(3)] for k in range(300)])
    sure = grown == shrunk
    assert sure.mean() > 0.95
    np.testing.assert_array_equal(got[sure], slow[sure])
    assert 0.1 < slow.mean() < 0.9


@pytest.mark.parametrize("radius", [0.3, 0.9])
def test_circles_are_free(radius):
    center, _ = poses(300)
    free = jax.jit(jax.vmap(rules.circle_is_free, (0, None, None)))
    got = np.asarray(free(center.astype(np.float32), radius, AROUND))
    disc = radius * POINTS[np.linalg.norm(POINTS, axis=1) <= 1]
    around = radius * np.stack([np.cos(a := np.linspace(0, 2 * np.pi, 720)), np.sin(a)], 1)
    slow = np.array([not is_wall(p + np.concatenate([disc, around])).any() for p in center])
    assert np.mean(got == slow) > 0.98
    assert 0.02 < slow.mean() < 0.98


def test_rays_end_at_walls():
    position, _ = poses(200)
    position = position[~is_wall(position)]
    angle = np.linspace(-np.pi, np.pi, 33).astype(np.float32)  # straight ones among them
    distance = jax.jit(jax.vmap(lambda p: rules.distance_to_walls(p, angle, jnp.asarray(WALLS), 4.0)))
    got = np.asarray(distance(position.astype(np.float32)))
    along = np.linspace(0, 4, 4001)
    way = np.stack([np.cos(angle), np.sin(angle)], -1)[:, None] * along[:, None]
    slow = np.empty_like(got)
    for i, start in enumerate(position):
        hit = is_wall((start + way).reshape(-1, 2)).reshape(len(angle), -1)
        slow[i] = np.where(hit.any(1), along[hit.argmax(1)], 4.0)
    near = np.abs(got - slow) < 2e-3
    assert near.mean() > 0.995  # some rays graze a corner between two points
    assert (got <= slow + 2e-3).all()
    assert 0.01 < (slow == 4.0).mean() < 0.5


def test_rays_end_at_squares():
    start = np.array([0.3, -0.2], np.float32)
    center = RNG.uniform(-3, 3, (20, 2)).astype(np.float32)
    center = center[np.linalg.norm(center - start, axis=1) > 0.5]
    heading = RNG.uniform(-np.pi, np.pi, len(center)).astype(np.float32)
    angle = np.linspace(-np.pi, np.pi, 65).astype(np.float32)
    got = np.asarray(jax.jit(rules.distance_to_squares)(start, angle, center, heading, HALF, 2.5))
    along = np.linspace(0, 2.5, 2501)
    points = start + np.stack([np.cos(angle), np.sin(angle)], -1)[:, None] * along[:, None]
    slow = np.empty_like(got)
    for i, (middle, turn) in enumerate(zip(center, heading, strict=True)):
        inside = (np.abs(turned(points.reshape(-1, 2) - middle, -turn)) <= HALF).all(1).reshape(len(angle), -1)
        slow[i] = np.where(inside.any(1), along[inside.argmax(1)], 2.5)
    assert np.mean(np.abs(got - slow) < 2e-3) > 0.998
    assert (slow < 2.5).any(1).mean() > 0.3


def test_angles_are_wrapped():
    angle = np.linspace(-20, 20, 400).astype(np.float32)
    wrapped = np.asarray(rules.wrapped(angle))
    assert (np.abs(wrapped) <= np.float32(np.pi)).all()
    np.testing.assert_allclose(np.cos(wrapped - angle), 1.0, atol=1e-5)
