"""Advantages."""

from __future__ import annotations

import chex
import jax
import jax.numpy as jnp

from jaxrl.rl.devices import psum

__all__ = ["bootstrap_values", "gae", "normalise"]


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


def normalise(x: jax.Array, weight: jax.Array) -> jax.Array:
    """`x` shifted and scaled to mean 0 and standard deviation 1, both with weights, over all devices; 0s if they are 0.

    One all-reduce: the sum of squares around the mean of all follows from those around each device's own (Chan et al.
    1979, http://i.stanford.edu/pub/cstr/reports/cs/tr/79/773/CS-TR-79-773.pdf).
    """
    count, total = jnp.sum(weight), jnp.sum(x * weight)
    own = total / jnp.maximum(count, 1.0)
    within = jnp.sum(jnp.square(x - own) * weight)
    count, total, within, between = psum((count, total, within, total * own))
    mean = total / jnp.maximum(count, 1.0)
    variance = (within + (between - total * mean)) / jnp.maximum(count, 1.0)
    return (x - mean) * jax.lax.rsqrt(variance + 1e-8)
