"""Spaces: samples lie inside, membership is exact, and clipping is defined for everything."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxrl.spaces import Box, Discrete, MultiDiscrete, check_action

SPACES = [
    Discrete(1),
    Discrete(5),
    MultiDiscrete((2, 3, 4)),
    Box(-1.0, 2.0, (3,)),
    Box(-np.inf, np.inf, (2,)),
    Box(0.0, np.inf, ()),
    Box(np.array([-1.0, 0.0], np.float32), np.array([0.0, np.inf], np.float32), (2,)),
    Box(0, 255, (4, 4, 3), np.uint8),
    Box(0, 1, (4, 4), bool),
    Box(0, np.inf, (2,), np.int32),
    Box(np.array([-np.inf, 2]), np.array([7, np.inf]), (2,), np.int8),
]


@pytest.mark.quick
@pytest.mark.parametrize("space", SPACES, ids=str)
def test_samples_lie_inside(space):
    samples = jax.vmap(space.sample)(jax.random.split(jax.random.key(0), 200))
    assert samples.shape == (200, *space.shape)
    assert samples.dtype == space.dtype
    assert jax.jit(jax.vmap(space.contains))(samples).all()


@pytest.mark.parametrize("space", SPACES, ids=str)
def test_types_do_not_depend_on_x64(space):
    with jax.enable_x64(True):
        sample = space.sample(jax.random.key(0))
        assert sample.dtype == space.dtype
        assert space.clip(sample).dtype == space.dtype


def test_every_element_is_drawn_equally_often():
    draws = jax.vmap(MultiDiscrete((2, 3)).sample)(jax.random.split(jax.random.key(0), 6000))
    for column, n in ((draws[:, 0], 2), (draws[:, 1], 3)):
        np.testing.assert_allclose(np.bincount(column, minlength=n) / 6000, 1 / n, atol=0.03)
    pixels = Box(0, 3, (4000,), np.uint8).sample(jax.random.key(1))
    np.testing.assert_allclose(np.bincount(pixels, minlength=4) / 4000, 1 / 4, atol=0.03)
    flags = Box(0, 1, (4000,), bool).sample(jax.random.key(2))
    np.testing.assert_allclose(flags.mean(), 1 / 2, atol=0.03)


@pytest.mark.parametrize(
    ("dtype", "low", "high"),
    [(np.uint32, 0, 2**32 - 1), (np.int32, -(2**31), 2**31 - 1), (np.int32, -np.inf, np.inf), (np.uint32, 1, 2**31)],
)
def test_whole_numbers_of_32_bits_are_drawn_from_all_of_their_range(dtype, low, high):
    with jax.debug_key_reuse(True):
        draws = np.asarray(Box(low, high, (20_000,), dtype).sample(jax.random.key(0)), np.float64)
    low, high = max(low, -(2.0**31)), min(high, 2.0**32)
    high = 2.0**31 if dtype == np.int32 else high
    counts, _ = np.histogram(draws, 8, (low, high))
    np.testing.assert_allclose(counts / len(draws), 1 / 8, atol=0.01)


@pytest.mark.parametrize(
    ("space", "x", "inside"),
    [
        (Discrete(3), 2, True),
        (Discrete(3), 3, False),
        (Discrete(3), -1, False),
        (Discrete(3), 1.0, False),  # not an integer
        (Discrete(3), [1], False),  # not a scalar
        (MultiDiscrete((2, 3)), [1, 2], True),
        (MultiDiscrete((2, 3)), [2, 1], False),
        (MultiDiscrete((2, 3)), [1], False),
        (Box(0.0, 1.0, (2,)), [0.0, 1.0], True),
        (Box(0.0, 1.0, (2,)), [0.0, 1.1], False),
        (Box(0.0, 1.0, (2,)), [0.0, np.nan], False),
        (Box(0.0, 1.0, (2,)), [0.5], False),
    ],
)
def test_contains(space, x, inside):
    assert bool(space.contains(x)) == inside
    assert bool(jax.jit(space.contains)(jnp.asarray(x))) == inside


@pytest.mark.parametrize(
    ("space", "x", "nearest"),
    [
        (Discrete(3), -1, 0),
        (Discrete(3), 7, 2),
        (Discrete(3), 2**31 - 1, 2),
        (Discrete(3), np.nan, 0),
        (Discrete(3), np.inf, 2),
        (Discrete(300), np.uint8(200), 200),  # 299 does not fit into eight bits
        (Discrete(300), np.int8(-3), 0),
        (Discrete(3), 1.7, 2),
        (MultiDiscrete((2, 3)), [9, -9], [1, 0]),
        (MultiDiscrete((2, 3)), [0.4, 1.6], [0, 2]),
        (Box(-1.0, 1.0, (3,)), [np.nan, np.inf, -1e30], [-1.0, 1.0, -1.0]),
        (Box(0, 255, (2,), np.uint8), [-3.0, np.nan], [0, 0]),
        (Box(0, 255, (2,), np.uint8), [300, 7], [255, 7]),
        (Box(0, 255, (2,), np.uint8), [254.9, 255.6], [255, 255]),
        (Box(-3, 3, (4,), np.int32), [-2.9, -0.9, 0.4, 2.6], [-3, -1, 0, 3]),
        (Box(0, 1, (2,), bool), [0.3, 0.8], [False, True]),
    ],
)
def test_clip_gives_the_nearest_element(space, x, nearest):
    clipped = space.clip(x)
    np.testing.assert_array_equal(clipped, nearest)
    assert clipped.dtype == space.dtype
    assert space.contains(clipped)


def test_clip_of_nan_without_lower_bound_is_finite():
    assert np.isfinite(Box(-np.inf, np.inf, ()).clip(np.nan))


def test_clip_keeps_leading_axes():
    """So that one call serves all agents, or a batch."""
    np.testing.assert_array_equal(Discrete(2).clip(jnp.array([[5, -1], [0, 1]])), [[1, 0], [0, 1]])
    assert MultiDiscrete((2, 3)).clip(jnp.full((4, 2), 9)).tolist() == [[1, 2]] * 4


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Discrete(0), "at least one element, got n=0"),
        (lambda: Discrete(2.5), "whole number"),  # pyright: ignore[reportArgumentType]
        (lambda: MultiDiscrete(()), "positive counts"),
        (lambda: MultiDiscrete((2, 0)), "positive counts"),
        (lambda: Box(1.0, 0.0, (2,)), "low <= high"),
        (lambda: Box(np.nan, 1.0, (2,)), "low <= high"),
        (lambda: Box(np.zeros(3), 1.0, (2,)), r"shape \(3,\) does not fit"),
        (lambda: Box(0.0, 1.0, 2), r"is a tuple; give \(2,\)"),  # pyright: ignore[reportArgumentType]
    ],
)
def test_senseless_spaces_are_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_bounds_that_jax_traces_are_told():
    """`action_space` is called while a step is traced, where jnp.array makes no constant."""
    with pytest.raises(TypeError, match="bounds are NumPy arrays"):
        jax.eval_shape(lambda: Box(jnp.array([-1.0, 0.0]), 1.0, (2,)).sample(jax.random.key(0)))


def test_equal_boxes_are_equal_however_written():
    a: Any = Box(0.0, 1.0, (2,))
    assert a == Box(np.zeros(2), np.ones(2), (2,))
    assert hash(a) == hash(Box(np.zeros(2), np.ones(2), (2,)))
    assert a != Box(0.0, 2.0, (2,))
    assert a != Box(0.0, 1.0, (2,), np.float64)


@pytest.mark.parametrize(
    ("action", "space", "counts", "array"),
    [
        (1, Discrete(3), {}, 1),
        ([0, 1], Discrete(3), {"environments": 2}, [0, 1]),
        (0.5, Box(-1.0, 1.0, (1,)), {}, [0.5]),
        ([0.5, -0.5], Box(-1.0, 1.0, (1,)), {"agents": 2}, [[0.5], [-0.5]]),
        ([[1], [2]], MultiDiscrete((3, 3)), {"environments": 2}, [[1, 1], [2, 2]]),
    ],
)
def test_actions_become_one_array_of_their_space(action: Any, space: Any, counts: dict[str, int], array: Any):
    checked = check_action(action, space, "step", **counts)
    assert isinstance(checked, jax.Array)
    assert checked.tolist() == array


@pytest.mark.parametrize("action", ["left", ["left", "right"], [[0], [0, 1]]])
def test_actions_are_numbers(action: Any):
    with pytest.raises(TypeError, match=r"step takes one array of the shape \[2\] \(2 environments\), of numbers, not"):
        check_action(action, Discrete(3), "step", environments=2)
