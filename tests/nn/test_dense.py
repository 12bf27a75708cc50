"""A dense layer is an affine map, and its gradient that of one."""

from typing import Any

import chex
import jax
import jax.numpy as jnp
import pytest

from jaxrl.nn.dense import Dense
from jaxrl.nn.orthogonal import orthogonal

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
