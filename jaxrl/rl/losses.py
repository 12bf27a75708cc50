"""Losses of proximal policy optimisation (Schulman et al. 2017, https://arxiv.org/abs/1707.06347)."""

from __future__ import annotations

import chex
import jax
import jax.numpy as jnp

__all__ = ["clipped_surrogate", "clipped_value_loss", "scaled_mean"]


def clipped_surrogate(ratio: jax.Array, advantage: jax.Array, clip_eps: jax.Array | float) -> jax.Array:
    """The policy loss of each sample (eq. 7, negated): `ratio` is new over old probability; all shapes are equal."""
    chex.assert_equal_shape([ratio, advantage])
    clipped = 1.0 + jnp.clip(ratio - 1.0, -clip_eps, clip_eps)
    return -jnp.minimum(ratio * advantage, clipped * advantage)


def clipped_value_loss(
    value: jax.Array, old_value: jax.Array, target: jax.Array, clip_eps: jax.Array | float
) -> jax.Array:
    """Half the squared error of each value: the larger one for the new value and its clip around `old_value`."""
    chex.assert_equal_shape([value, old_value, target])
    near = old_value + jnp.clip(value - old_value, -clip_eps, clip_eps)
    return 0.5 * jnp.maximum(jnp.square(value - target), jnp.square(near - target))


def scaled_mean(coef: jax.Array | float, x: jax.Array, weight: jax.Array) -> jax.Array:
    """`coef` times the mean of `x[..., N]`, given `jaxrl.rl.devices.mean_weights`.

    With a coefficient for each of N agents, `[N]`, it is the mean of `coef * x`.
    """
    return jnp.sum(coef * x * weight) if jnp.ndim(coef) else coef * jnp.sum(x * weight)
