"""The encoder of observations: a torso, which depends on their space, and a memory core."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
from flax.errors import InvalidRngError, ModifyScopeVariableError, ScopeParamShapeError

from jaxrl.entities import Entities
from jaxrl.nn.entities import EntityTorso, Pointed
from jaxrl.nn.layers import CNN, MLP
from jaxrl.nn.memory import Core
from jaxrl.spaces import Box, Discrete, MultiDiscrete, Space

__all__ = ["Encoder", "Torso", "as_floats", "is_picture"]


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


class Encoder(nn.Module):
    """Torso and memory: `(carry, obs[T, ..., *shape], reset[T, ...]) -> (carry, features[T, ..., H], pointed)`.

    `pointed` is what actions point at, None without such actions or without `entities`. Without a `space` the
    observation is a vector `[D]`. For `extra`, `layer_norm`, `channels` and `network` see `Torso`.
    """

    sizes: tuple[int, ...]
    activation: str = "tanh"
    core: Callable[[], Core] | None = None
    space: Space | None = None
    layer_norm: bool = False
    channels: tuple[int, ...] = ()
    network: Callable[[], nn.Module] | None = None
    entities: Entities | None = None
    """What observations are made of, for an `EntityTorso` instead."""
    related: bool = False
    """See `EntityTorso`."""

    @nn.compact
    def __call__(
        self, carry: Any, obs: jax.Array, reset: jax.Array, extra: jax.Array | None = None
    ) -> tuple[Any, jax.Array, Pointed | None]:
        if self.entities is None:
            space = Box(-np.inf, np.inf, obs.shape[-1:]) if self.space is None else self.space
            torso = Torso(space, self.sizes, self.activation, self.layer_norm, self.channels, self.network)
            features, pointed = torso(obs, extra), None
        else:
            torso = EntityTorso(self.entities, self.sizes, self.activation, self.layer_norm, related=self.related)
            features, pointed = torso(obs, extra)
        if self.core is not None:
            carry, features = self.core()(carry, features, reset)
        return carry, features, pointed
