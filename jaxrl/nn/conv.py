"""The convolution of pictures; on a CPU it is a matrix product."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Literal

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np

from jaxrl.nn.dense import narrow_product, weights

__all__ = ["Conv", "convolution", "patch_product"]

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
