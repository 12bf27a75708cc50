"""The torso follows from the observation space; a picture's batch axes and its scale are handled."""

import functools
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxrl.nn.encoder import Encoder, Torso, as_floats
from jaxrl.nn.layers import CNN, MLP
from jaxrl.nn.memory import memory_core
from jaxrl.spaces import Box, Discrete, MultiDiscrete, Space

T, B = 2, 3


def observe(space):
    keys = jax.random.split(jax.random.key(1), T * B)
    return jax.vmap(space.sample)(keys).reshape(T, B, *space.shape)


@pytest.mark.parametrize(
    "space",
    [Box(-1.0, 1.0, (5,)), Box(-1.0, 1.0, (5, 2)), Box(-1.0, 1.0, ()), Discrete(4), MultiDiscrete((2, 3))],
    ids=str,
)
def test_what_is_no_picture_becomes_one_vector(space):
    obs = observe(space)
    y, params = jax.jit(Torso(space, (6,)).init_with_output)(jax.random.key(0), obs)
    assert list(params["params"]) == ["MLP_0"]
    if isinstance(space, Discrete):
        flat = np.eye(space.n)[obs]
    elif isinstance(space, MultiDiscrete):
        flat = np.concatenate([np.eye(n)[obs[..., k]] for k, n in enumerate(space.nvec)], -1)
    else:
        flat = np.asarray(obs).reshape(T, B, -1)
    expected: Any = MLP((6,)).apply({"params": params["params"]["MLP_0"]}, jnp.asarray(flat, jnp.float32))
    np.testing.assert_allclose(y, expected, atol=1e-6)


@pytest.mark.parametrize("space", [Discrete(4), MultiDiscrete((2, 3))], ids=str)
def test_whole_numbers_become_float32_in_64_bit_mode_too(space):
    with jax.enable_x64(True):
        y, _ = jax.eval_shape(lambda key: Torso(space, (6,)).init_with_output(key, observe(space)), jax.random.key(0))
    assert y.dtype == np.float32


@pytest.mark.parametrize(
    ("shape", "flattened"),
    [((7, 6, 2), 7 * 6 * 16), pytest.param((84, 84, 1), 7 * 7 * 64, marks=pytest.mark.slow)],
)
def test_pictures_go_through_convolutions_one_by_one(shape, flattened):
    space = Box(-1.0, 1.0, shape)
    obs = observe(space)
    torso = Torso(space, (6,), "relu")
    y, params = jax.jit(torso.init_with_output)(jax.random.key(0), obs)
    assert y.shape == (T, B, 6)
    kernel: Any = params["params"]["MLP_0"]["Dense_0"]["kernel"]
    assert kernel.shape[0] == flattened
    alone: Any = torso.apply(params, obs[1, 2])  # no batch axes at all
    np.testing.assert_allclose(y[1, 2], alone, atol=1e-4)


def test_pictures_of_bytes_are_scaled():
    shape = (5, 5, 1)
    obs = jnp.full(shape, 255, jnp.uint8)
    y, params = jax.jit(Torso(Box(0, 255, shape, np.uint8), (6,)).init_with_output)(jax.random.key(0), obs)
    cnn, mlp = params["params"]["CNN_0"], params["params"]["MLP_0"]
    expected: Any = MLP((6,)).apply({"params": mlp}, CNN("tanh").apply({"params": cnn}, jnp.ones(shape)))
    np.testing.assert_allclose(y, expected, atol=1e-6)


@pytest.mark.parametrize(
    ("space", "x", "wanted"),
    [
        (Box(0, 255, (2,), np.uint8), [0, 255], [0.0, 1.0]),
        (Box(np.array([2, -4]), np.array([12, 4]), (2,), np.int32), [7, -2], [0.5, 0.25]),
        (Box(0, 65535, (1,), np.uint16), [65535], [1.0]),
        (Box(-(2**31), 2**31 - 1, (2,), np.int32), [-3, 700], [-3.0, 700.0]),  # no bounds at all
        (Box(0, 2**31 - 1, (1,), np.int32), [700], [700.0]),
        (Box(5, 5, (1,), np.int32), [5], [5.0]),
        (Box(-2.0, 2.0, (2,)), [-2.0, 1.0], [-2.0, 1.0]),  # floats are as their author wants them
    ],
)
def test_integers_are_scaled_by_their_bounds(space, x, wanted):
    y = as_floats(space, jnp.asarray(x, space.dtype))
    assert y.dtype == jnp.float32
    np.testing.assert_array_equal(y, np.float32(wanted))
    np.testing.assert_array_equal(as_floats(space, y), y)  # once is enough


def test_a_vector_of_bytes_is_scaled():
    space = Box(0, 255, (3,), np.uint8)
    y, params = Torso(space, (6,)).init_with_output(jax.random.key(0), jnp.array([0, 51, 255], jnp.uint8))
    expected: Any = MLP((6,)).apply({"params": params["params"]["MLP_0"]}, jnp.array([0.0, 0.2, 1.0]))
    np.testing.assert_allclose(y, expected, atol=1e-6)


def test_what_else_there_is_to_see_is_appended():
    space, obs, extra = Box(-1.0, 1.0, (3, 2)), jnp.ones((T, B, 3, 2)), jnp.zeros((T, B, 4))
    y, params = Torso(space, (6,)).init_with_output(jax.random.key(0), obs, extra)
    both = jnp.concatenate([obs.reshape(T, B, 6), extra], -1)
    expected: Any = MLP((6,)).apply({"params": params["params"]["MLP_0"]}, both)
    np.testing.assert_allclose(y, expected, atol=1e-6)


def test_observations_of_unknown_kind_are_refused():
    with pytest.raises(TypeError, match="There is no network for observations in"):
        Torso(Space(), (6,)).init(jax.random.key(0), jnp.ones(3))


def test_encoder_takes_a_vector_without_a_space_and_anything_with_one():
    reset = jnp.zeros((T, B), bool)
    _, plain, _ = Encoder((6,)).init_with_output(jax.random.key(0), (), jnp.ones((T, B, 5)), reset)[0]
    _, same, _ = Encoder((6,), space=Box(-1.0, 1.0, (5,))).init_with_output(
        jax.random.key(0), (), jnp.ones((T, B, 5)), reset
    )[0]
    np.testing.assert_array_equal(plain, same)
    space = MultiDiscrete((2, 3))
    carry = jnp.zeros((B, 4))
    (carry, y, _), _ = Encoder((6,), "tanh", memory_core("gru", 4, 1), space).init_with_output(
        jax.random.key(0), carry, observe(space), reset
    )
    assert y.shape == (T, B, 4)
    assert carry.shape == (B, 4)


class Doubled(nn.Module):
    """A network of somebody's own: no parameters, so that what it gets can be seen."""

    pictures: bool = False

    @nn.compact
    def __call__(self, x):
        return 2 * (x.reshape(*x.shape[:-3], -1) if self.pictures else x)


class Flattening(nn.Module):
    """Takes the first axis for the batch, where there may be several."""

    @nn.compact
    def __call__(self, x):
        return nn.Dense(4)(x.reshape(x.shape[0], -1))


class Averaging(nn.Module):
    """Loses the batch."""

    @nn.compact
    def __call__(self, x):
        return x.mean(0)


class Pair(nn.Module):
    """Returns features and something else."""

    @nn.compact
    def __call__(self, x):
        return x, x


class Dropping(nn.Module):
    """Needs random numbers."""

    @nn.compact
    def __call__(self, x):
        return nn.Dropout(0.5, deterministic=False)(x)


class Counting(nn.Module):
    """Keeps statistics of what it sees."""

    @nn.compact
    def __call__(self, x):
        return nn.BatchNorm(use_running_average=False)(x)


class Rounding(nn.Module):
    """Has no gradient."""

    @nn.compact
    def __call__(self, x):
        return nn.Dense(4)(x).astype(jnp.int32)


@pytest.mark.parametrize(
    ("space", "obs", "expected"),
    [
        (Box(-1.0, 1.0, (2, 3)), jnp.ones((5, 2, 3)), np.full((5, 6), 2.0)),  # flattened
        (
            Box(0, 255, (4, 4, 1), np.uint8),
            jnp.full((5, 4, 4, 1), 255, jnp.uint8),
            np.full((5, 16), 2.0),
        ),  # scaled
        (Discrete(3), jnp.array([1]), [[0.0, 2.0, 0.0]]),
    ],
)
def test_a_network_of_ones_own_gets_vectors_or_pictures_of_floats(space, obs, expected):
    network = functools.partial(Doubled, pictures=len(space.shape) == 3)
    y, variables = Torso(space, (6,), network=network).init_with_output(jax.random.key(0), obs)
    np.testing.assert_array_equal(y, expected)
    assert not jax.tree.leaves(variables)


@pytest.mark.parametrize(
    ("network", "sentence"),
    [
        (
            Flattening,
            r"Flattening must map vectors .* write x\.reshape\(\*x\.shape\[:-1\], -1\)\. .*\[5, 7, 3\]",
        ),
        (Averaging, r"Averaging must map .* It makes \[3\] of \[5, 3\]\."),
        (Pair, r"Pair must map .* It returns a tuple\."),
        (Dropping, "Dropping needs random numbers, .*leave such layers out; nn.LayerNorm"),
        (Counting, "Counting needs random numbers, or changes a variable .*nn.BatchNorm do: leave such layers out"),
        (Rounding, "Rounding must map .* It makes int32, through which nothing is learned; make floats"),
    ],
)
def test_a_network_of_ones_own_that_does_not_fit_gets_a_sentence(network, sentence):
    torso = Torso(Box(-1.0, 1.0, (3,)), (6,), network=network)
    with pytest.raises((ValueError, TypeError), match=sentence):  # noqa: PT012  which of the two calls is Flax's affair
        variables = torso.init(jax.random.key(0), jnp.ones((5, 3)))
        torso.apply(variables, jnp.ones((5, 7, 3)))


def test_layer_norm_comes_before_the_activation():
    x = jax.random.normal(jax.random.key(0), (7, 5))
    y, variables = MLP((6,), "relu", layer_norm=True).init_with_output(jax.random.key(1), x)
    kernel: Any = variables["params"]["Dense_0"]["kernel"]
    before = x @ kernel
    centred = before - before.mean(-1, keepdims=True)
    np.testing.assert_allclose(y, nn.relu(centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-6)), atol=1e-5)


def test_channels_of_convolutions():
    small, large = (jnp.ones((2, side, side, 3)) for side in (10, 84))

    def kernels(x, channels):
        shapes = jax.eval_shape(lambda: CNN("relu", channels).init(jax.random.key(0), x))
        return [layer["kernel"].shape for layer in shapes["params"].values()]

    assert kernels(small, (4,)) == [(3, 3, 3, 4)]
    assert kernels(large, (4, 5, 6)) == [(8, 8, 3, 4), (4, 4, 4, 5), (3, 3, 5, 6)]
    with pytest.raises(ValueError, match="need 3 numbers of channels, got"):
        kernels(large, (4, 5))
