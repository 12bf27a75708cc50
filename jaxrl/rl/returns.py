"""Returns: the targets of values."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from jaxrl.rl.advantage import gae

__all__ = ["chosen_value", "greedy_value", "lambda_returns", "n_step_returns"]


def lambda_returns(
    reward: jax.Array,
    discount: jax.Array,
    cut: jax.Array,
    value: jax.Array,
    next_value: jax.Array,
    q_lambda: jax.Array | float,
) -> jax.Array:
    """Returns mixed over all lengths: G_t = r_t + discount_t ((1 - lambda) v_{t+1} + lambda G_{t+1}), `[T, ...]`.

    Where an episode is cut, and in the last step, `next_value` alone follows the reward. With v_t the largest of the
    values Q(s_t, a), it is the target of PQN (Gallici et al. 2024, https://arxiv.org/abs/2407.04811); since v_t
    cancels in the sum of temporal differences, it is the advantage estimate of `gae` plus v_t.

    Args:
        reward: `[T, ...]` reward of step t.
        discount: `[T, ...]` gamma, or 0 only where step t truly ended the task; like `cut`, broadcast to `reward`.
        cut: `[T, ...]` True where the episode ended with step t, terminated or truncated.
        value: `[T, ...]` v of the observation before step t.
        next_value: `[T, ...]` v of the observation after step t in the same episode (the final one at a cut).
        q_lambda: The share of G_{t+1}; 0 gives one-step targets, 1 sums of all rewards to come.
    """
    return value + gae(reward, discount, cut, value, next_value, q_lambda)


def n_step_returns(
    reward: jax.Array, discount: jax.Array, cut: jax.Array, next_value: jax.Array, n_step: int
) -> jax.Array:
    """Returns over n steps: r_t + d_t r_{t+1} + d_t d_{t+1} r_{t+2} + … and the value that follows, `[T - n + 1, ...]`.

    The sum is shorter where the trace is cut: after that step, `next_value` alone follows the reward. Each value is
    discounted as often as there are steps before it (Sutton 1988, https://doi.org/10.1007/BF00115009).

    Args:
        reward: `[T, ...]` reward of step t.
        discount: `[T, ...]` gamma, or 0 only where step t truly ended the task; like `cut`, broadcast to `reward`.
        cut: `[T, ...]` True where the trace stops after step t.
        next_value: `[T, ...]` value of the observation after step t in the same episode.
        n_step: n, at most T.
    """
    last = reward.shape[0] - n_step
    returns = next_value[n_step - 1 :]
    for ahead in reversed(range(n_step)):
        now = slice(ahead, ahead + last + 1)
        follows = jnp.where(cut[now], next_value[now], returns)
        returns = reward[now] + discount[now] * follows
    return returns


def greedy_value(values: jax.Array, chooser: jax.Array) -> jax.Array:
    """`values[..., A]` of the best action by `chooser[..., A]`, `[...]`.

    With values of a target network and a choice by the network that is learned, it is double Q-learning's (van Hasselt
    et al. 2016, https://arxiv.org/abs/1509.06461); with the same values for both, it is their maximum.
    """
    return jnp.take_along_axis(values, chooser.argmax(axis=-1, keepdims=True), axis=-1)[..., 0]


def chosen_value(values: jax.Array, action: jax.Array) -> jax.Array:
    """`values[..., A]` of the chosen `action[...]`, `[...]`; its gradient needs no scatter."""
    return jnp.where(jax.nn.one_hot(action, values.shape[-1], dtype=bool), values, 0.0).sum(axis=-1)
