"""Heads: from features to a policy, chosen by the action space, or to a value.

Policy heads map `(features[..., H], mask=None, pointed=None)` to a distribution with batch axes `[...]`
(`jaxrl.nn.distributions`). `pointed` are the entities that a `Discrete` space's actions point at, see
`jaxrl.nn.entities`; other heads ignore it.
"""

from __future__ import annotations

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np

from jaxrl.nn import distributions
from jaxrl.nn.entities import Pointed, choices
from jaxrl.nn.layers import MLP, Dense, orthogonal, weights
from jaxrl.spaces import Box, Discrete, MultiDiscrete, Space

__all__ = [
    "CategoricalHead",
    "DeterministicHead",
    "GaussianHead",
    "MultiCategoricalHead",
    "QHead",
    "SquashedHead",
    "ValueHead",
    "bounds_of",
    "mask_size",
    "policy_head",
    "spanned",
]

_LEAST, _MOST = -5.0, 2.0  # of the logarithm of a squashed normal's deviation


def policy_head(
    space: Space,
    sizes: tuple[int, ...] = (),
    activation: str = "tanh",
    squash: bool = False,
    name: str | None = None,
) -> CategoricalHead | MultiCategoricalHead | GaussianHead:
    """The head for the actions in `space`.

    Args:
        space: `Discrete`, `MultiDiscrete` or `Box`.
        sizes: Layers between the features and the distribution's parameters.
        activation: The activation function between the layers.
        squash: For a `Box`: keep actions inside by tanh, instead of letting the environment clip them.
        name: The name of the module.

    Raises:
        ValueError: The space is of another kind, or `squash` is used with a box that is not finite or is flat.
    """
    if isinstance(space, Discrete):
        return CategoricalHead(space.n, sizes, activation, name=name)
    if isinstance(space, MultiDiscrete):
        return MultiCategoricalHead(space.nvec, sizes, activation, name=name)
    if not isinstance(space, Box):
        raise ValueError(f"There is no policy for actions in {space}; use Discrete, MultiDiscrete or Box.")
    if squash and not spanned(space).all():
        raise ValueError(f"squash=True needs finite bounds that differ, unlike those of {space}; use squash=False.")
    return GaussianHead(space, squash, sizes, activation, name=name)


def mask_size(space: Space) -> int | None:
    """The length of an action mask: one entry for each choice; None if actions are continuous."""
    if isinstance(space, Discrete):
        return space.n
    return sum(space.nvec) if isinstance(space, MultiDiscrete) else None


def bounds_of(space: Box) -> tuple[np.ndarray, np.ndarray]:
    """The lower and the upper bounds, float32 `[*space.shape]`."""
    low, high = (np.broadcast_to(np.asarray(bound, np.float32), space.shape) for bound in (space.low, space.high))
    return low, high


def spanned(space: Box) -> np.ndarray:
    """Which numbers of a box have finite bounds that differ, by a finite float: bool `[*space.shape]`."""
    low, high = bounds_of(space)
    with np.errstate(over="ignore", invalid="ignore"):
        width = high - low
    return np.isfinite(width) & (width > 0)


class CategoricalHead(nn.Module):
    """One choice among A; the mask is bool `[..., A]` or None."""

    num_actions: int
    sizes: tuple[int, ...] = ()
    activation: str = "tanh"

    @nn.compact
    def __call__(
        self, features: jax.Array, mask: jax.Array | None = None, pointed: Pointed | None = None
    ) -> distributions.Categorical:
        features = MLP(self.sizes, self.activation)(features)
        if pointed is None:
            logits = Dense(self.num_actions, orthogonal(0.01), name="output")(features)
        else:
            logits = choices(self.num_actions, 0.01, features, pointed)
        return distributions.categorical(logits, mask)


class MultiCategoricalHead(nn.Module):
    """K independent choices; the mask is bool `[..., sum(num_actions)]`, one component after another, or None."""

    num_actions: tuple[int, ...]
    sizes: tuple[int, ...] = ()
    activation: str = "tanh"

    @nn.compact
    def __call__(
        self, features: jax.Array, mask: jax.Array | None = None, pointed: Pointed | None = None
    ) -> distributions.Distribution:
        features = MLP(self.sizes, self.activation)(features)
        logits = Dense(sum(self.num_actions), kernel_init=orthogonal(0.01), name="output")(features)
        return distributions.multi_categorical(logits, self.num_actions, mask)


class GaussianHead(nn.Module):
    """Independent normal components; their standard deviation is a parameter that ignores the observation.

    The network's outputs are in half-widths of the box from its centre (in units of 1 from 0 where it has no finite
    width), so that the same initial policy, mean 0 and standard deviation 1, suits any box. Without `squash`, actions
    may lie outside. There is no mask.
    """

    space: Box
    squash: bool = False
    sizes: tuple[int, ...] = ()
    activation: str = "tanh"

    @nn.compact
    def __call__(
        self, features: jax.Array, mask: jax.Array | None = None, pointed: Pointed | None = None
    ) -> distributions.Distribution:
        if mask is not None:
            raise ValueError("Continuous actions cannot be masked; pass mask=None.")
        shape = self.space.shape
        features = MLP(self.sizes, self.activation)(features)
        mean = Dense(int(np.prod(shape)), kernel_init=orthogonal(0.01), name="output")(features)
        mean = mean.reshape(*features.shape[:-1], *shape)
        std = jnp.exp(weights(self, "log_std", nn.initializers.zeros_init(), shape))
        low, high = bounds_of(self.space)
        if self.squash:
            return distributions.SquashedNormal(mean, std, low, high, len(shape))
        bounded = spanned(self.space)
        low, high = np.where(bounded, low, np.float32(-1)), np.where(bounded, high, np.float32(1))
        center, half = jnp.asarray((high + low) / 2), jnp.asarray((high - low) / 2)
        return distributions.normal(center + half * mean, half * std, len(shape))


class SquashedHead(nn.Module):
    """A normal policy through tanh into a finite box; mean and standard deviation both depend on the features.

    The logarithm of the deviation lies between -5 and 2, and is about 0 initially: a policy that is almost uniform.
    """

    space: Box
    sizes: tuple[int, ...] = ()
    activation: str = "tanh"

    @nn.compact
    def __call__(self, features: jax.Array) -> distributions.SquashedNormal:
        shape = self.space.shape
        features = MLP(self.sizes, self.activation)(features)
        outputs = Dense(2 * int(np.prod(shape)), kernel_init=orthogonal(0.01), name="output")(features)
        mean, spread = (part.reshape(*features.shape[:-1], *shape) for part in jnp.split(outputs, 2, axis=-1))
        offset = np.float32(np.log(-_LEAST / _MOST))  # of the sigmoid at which the logarithm is 0
        log_std = _LEAST + (_MOST - _LEAST) * jax.nn.sigmoid(spread + offset)
        return distributions.SquashedNormal(mean, jnp.exp(log_std), *bounds_of(self.space), len(shape))


class DeterministicHead(nn.Module):
    """One action of a finite box, by tanh; initially about its centre."""

    space: Box
    sizes: tuple[int, ...] = ()
    activation: str = "tanh"

    @nn.compact
    def __call__(self, features: jax.Array) -> distributions.Noisy:
        shape, (low, high) = self.space.shape, bounds_of(self.space)
        features = MLP(self.sizes, self.activation)(features)
        outputs = Dense(int(np.prod(shape)), kernel_init=orthogonal(0.01), name="output")(features)
        within = jnp.tanh(outputs.reshape(*features.shape[:-1], *shape))
        bounds = (jnp.broadcast_to(bound, within.shape) for bound in (low, high))
        action = jnp.asarray((high + low) / 2) + (high - low) / 2 * within
        return distributions.Noisy(action, *bounds).with_noise(0.0)


class QHead(nn.Module):
    """Maps `[..., H]` to the values of A actions `[..., A]`, or to logits `[..., A, num_bins]` over bins of values.

    With `dueling`, they are the state's value plus advantages of mean 0, each with layers of its own (Wang et al. 2016,
    https://arxiv.org/abs/1511.06581, eq. 9).
    """

    num_actions: int
    sizes: tuple[int, ...] = ()
    activation: str = "tanh"
    layer_norm: bool = False
    dueling: bool = False
    num_bins: int | None = None

    @nn.compact
    def __call__(self, features: jax.Array, pointed: Pointed | None = None) -> jax.Array:
        hidden = MLP(self.sizes, self.activation, self.layer_norm)(features)
        scale, axis = (1.0, -1) if self.num_bins is None else (0.01, -2)
        if pointed is None and self.num_bins is None:
            outputs = Dense(self.num_actions, orthogonal(scale), name="output")(hidden)
        else:
            outputs = choices(self.num_actions, scale, hidden, pointed, self.num_bins)
        if self.dueling:
            head = ValueHead(self.sizes, self.activation, self.num_bins, self.layer_norm, name="state")
            outputs = jnp.expand_dims(head(features), axis) + outputs - outputs.mean(axis=axis, keepdims=True)
        return outputs


class ValueHead(nn.Module):
    """Maps `[..., H]` to a scalar `[...]`, or to logits `[..., num_bins]` over bins of values (see `jaxrl.rl.losses`).

    Initially, all bins are about equally likely, so an untrained value is the middle of the range.
    """

    sizes: tuple[int, ...] = ()
    activation: str = "tanh"
    num_bins: int | None = None
    layer_norm: bool = False

    @nn.compact
    def __call__(self, features: jax.Array) -> jax.Array:
        features = MLP(self.sizes, self.activation, self.layer_norm)(features)
        if self.num_bins is None:
            return Dense(1, kernel_init=orthogonal(1.0), name="output")(features)[..., 0]
        return Dense(self.num_bins, kernel_init=orthogonal(0.01), name="output")(features)
