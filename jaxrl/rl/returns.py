"""Returns: what values are to become."""

from __future__ import annotations

import jax

from jaxrl.rl.advantage import gae

__all__ = ["lambda_returns"]


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
