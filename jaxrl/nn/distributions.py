"""Distributions over choices and over boxes. No other module imports distrax.

All have the same interface, batch axes first: `sample(seed=key)`, `sample_and_log_prob(seed=key)`, `log_prob(action)`,
`entropy()` and `mode()`. An action has the batch axes followed by the shape of its space; log-probabilities and
entropies have only the batch axes. All are pytrees whose leaves carry the batch axes, so they pass through `jax.vmap`.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import distrax
import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

__all__ = [
    "Categorical",
    "Counted",
    "Distribution",
    "EpsilonGreedy",
    "MaybeUniform",
    "Noisy",
    "SquashedNormal",
    "categorical",
    "maybe_uniform",
    "multi_categorical",
    "normal",
]

Distribution = distrax.Distribution

_NEVER = -1e9  # a finite logit: its probability is exactly 0 in float32, and gradients stay finite
_WORST = -1e18  # a value that float32 can square, and far below any that rewards add up to
_PARTS = 2.0**22


class Categorical(distrax.Categorical):
    """distrax's class with faster draws (one random number per draw, not one per choice) and a faster entropy.

    Probabilities become integer multiples of 2^-22, whose sums are exact: choices of probability 0 are never drawn.
    """

    def _sample_n(self, key: jax.Array, n: int) -> jax.Array:
        below = jnp.cumsum((jnp.exp(self.logits) * _PARTS).astype(jnp.int32), axis=-1)
        drawn = jax.random.uniform(key, (n, *below.shape[:-1], 1), jnp.float32) * below[..., -1:]
        chosen = jnp.sum(below <= drawn.astype(jnp.int32), axis=-1)
        return jnp.minimum(chosen, self.num_categories - 1)  # for NaN

    def entropy(self) -> jax.Array:
        """The entropy in nats, `[...]`."""
        # On a CPU, XLA computes a sum of products fifteen times slower than a matrix product with ones.
        return -(jnp.exp(self.logits) * self.logits) @ np.ones(self.num_categories, np.float32)


class EpsilonGreedy(distrax.Distribution):
    """The action of the highest value, or with probability epsilon any that is allowed, all equally likely.

    Args:
        values: `[..., A]` of the actions.
        mask: `[..., A]`, False for actions that are forbidden; their values become -1e18.
        epsilon: The share of random actions, broadcast to `[...]`.
    """

    def __init__(self, values: jax.Array, mask: jax.Array | None = None, epsilon: ArrayLike = 0.0) -> None:
        super().__init__()
        self.values = values if mask is None else jnp.where(mask, values, _WORST)
        self._epsilon = jnp.broadcast_to(jnp.asarray(epsilon, values.dtype), values.shape[:-1])

    def exploring(self, epsilon: ArrayLike) -> EpsilonGreedy:
        """The same values with another epsilon."""
        return EpsilonGreedy(self.values, None, epsilon)

    @property
    def event_shape(self) -> tuple[int, ...]:
        """Shape of one action."""
        return ()

    @property
    def batch_shape(self) -> tuple[int, ...]:
        """Shape of the batch axes."""
        return self.values.shape[:-1]

    @property
    def probs(self) -> jax.Array:
        """The probability of each action, `[..., A]`."""
        allowed = self.values > _WORST / 2
        share = self._epsilon / jnp.maximum(allowed.sum(axis=-1), 1)
        greedy = jax.nn.one_hot(self.mode(), self.values.shape[-1], dtype=self.values.dtype)
        return jnp.where(allowed, share[..., None], 0.0) + (1.0 - self._epsilon)[..., None] * greedy

    def _sample_n(self, key: jax.Array, n: int) -> jax.Array:
        return self._choice().sample(seed=key, sample_shape=(n,))

    def log_prob(self, value: jax.Array) -> jax.Array:
        """The log-probability of the action `value[...]`."""
        return jnp.asarray(self._choice().log_prob(value))

    def entropy(self) -> jax.Array:
        """The entropy in nats, `[...]`."""
        return jnp.asarray(self._choice().entropy())

    def mode(self) -> jax.Array:
        """The action of the highest value, int32 `[...]`: the first of several."""
        return jnp.argmax(self.values, axis=-1).astype(jnp.int32)

    def _choice(self) -> Categorical:
        probs = self.probs
        return Categorical(logits=jnp.where(probs > 0, jnp.log(jnp.maximum(probs, 1e-30)), _NEVER))


def categorical(logits: jax.Array, mask: jax.Array | None = None) -> Categorical:
    """A distribution over A actions from `logits[..., A]`; actions where `mask[..., A]` is False have probability 0."""
    return Categorical(logits=_masked(logits, mask))


def multi_categorical(
    logits: jax.Array, num_actions: Sequence[int], mask: jax.Array | None = None
) -> distrax.Independent:
    """K independent choices, component k among `num_actions[k]`; an action is int32 `[..., K]`.

    `logits` and `mask` are `[..., sum(num_actions)]`, one component after another. A component that is entirely masked
    is drawn uniformly.
    """
    parts = jnp.split(_masked(logits, mask), np.cumsum(num_actions)[:-1], axis=-1)
    widest, leading = max(num_actions), [(0, 0)] * (logits.ndim - 1)
    # Even less likely than a masked action, so that an entirely masked component does not choose padding.
    padded = [jnp.pad(p, [*leading, (0, widest - p.shape[-1])], constant_values=2 * _NEVER) for p in parts]
    return distrax.Independent(Categorical(logits=jnp.stack(padded, axis=-2)), 1)


def _masked(logits: jax.Array, mask: jax.Array | None) -> jax.Array:
    return logits if mask is None else jnp.where(mask, logits, _NEVER)


_EDGE = 1.0 - 1e-6  # the largest |tanh| that is inverted; float32 cannot tell what lies beyond
_NODES, _WEIGHTS = np.polynomial.hermite_e.hermegauss(16)


def normal(mean: jax.Array, std: ArrayLike, event_ndims: int = 1) -> distrax.Independent:
    """Independent normal components; the last `event_ndims` axes of `mean` and `std` form one action."""
    return distrax.Independent(distrax.Normal(mean, jnp.broadcast_to(std, mean.shape)), event_ndims)


class SquashedNormal(distrax.Distribution):
    """A normal vector through tanh into a box: `low + (high - low) * (tanh(z) + 1) / 2`.

    * `log_prob` is finite everywhere in the closed box: at the bounds, it is that of an action 1e-6 of the half-width
      inside, whatever the action was before it was rounded.
    * `sample_and_log_prob` computes the log-density from the sample before tanh: it is exact, and its gradient leads
      back from the bounds, where that of `log_prob` ends.
    * `entropy` uses Gauss-Hermite quadrature with 16 nodes: deterministic, differentiable, and within 0.01 nats per
      component of the true value for standard deviations (before tanh) up to 2.
    * `mode` is the image of the normal's mean, which is the median (the true mode may lie at the bounds).

    Args:
        mean: `[..., *event]` before tanh.
        std: Standard deviation before tanh, broadcast to `mean`.
        low: Lower bounds, finite, broadcast to `mean`.
        high: Upper bounds, likewise.
        event_ndims: How many of the last axes form one action.
    """

    def __init__(self, mean: jax.Array, std: ArrayLike, low: ArrayLike, high: ArrayLike, event_ndims: int = 1) -> None:
        super().__init__()
        low, high = jnp.asarray(low), jnp.asarray(high)
        self._mean = mean
        self._std = jnp.broadcast_to(std, mean.shape)
        self._center = jnp.broadcast_to((high + low) / 2.0, mean.shape)
        self._half = jnp.broadcast_to((high - low) / 2.0, mean.shape)
        self._event_ndims = event_ndims

    @property
    def event_shape(self) -> tuple[int, ...]:
        """Shape of one action."""
        return self._mean.shape[self._mean.ndim - self._event_ndims :]

    @property
    def batch_shape(self) -> tuple[int, ...]:
        """Shape of the batch axes."""
        return self._mean.shape[: self._mean.ndim - self._event_ndims]

    def _sample_n(self, key: jax.Array, n: int) -> jax.Array:
        return self._squash(self._mean + self._std * jax.random.normal(key, (n, *self._mean.shape), self._mean.dtype))

    def _sample_n_and_log_prob(self, key: jax.Array, n: int) -> tuple[jax.Array, jax.Array]:
        noise = jax.random.normal(key, (n, *self._mean.shape), self._mean.dtype)
        z = self._mean + self._std * noise
        # The normal's density of mean + std * noise is that of the noise, divided by std.
        log_density = jax.scipy.stats.norm.logpdf(noise) - jnp.log(self._std)
        return self._squash(z), self._sum(log_density - _log_slope(z) - jnp.log(self._half))

    def log_prob(self, value: jax.Array) -> jax.Array:
        """Log-density of the action `value[..., *event]`, `[...]`."""
        z = jnp.arctanh(jnp.clip((value - self._center) / self._half, -_EDGE, _EDGE))
        log_density = jax.scipy.stats.norm.logpdf(z, self._mean, self._std)
        return self._sum(log_density - _log_slope(z) - jnp.log(self._half))

    def entropy(self) -> jax.Array:
        """Differential entropy in nats, `[...]`: the normal's entropy plus the mean logarithm of the slope."""
        z = self._mean[..., None] + self._std[..., None] * np.asarray(_NODES, np.float32)
        mean_log_slope = _log_slope(z) @ np.asarray(_WEIGHTS / _WEIGHTS.sum(), np.float32)
        of_normal = jnp.log(self._std) + 0.5 * math.log(2.0 * math.pi * math.e)
        return self._sum(of_normal + mean_log_slope + jnp.log(self._half))

    def mode(self) -> jax.Array:
        """The median action."""
        return self._squash(self._mean)

    def by_number(self) -> SquashedNormal:
        """The same, with densities and entropies of each number of an action, `[..., *event]`."""
        each = copy.copy(self)
        each._event_ndims = 0
        return each

    def _squash(self, z: jax.Array) -> jax.Array:
        return self._center + self._half * jnp.tanh(z)

    def _sum(self, x: jax.Array) -> jax.Array:
        return jnp.sum(x, axis=tuple(range(-self._event_ndims, 0)))


class Counted(distrax.Distribution):
    """A policy whose densities and entropies count some numbers of an action alone; the others are padding.

    Args:
        policy: A `normal` policy or a `SquashedNormal`.
        own: Which numbers count, bool, broadcast to the actions `[..., *event]`.
        event_ndims: How many of the last axes form one action.
    """

    def __init__(self, policy: distrax.Independent | SquashedNormal, own: ArrayLike, event_ndims: int = 1) -> None:
        super().__init__()
        self._each = policy.by_number() if isinstance(policy, SquashedNormal) else policy.distribution
        self._own = jnp.broadcast_to(jnp.asarray(own), self._each.batch_shape)
        self._event_ndims = event_ndims

    @property
    def event_shape(self) -> tuple[int, ...]:
        """Shape of one action."""
        return self._own.shape[self._own.ndim - self._event_ndims :]

    @property
    def batch_shape(self) -> tuple[int, ...]:
        """Shape of the batch axes."""
        return self._own.shape[: self._own.ndim - self._event_ndims]

    def _sample_n(self, key: jax.Array, n: int) -> jax.Array:
        return self._each.sample(seed=key, sample_shape=(n,))

    def log_prob(self, value: jax.Array) -> jax.Array:
        """Log-density of what counts of the action `value[..., *event]`, `[...]`."""
        return self._sum(jnp.asarray(self._each.log_prob(value)))

    def entropy(self) -> jax.Array:
        """Differential entropy in nats of what counts, `[...]`."""
        return self._sum(jnp.asarray(self._each.entropy()))

    def mode(self) -> jax.Array:
        """The policy's mode."""
        return jnp.asarray(self._each.mode())

    def _sum(self, each: jax.Array) -> jax.Array:
        return jnp.sum(jnp.where(self._own, each, 0.0), axis=tuple(range(-self._event_ndims, 0)))


class Noisy(NamedTuple):
    """An action with normal noise, kept in a box. All fields are `[..., *event]`."""

    action: jax.Array
    low: jax.Array
    high: jax.Array
    std: jax.Array | float = 0.0
    """Standard deviation of the noise in half-widths of the box."""
    most: jax.Array | float = math.inf
    """The noise itself is clipped to this, in half-widths."""

    def with_noise(self, std: ArrayLike, most: ArrayLike = math.inf) -> Noisy:
        """The same action with other noise."""
        return self._replace(
            std=jnp.broadcast_to(jnp.asarray(std, jnp.float32), self.action.shape),
            most=jnp.broadcast_to(jnp.asarray(most, jnp.float32), self.action.shape),
        )

    def sample(self, *, seed: jax.Array) -> jax.Array:
        """The action with noise, `[..., *event]`. Consumes `seed`."""
        noise = jnp.clip(self.std * jax.random.normal(seed, self.action.shape, jnp.float32), -self.most, self.most)
        return jnp.clip(self.action + 0.5 * (self.high - self.low) * noise, self.low, self.high)

    def mode(self) -> jax.Array:
        """The action without noise."""
        return self.action


class MaybeUniform(NamedTuple):
    """A policy, or any action of a box, all equally likely; see `maybe_uniform`."""

    policy: Any
    low: jax.Array
    high: jax.Array
    uniform: jax.Array

    def sample(self, *, seed: jax.Array) -> jax.Array:
        """An action `[..., *event]`. Consumes `seed`."""
        key_policy, key_uniform = jax.random.split(seed)
        drawn = jax.random.uniform(key_uniform, self.low.shape, jnp.float32, self.low, self.high)
        return jnp.where(self.uniform, drawn, self.policy.sample(seed=key_policy))


def maybe_uniform(policy: Any, low: ArrayLike, high: ArrayLike, uniform: ArrayLike) -> MaybeUniform:
    """`policy`, or where `uniform` is True any action between the bounds; both are broadcast to the actions."""
    like = policy.mode()
    return MaybeUniform(policy, *(jnp.broadcast_to(each, like.shape) for each in (low, high, uniform)))


def _log_slope(z: jax.Array) -> jax.Array:
    """log(1 - tanh(z)^2), computed without cancellation."""
    return 2.0 * (math.log(2.0) - z - jax.nn.softplus(-2.0 * z))
