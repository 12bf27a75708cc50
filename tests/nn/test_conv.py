"""On a CPU a convolution is a matrix product: the same values, gradients and parameters as Flax's."""

from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxrl.nn.conv import Conv, convolution
from jaxrl.nn.orthogonal import orthogonal

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
