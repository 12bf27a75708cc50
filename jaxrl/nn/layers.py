"""The layers that all networks here consist of, their initial weights, and the stacks MLP and CNN.

On a CPU a convolution is a matrix product.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Literal

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np

__all__ = [
    "ACTIVATIONS",
    "CNN",
    "MLP",
    "Conv",
    "Dense",
    "convolution",
    "narrow_product",
    "on_rows",
    "orthogonal",
    "patch_product",
    "sparse_kernels",
    "sparse_uniform",
    "weights",
]


def weights(module: nn.Module, name: str, init: Callable[..., Any], shape: tuple[int, ...]) -> jax.Array:
    """The parameter `name` of `module`, initialised by `init(key, shape, jnp.float32)`.

    `module.param` traces `init` whenever the network is applied, to compare shapes; that took a fifth of the time to
    trace an update.
    """
    initializing = module.is_initializing()
    return module.param(name, init, shape, jnp.float32) if initializing else module.get_variable("params", name)


class Dense(nn.Module):
    """Maps `[..., D]` to `[..., features]` by one matrix product.

    All leading axes are first flattened into rows. Otherwise, XLA on a CPU would compute the weights' gradient as a
    contraction over several axes, which is about 1.7 times slower (measured at 3,072 rows, 75 to 64 features).
    """

    features: int
    kernel_init: Callable[..., Any]
    use_bias: bool = True

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        kernel = weights(self, "kernel", self.kernel_init, (x.shape[-1], self.features))
        product = narrow_product if 1 < self.features <= x.shape[-1] // 4 else jnp.matmul
        y = product(x.reshape(-1, x.shape[-1]), kernel)
        if self.use_bias:
            y = y + weights(self, "bias", nn.initializers.zeros_init(), (self.features,))
        return y.reshape(*x.shape[:-1], self.features)


def on_rows(layer: Callable[[jax.Array], jax.Array], x: jax.Array) -> jax.Array:
    """`layer(x)` for a layer that treats all rows of `x[..., D]` alike, with the leading axes flattened meanwhile.

    For a `LayerNorm` that matters: with several axes, XLA on a CPU takes ten times as long for it and its gradient (0.4
    instead of 0.04 ms in a network of two layers of 256 features with 128 rows).
    """
    y = layer(x.reshape(-1, x.shape[-1]))
    return y.reshape(*x.shape[:-1], y.shape[-1])


@jax.custom_vjp
def narrow_product(x: jax.Array, kernel: jax.Array) -> jax.Array:
    """`x @ kernel` for a kernel with far fewer columns than rows.

    The gradient is computed transposed, which is six times faster on a CPU (3,072 rows, 64 to 8 features).
    """
    return x @ kernel


def _forward(x: jax.Array, kernel: jax.Array) -> tuple[jax.Array, tuple[jax.Array, jax.Array]]:
    return x @ kernel, (x, kernel)


def _backward(saved: tuple[jax.Array, jax.Array], dy: jax.Array) -> tuple[jax.Array, jax.Array]:
    x, kernel = saved
    return dy @ kernel.T, jax.lax.optimization_barrier(dy.T @ x).T  # or XLA transposes it back


narrow_product.defvjp(_forward, _backward)


def orthogonal(scale: float = 1.0) -> Callable[..., jax.Array]:
    """An initialiser `(key, shape, dtype)` that returns `scale` times a uniformly random orthogonal matrix.

    Saxe et al. 2014 (https://arxiv.org/abs/1312.6120), without LAPACK: `flax.linen.initializers.orthogonal` calls its
    QR, which under `vmap`, as in training several seeds, splits each batch among XLA's CPU threads and waits. When as
    many calls run at once as there are threads, none is left to do the work, and the program hangs (seen with jaxlib
    0.10.2 on two cores).

    All axes but the last are flattened into rows; rows or columns, whichever are fewer, are orthonormal.
    """

    def init(key: jax.Array, shape: Sequence[int], dtype: Any = jnp.float32) -> jax.Array:
        rows, columns = math.prod(shape[:-1]), shape[-1]
        normal = jax.random.normal(key, (max(rows, columns), min(rows, columns)), dtype)
        matrix = _gram_schmidt(normal)
        return float(scale) * (matrix if rows >= columns else matrix.T).reshape(shape)

    return init


def _gram_schmidt(matrix: jax.Array) -> jax.Array:
    """Make the columns of `matrix[R, C]`, R >= C, orthonormal one after another.

    Each is projected twice, which suffices for float32 (Giraud et al. 2005, https://doi.org/10.1007/s00211-005-0615-4).
    """

    def step(i: jax.Array, done: jax.Array) -> jax.Array:
        column = matrix[:, i]
        for _ in range(2):
            column = column - done @ (done.T @ column)
        return done.at[:, i].set(column / jnp.linalg.norm(column))

    return jax.lax.fori_loop(0, matrix.shape[1], step, jnp.zeros_like(matrix))


Padding = Literal["SAME", "VALID"]


class Conv(nn.Module):
    """Maps pictures `[R, height, width, C]` to `[R, height', width', features]`, as `flax.linen.Conv` does.

    The parameters have Flax's names and shapes: `kernel[size, size, C, features]` and `bias[features]`.

    Within a loop, XLA on a CPU computes the gradients of a convolution by plain loops on one core, so that they take
    most of the time of an update (measured by baselines/speed/pictures.py). Accelerators have kernels for convolutions,
    which need no memory for patches.
    """

    features: int
    size: int
    stride: int
    padding: Padding
    kernel_init: Callable[..., Any]

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        kernel = weights(self, "kernel", self.kernel_init, (self.size, self.size, x.shape[-1], self.features))
        bias = weights(self, "bias", nn.initializers.zeros_init(), (self.features,))
        on_cpu, elsewhere = (
            partial(function, stride=self.stride, padding=self.padding) for function in (patch_product, convolution)
        )
        return jax.lax.platform_dependent(x, kernel, cpu=on_cpu, default=elsewhere) + bias


def convolution(x: jax.Array, kernel: jax.Array, stride: int, padding: Padding) -> jax.Array:
    """XLA's convolution of `x[R, height, width, C]` with `kernel[size, size, C, F]`."""
    layout = ("NHWC", "HWIO", "NHWC")
    return jax.lax.conv_general_dilated(x, kernel, (stride, stride), padding, dimension_numbers=layout)


def patch_product(x: jax.Array, kernel: jax.Array, stride: int, padding: Padding) -> jax.Array:
    """The same as `convolution` by one product of the patches `[R height' width', size size C]` and the kernel.

    A convolution with a stride is one without over blocks of `stride` x `stride` pixels, which count as channels. Its
    patches are slices without gaps; the gradient of slices with gaps takes over ten times as long (measured with the
    8 x 8 kernel and the stride 4 of the first layer for pictures of 84 x 84 pixels).
    """
    size, _, channels, num_features = kernel.shape
    side = -(-size // stride)  # of the kernel, in blocks; zeros complete the last one
    spans = [_span(length, size, stride, padding) for length in x.shape[1:3]]
    edges = [
        (before, (places - 1 + side) * stride - before - length, 0)  # negative where pixels are left over
        for (places, before), length in zip(spans, x.shape[1:3], strict=True)
    ]
    (height, _), (width, _) = spans
    x = _blocks(jax.lax.pad(x, np.zeros((), x.dtype), [(0, 0, 0), *edges, (0, 0, 0)]), stride)

    def shifted(i: int, j: int) -> jax.Array:  # brackets would gather where the number of rows is a symbol
        return jax.lax.slice(x, (0, i, j, 0), (x.shape[0], i + height, j + width, x.shape[3]))

    patches = jnp.stack([shifted(i, j) for i in range(side) for j in range(side)], axis=3)

    missing = (0, side * stride - size)
    kernel = jnp.pad(kernel.reshape(1, size, size, channels * num_features), ((0, 0), missing, missing, (0, 0)))
    kernel = _blocks(kernel, stride).reshape(-1, num_features)
    return narrow_product(patches.reshape(-1, len(kernel)), kernel).reshape(-1, height, width, num_features)


def _span(length: int, size: int, stride: int, padding: Padding) -> tuple[int, int]:
    """The number of places for the kernel along an axis of `length` pixels, and the zeros that precede the axis.

    The places are those that `padding` gives in Flax and TensorFlow.
    """
    if padding == "VALID":
        return (length - size) // stride + 1, 0
    out = -(-length // stride)
    return out, max((out - 1) * stride + size - length, 0) // 2


def _blocks(x: jax.Array, side: int) -> jax.Array:
    """Blocks of `side` x `side` pixels as single pixels: `[R, H, W, C]` to `[R, H / side, W / side, side side C]`."""
    rows, height, width, channels = x.shape
    x = x.reshape(rows, height // side, side, width // side, side * channels)
    return x.swapaxes(2, 3).reshape(rows, height // side, width // side, side * side * channels)


ACTIVATIONS = {"relu": nn.relu, "tanh": nn.tanh, "silu": nn.silu, "gelu": nn.gelu, "leaky_relu": nn.leaky_relu}

# (features, kernel, stride) of each layer. The first is from Mnih et al. 2015 (https://doi.org/10.1038/nature14236).
# Pictures too small for it are grids, where every cell matters; for those, Young and Tian 2019
# (https://arxiv.org/abs/1903.03176) have a single layer, a fifth of the work of two with 16 and 32 features.
_SCREEN = ((32, 8, 4), (64, 4, 2), (64, 3, 1))
_GRID = ((16, 3, 1),)


class MLP(nn.Module):
    """Dense layers, each followed by the activation: `[..., D]` to `[..., sizes[-1]]` (orthogonal initial weights).

    With `layer_norm` each layer's output is normalised before the activation (Ba et al. 2016,
    https://arxiv.org/abs/1607.06450).
    """

    sizes: tuple[int, ...]
    activation: str = "tanh"
    layer_norm: bool = False

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        for size in self.sizes:
            x = Dense(size, kernel_init=orthogonal(np.sqrt(2)))(x)
            x = on_rows(nn.LayerNorm(), x) if self.layer_norm else x
            x = ACTIVATIONS[self.activation](x)
        return x


class CNN(nn.Module):
    """Convolutions over pictures, flattened: `[..., height, width, channels]` to `[..., D]`.

    From 36 x 36 pixels on, three layers with strides; below, 3 x 3 kernels that keep every cell. `layer_norm` is over
    all cells and channels, see `MLP`.

    Raises:
        ValueError: Large pictures are given, and another number of channels than three.
    """

    activation: str = "relu"
    channels: tuple[int, ...] = ()
    """Features of each layer; () means 32, 64, 64 for large pictures and 16 for small ones."""
    layer_norm: bool = False

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        rows = x.reshape(-1, *x.shape[-3:])
        large = min(x.shape[-3:-1]) >= 36
        for features, kernel, stride in self._layers(large):
            padding = "VALID" if large else "SAME"
            rows = Conv(features, kernel, stride, padding, kernel_init=orthogonal(np.sqrt(2)))(rows)
            rows = nn.LayerNorm(reduction_axes=(-3, -2, -1))(rows) if self.layer_norm else rows
            rows = ACTIVATIONS[self.activation](rows)
        return rows.reshape(*x.shape[:-3], int(np.prod(rows.shape[1:])))

    def _layers(self, large: bool) -> tuple[tuple[int, int, int], ...]:
        """(features, kernel, stride) of each layer."""
        if not self.channels:
            return _SCREEN if large else _GRID
        if not large:
            return tuple((features, 3, 1) for features in self.channels)
        if len(self.channels) != len(_SCREEN):
            raise ValueError(f"Pictures this large need {len(_SCREEN)} numbers of channels, got {self.channels}.")
        shapes = (shape[1:] for shape in _SCREEN)
        return tuple((features, *shape) for features, shape in zip(self.channels, shapes, strict=True))


def sparse_kernels(key: jax.Array, params: Any, sparsity: float) -> Any:
    """Parameters whose kernels are drawn anew by `sparse_uniform`; all others stay as they are. Consumes `key`."""
    leaves, structure = jax.tree_util.tree_flatten_with_path(params)
    keys = jax.random.split(key, len(leaves))
    return structure.unflatten(
        sparse_uniform(k, leaf.shape, sparsity) if path[-1].key == "kernel" else leaf
        for k, (path, leaf) in zip(keys, leaves, strict=True)
    )


def sparse_uniform(key: jax.Array, shape: tuple[int, ...], sparsity: float) -> jax.Array:
    """A kernel `[..., features]` in which each feature depends on few inputs. Consumes `key`.

    Elsayed et al. 2024 (https://arxiv.org/abs/2410.14606), section 3.

    Args:
        key: A random key.
        shape: All axes but the last are the I inputs of a feature (in a convolution, its places and channels).
        sparsity: The share of each feature's weights that are 0, rounded up to whole weights; at least one is not. The
            others are uniform between -1 / sqrt(I) and 1 / sqrt(I).
    """
    inputs, features = math.prod(shape[:-1]), shape[-1]
    zeros = min(math.ceil(sparsity * inputs - 1e-6), inputs - 1)  # 0.9 * 70 is a bit more than 63
    key_weights, key_order = jax.random.split(key)
    bound = 1.0 / math.sqrt(inputs)
    weights = jax.random.uniform(key_weights, (inputs, features), jnp.float32, -bound, bound)
    order = jax.random.uniform(key_order, (inputs, features), jnp.float32)
    rank = jnp.argsort(jnp.argsort(order, axis=0), axis=0)
    return jnp.where(rank < zeros, 0.0, weights).reshape(shape)
