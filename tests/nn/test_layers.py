"""Layers are the maps that they are named for, their gradients included, and initial weights are as in their papers."""

from __future__ import annotations

from typing import Any

import chex
import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxrl.nn.layers import Conv, Dense, convolution, orthogonal, sparse_kernels, sparse_uniform

D = 8


@pytest.mark.parametrize("features", [1, 2, D], ids=["one", "narrow", "wide"])
def test_values_and_gradients_equal_those_of_a_product(features):
    layer = Dense(features, kernel_init=orthogonal())
    x = jax.random.normal(jax.random.key(0), (3, 5, D))
    params = jax.jit(layer.init)(jax.random.key(1), x)["params"]

    def loss(params, x):
        y: Any = layer.apply({"params": params}, x)
        return jnp.sum(jnp.sin(y))

    def plain(params, x):
        return jnp.sum(jnp.sin(jnp.einsum("tbd,df->tbf", x, params["kernel"]) + params["bias"]))

    got, expected = (jax.jit(jax.value_and_grad(f, argnums=(0, 1)))(params, x) for f in (loss, plain))
    chex.assert_trees_all_close(got, expected, atol=1e-5)


@pytest.mark.parametrize("shape", [(8, 8), (75, 64), (64, 9), (5, 40), (3, 3, 4, 16)])
def test_the_fewer_of_rows_and_columns_are_orthonormal_times_the_scale(shape):
    matrix = np.asarray(orthogonal(2.0)(jax.random.key(0), shape)).reshape(-1, shape[-1]) / 2.0
    product = matrix.T @ matrix if matrix.shape[0] >= matrix.shape[1] else matrix @ matrix.T
    np.testing.assert_allclose(product, np.eye(len(product)), atol=1e-5)


def test_all_orthogonal_matrices_are_equally_likely():
    """The mean of every entry of a uniformly random orthogonal matrix is 0, of its square 1 / n."""
    matrices = np.asarray(jax.vmap(lambda key: orthogonal()(key, (4, 4)))(jax.random.split(jax.random.key(1), 4000)))
    np.testing.assert_allclose(matrices.mean(0), 0.0, atol=4 * 0.5 / np.sqrt(4000))
    np.testing.assert_allclose(np.square(matrices).mean(0), 0.25, atol=0.02)


def test_no_lapack_is_called():
    """Batched calls of LAPACK can wait for each other for ever."""
    program = jax.jit(jax.vmap(lambda key: orthogonal()(key, (8, 8)))).lower(jax.random.split(jax.random.key(0), 3))
    assert "custom_call" not in program.as_text()


R, C, FEATURES = 3, 2, 5


def values_and_gradients(function, kernel, bias, x):
    def loss(kernel, bias, x):
        y: Any = function(kernel, bias, x)
        return jnp.sum(jnp.sin(y)), y

    (_, y), gradients = jax.value_and_grad(loss, argnums=(0, 1, 2), has_aux=True)(kernel, bias, x)
    return y, gradients


@pytest.mark.parametrize(
    ("height", "width", "size", "stride", "padding"),
    [
        (7, 6, 3, 1, "SAME"),  # grids
        (2, 1, 3, 1, "SAME"),  # smaller than the kernel
        (36, 37, 8, 4, "VALID"),  # screens: the last column has no place
        (9, 10, 4, 2, "VALID"),
        (5, 4, 3, 1, "VALID"),
        (7, 6, 3, 2, "SAME"),  # the stride does not divide the kernel
        (7, 8, 2, 3, "SAME"),  # nor is it smaller
    ],
)
def test_values_and_gradients_equal_those_of_flax(height, width, size, stride, padding):
    x = jax.random.normal(jax.random.key(0), (R, height, width, C))
    ours, theirs = Conv(FEATURES, size, stride, padding, orthogonal()), nn.Conv(FEATURES, (size, size), stride, padding)
    kernel, bias = jax.random.normal(jax.random.key(1), (size, size, C, FEATURES)) / size, jnp.arange(0.0, FEATURES)

    def module(layer):
        return lambda kernel, bias, x: layer.apply({"params": {"kernel": kernel, "bias": bias}}, x)

    def of_xla(kernel, bias, x):  # what other platforms run
        return convolution(x, kernel, stride, padding) + bias

    @jax.jit
    def all_three(kernel, bias, x):
        return [values_and_gradients(f, kernel, bias, x) for f in (module(theirs), module(ours), of_xla)]

    expected, *got = all_three(kernel, bias, x)
    for one in got:
        jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5), one, expected)


def test_parameters_have_the_names_and_shapes_of_flax():
    x = jnp.zeros((R, 7, 6, C))
    theirs, ours = (
        jax.eval_shape(layer.init, jax.random.key(0), x)
        for layer in (nn.Conv(FEATURES, (3, 3)), Conv(FEATURES, 3, 1, "SAME", orthogonal()))
    )
    assert ours == theirs


def test_the_cpu_computes_no_convolution():
    """Neither forward nor backward: within a loop it would take many times as long."""

    def loss(params, x):
        y: Any = layer.apply(params, x)
        return jnp.sum(y**2)

    layer, x = Conv(FEATURES, 3, 1, "SAME", orthogonal()), jnp.ones((R, 7, 6, C))
    params = jax.jit(layer.init)(jax.random.key(0), x)
    lowered = jax.jit(jax.grad(loss, argnums=(0, 1))).trace(params, x).lower(lowering_platforms=("cpu",))
    assert "stablehlo.convolution" not in lowered.as_text()
    lowered = jax.jit(jax.grad(loss, argnums=(0, 1))).trace(params, x).lower(lowering_platforms=("cuda",))
    assert "stablehlo.convolution" in lowered.as_text()


@pytest.mark.parametrize(
    ("shape", "sparsity", "kept"),
    [
        ((64, 5), 0.9, 6),  # 57.6 zeros are 58
        ((70, 5), 0.9, 7),  # 63 zeros are 63, though 0.9 * 70 > 63
        ((3, 3, 4, 5), 0.9, 3),  # 36 inputs for each channel of a convolution
        ((4, 5), 0.9, 1),  # none would remain
        ((8, 5), 0.0, 8),
    ],
)
def test_each_feature_keeps_few_inputs(shape, sparsity, kept):
    kernel = np.asarray(sparse_uniform(jax.random.key(0), shape, sparsity)).reshape(-1, shape[-1])
    np.testing.assert_array_equal((kernel != 0).sum(0), kept)
    assert np.abs(kernel).max() <= 1 / np.sqrt(len(kernel))


def test_which_inputs_they_are_and_their_weights_are_uniform():
    kernel = np.asarray(sparse_uniform(jax.random.key(0), (10, 20_000), 0.8))
    np.testing.assert_allclose((kernel != 0).mean(1), 0.2, atol=0.02)
    weights = kernel[kernel != 0] * np.sqrt(10)
    np.testing.assert_allclose(np.quantile(weights, [0.25, 0.5, 0.75]), [-0.5, 0.0, 0.5], atol=0.02)


def test_only_kernels_are_drawn_and_each_by_itself():
    ones = {"a": {"kernel": np.ones((8, 8)), "bias": np.ones(8)}, "b": {"kernel": np.ones((8, 8))}}
    drawn = sparse_kernels(jax.random.key(0), ones, 0.5)
    np.testing.assert_array_equal(drawn["a"]["bias"], 1.0)
    assert np.any(drawn["a"]["kernel"] != drawn["b"]["kernel"])
