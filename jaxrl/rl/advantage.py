"""Advantages."""

from __future__ import annotations

import chex
import jax
import jax.numpy as jnp

from jaxrl.rl.devices import psum

__all__ = ["bootstrap_values", "gae", "masked_mean", "normalise"]


def gae(
    reward: jax.Array,
    discount: jax.Array,
    cut: jax.Array,
    value: jax.Array,
    next_value: jax.Array,
    gae_lambda: jax.Array | float,
) -> jax.Array:
    """Generalised advantage estimation (Schulman et al. 2016, https://arxiv.org/abs/1506.02438, eq. 16).

    Args:
        reward: `[T, ...]` reward of step t.
        discount: `[T, ...]` gamma, or 0 only where step t truly ended the task; like `cut`, broadcast to `reward`.
        cut: `[T, ...]` True where the episode ended with step t, terminated or truncated: the trace stops there.
        value: `[T, ...]` V of the observation before step t.
        next_value: `[T, ...]` V of the observation after step t *in the same episode* (the final one at a cut).
        gae_lambda: Decay of the trace.

    Returns:
        Advantages `[T, ...]`; add `value` for the value targets.

    Raises:
        AssertionError: The shapes do not fit together.
    """
    chex.assert_equal_shape([reward, value, next_value])
    chex.assert_is_broadcastable(discount.shape, reward.shape)
    chex.assert_is_broadcastable(cut.shape, reward.shape)
    delta = reward + discount * next_value - value
    decay = jnp.broadcast_to(discount * gae_lambda * (1.0 - cut), delta.shape)

    def step(advantage: jax.Array, inputs: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        delta_t, decay_t = inputs
        advantage = delta_t + decay_t * advantage
        return advantage, advantage

    return jax.lax.scan(step, jnp.zeros_like(delta[0]), (delta, decay), reverse=True)[1]


def bootstrap_values(value: jax.Array, final_value: jax.Array, cut: jax.Array) -> jax.Array:
    """`[T, ...]`: the value after each step within the same episode, which is the next step's unless it was cut.

    Args:
        value: `[T, ...]` of the observation before each step.
        final_value: `[T, ...]` of the observation after each step, used where `cut` is True and in the last step.
        cut: `[T, ...]` True where the episode ended with step t, terminated or truncated.
    """
    following = jnp.concatenate([value[1:], final_value[-1:]])
    return jnp.where(cut, final_value, following)


def masked_mean(x: jax.Array, weight: jax.Array) -> jax.Array:
    """The mean of `x` with weights (same shape, mostly 0 or 1) over all devices; 0 if they are 0 everywhere."""
    summed, count = psum((jnp.sum(x * weight), jnp.sum(weight)))
    return summed / jnp.maximum(count, 1.0)


def normalise(x: jax.Array, weight: jax.Array) -> jax.Array:
    """`x` shifted and scaled to mean 0 and standard deviation 1, both with weights, over all devices."""
    mean = masked_mean(x, weight)
    variance = masked_mean(jnp.square(x - mean), weight)
    return (x - mean) * jax.lax.rsqrt(variance + 1e-8)
