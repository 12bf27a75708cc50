"""Running normalisation of observations and rewards: the exact mean and variance of all that was seen.

The statistics are a pytree in the train state, so they are saved with it. A batch becomes `Moments`, batches and shards
are merged, and the order does not matter (Chan, Golub & LeVeque 1983, https://doi.org/10.1080/00031305.1983.10483115):

    batch = moments_of(obs, weight)             # in shard_map also: batch = merge_shards(batch, "data")
    state = merge(state, batch)
    obs = standardise(obs, state)
"""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp

__all__ = [
    "Moments",
    "discounted_returns",
    "merge",
    "merge_shards",
    "moments_of",
    "new_moments",
    "scale_reward",
    "standardise",
]


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Moments:
    """Mean and variance of samples of some shape, each component by itself.

    The variance is kept instead of the sum of squares: it does not grow with the number of samples, so neither does its
    rounding error. The number of samples is a 64-bit one in two halves, since float32 stops counting at 16.8 million.
    """

    count: jax.Array  # uint32 [2], the high and the low half
    mean: jax.Array  # [*shape]
    variance: jax.Array  # [*shape], of the population: the sum of squares divided by the number of samples


def new_moments(shape: tuple[int, ...]) -> Moments:
    """No samples yet; with these, `standardise` and `scale_reward` change nothing."""
    return Moments(jnp.zeros(2, jnp.uint32), jnp.zeros(shape, jnp.float32), jnp.zeros(shape, jnp.float32))


def moments_of(x: jax.Array, weight: jax.Array) -> Moments:
    """Moments of the samples `x[..., *shape]` of `weight[...]` 1; those of weight 0 do not count."""
    leading = tuple(range(weight.ndim))
    x = x.astype(jnp.float32)
    keep = weight.astype(bool).reshape(weight.shape + (1,) * (x.ndim - weight.ndim))
    low = jnp.sum(weight.astype(bool), dtype=jnp.uint32)
    count = jnp.maximum(low.astype(jnp.float32), 1.0)
    mean = jnp.sum(jnp.where(keep, x, 0.0), axis=leading) / count
    variance = jnp.sum(jnp.where(keep, jnp.square(x - mean), 0.0), axis=leading) / count
    return Moments(jnp.stack([jnp.zeros_like(low), low]), mean, variance)


def merge(a: Moments, b: Moments) -> Moments:
    """Moments of all samples of `a` and of `b`."""
    low = a.count[1] + b.count[1]  # wraps around where the sum does not fit
    high = a.count[0] + b.count[0] + (low < a.count[1]).astype(jnp.uint32)
    count = jnp.stack([high, low])
    share = _as_float(b.count) / jnp.maximum(_as_float(count), 1.0)
    step = b.mean - a.mean
    mean = a.mean + share * step
    variance = a.variance + share * (b.variance - a.variance + (1.0 - share) * jnp.square(step))
    return Moments(count, mean, variance)


def merge_shards(moments: Moments, axis_name: str) -> Moments:
    """Moments of the samples of all shards along a mapped axis, the same on each (fewer than 2^32 samples in all).

    Merge the shards' new batches, not their running statistics: what all have in common would count several times.
    """
    low = jax.lax.psum(moments.count[1], axis_name)
    share = _as_float(moments.count) / jnp.maximum(low.astype(jnp.float32), 1.0)
    mean = jax.lax.psum(share * moments.mean, axis_name)
    spread = moments.variance + jnp.square(moments.mean - mean)
    return Moments(jnp.stack([jnp.zeros_like(low), low]), mean, jax.lax.psum(share * spread, axis_name))


def standardise(x: jax.Array, moments: Moments, clip: float = 10.0) -> jax.Array:
    """`x[..., *shape]` with mean 0 and standard deviation 1 in each component, clipped to -clip … clip."""
    standard = (x - moments.mean) * jax.lax.rsqrt(moments.variance + 1e-8)
    return jnp.where(jnp.all(moments.count == 0), x, jnp.clip(standard, -clip, clip))


def discounted_returns(
    start: jax.Array, reward: jax.Array, cut: jax.Array, gamma: jax.Array | float
) -> tuple[jax.Array, jax.Array]:
    """The discounted sum of the rewards so far in each episode (backwards in time: a fixed gamma makes it a scale).

    Args:
        start: `[...]` the sum before the first step; zeros in the beginning.
        reward: `[T, ...]`.
        cut: `[T, ...]` True where the episode ended with step t.
        gamma: Discount factor.

    Returns:
        The sum to go on from, `[...]`, and the sums after each step, `[T, ...]`.
    """

    def step(total: jax.Array, inputs: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        reward_t, cut_t = inputs
        total = gamma * total + reward_t
        return jnp.where(cut_t, 0.0, total), total

    return jax.lax.scan(step, start, (reward, cut))


def scale_reward(reward: jax.Array, returns: Moments, clip: float = 10.0) -> jax.Array:
    """`reward[...]` divided by the standard deviation of the returns, clipped to -clip … clip; its mean stays.

    `returns` are moments, of shape `()`, of `discounted_returns` (Engstrom et al. 2020,
    https://arxiv.org/abs/2005.12729, section 3).
    """
    scaled = jnp.clip(reward * jax.lax.rsqrt(returns.variance + 1e-8), -clip, clip)
    return jnp.where(jnp.all(returns.count == 0), reward, scaled)


def _as_float(count: jax.Array) -> jax.Array:
    return count[0].astype(jnp.float32) * 2.0**32 + count[1].astype(jnp.float32)
