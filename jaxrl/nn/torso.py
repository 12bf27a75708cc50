"""Torsos, which map observations to features and depend on their space."""

from __future__ import annotations

from collections.abc import Callable

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
from flax.errors import InvalidRngError, ModifyScopeVariableError, ScopeParamShapeError

from jaxrl.nn.conv import Conv
from jaxrl.nn.dense import Dense, on_rows
from jaxrl.nn.orthogonal import orthogonal
from jaxrl.spaces import Box, Discrete, MultiDiscrete, Space

__all__ = ["ACTIVATIONS", "CNN", "MLP", "Torso", "as_floats", "is_picture"]

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


def is_picture(space: Space) -> bool:
    """Whether the space has three axes: height, width, channels."""
    return isinstance(space, Box) and len(space.shape) == 3


def as_floats(space: Space, x: jax.Array) -> jax.Array:
    """Elements `x[..., *space.shape]` as float32; integers in a `Box` are mapped from their bounds to 0 … 1.

    An integer whose bounds are those of int32 has none, so it keeps its value. Floats keep theirs as well, also where
    the space has integers: they have been through this before.
    """
    integers = np.issubdtype(space.dtype, np.integer) and jnp.issubdtype(x.dtype, jnp.integer)
    if not isinstance(space, Box) or not integers:
        return x.astype(jnp.float32)
    low, high = (np.broadcast_to(np.asarray(bound, np.float64), space.shape) for bound in (space.low, space.high))
    bounded = (low < high) & (high - low < 2**31 - 1)
    start, width = np.where(bounded, low, 0.0), np.where(bounded, high - low, 1.0)
    return (x.astype(jnp.float32) - start.astype(np.float32)) / width.astype(np.float32)


def _of_own(network: nn.Module, x: jax.Array, ndim: int) -> jax.Array:
    """The features that a network of the user's own makes of vectors or pictures, whose last `ndim` axes it maps."""
    kind = type(network).__name__
    advice = (
        f"{kind} must map {'pictures [..., height, width, channels]' if ndim == 3 else 'vectors [..., D]'} to features "
        "[..., H] and leave the axes before them as they are, of which there may be any number, such as time, "
        f"environments and agents: to flatten, write x.reshape(*x.shape[:-{ndim}], -1)."
    )
    try:
        features = network(x)
    except ScopeParamShapeError as error:
        raise ValueError(f"{advice} For {list(x.shape)} its parameters have other shapes than at first.") from error
    except (InvalidRngError, ModifyScopeVariableError) as error:
        raise ValueError(
            f"{kind} needs random numbers, or changes a variable that is no parameter, as nn.Dropout and nn.BatchNorm "
            f"do: leave such layers out; nn.LayerNorm does neither."
        ) from error
    if not isinstance(features, jax.Array):
        raise TypeError(f"{advice} It returns a {type(features).__name__}.")
    if not jnp.issubdtype(features.dtype, jnp.floating):
        raise TypeError(f"{advice} It makes {features.dtype}, through which nothing is learned; make floats.")
    if features.shape[:-1] != x.shape[:-ndim]:
        raise ValueError(f"{advice} It makes {list(features.shape)} of {list(x.shape)}.")
    return features


class Torso(nn.Module):
    """Observations in `space` to features: `[..., *space.shape]` to `[..., sizes[-1]]`.

    Pictures (a `Box` of three axes: height, width, channels) go through convolutions first, whole numbers become
    one-hot vectors, everything else is flattened. A `Box` of integers is scaled by its bounds (see `as_floats`).
    What else there is to see, `extra[..., K]`, is appended to the dense layers' input.
    """

    space: Space
    sizes: tuple[int, ...]
    activation: str = "tanh"
    layer_norm: bool = False
    channels: tuple[int, ...] = ()
    """See `CNN`."""
    network: Callable[[], nn.Module] | None = None
    """A network of the user's own in place of convolutions and dense layers: `network()` maps pictures `[..., height,
    width, channels]`, or vectors `[..., D]`, to features `[..., H]`; what does not is refused with ValueError or
    TypeError."""

    @nn.compact
    def __call__(self, obs: jax.Array, extra: jax.Array | None = None) -> jax.Array:
        space = self.space
        if isinstance(space, Discrete):
            x = jax.nn.one_hot(obs, space.n, dtype=jnp.float32)
        elif isinstance(space, MultiDiscrete):
            parts = [jax.nn.one_hot(obs[..., k], n, dtype=jnp.float32) for k, n in enumerate(space.nvec)]
            x = jnp.concatenate(parts, axis=-1)
        elif not isinstance(space, Box):
            raise TypeError(f"There is no network for observations in {space}; use Discrete, MultiDiscrete or Box.")
        elif is_picture(space):
            x = as_floats(space, obs)
            x = CNN(self.activation, self.channels, self.layer_norm)(x) if self.network is None else x
        else:
            lead = obs.shape[: obs.ndim - len(space.shape)]
            x = as_floats(space, obs).reshape(*lead, int(np.prod(space.shape)))
        if self.network is not None:
            return _of_own(self.network(), x, 3 if is_picture(space) else 1)
        x = x if extra is None else jnp.concatenate([x, extra], axis=-1)
        return MLP(self.sizes, self.activation, self.layer_norm)(x)
