"""Learning from each step as it comes, without batches: eligibility traces, and steps that do not overshoot."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

__all__ = ["accumulate", "bounded_step", "new_trace"]


def new_trace(params: Any) -> Any:
    """The trace before the first step: zeros."""
    return jax.tree.map(jnp.zeros_like, params)


def accumulate(trace: Any, gradient: Any, decay: jax.Array | float) -> Any:
    """The accumulating trace after a step: `decay * trace + gradient` (Sutton & Barto 2018, section 12.2).

    Args:
        trace: What earlier gradients have left, a tree like the parameters.
        gradient: Of the prediction that the step is about: a value, or a log-probability.
        decay: gamma * lambda, and 0 where nothing before this step may be credited with what comes: at the beginning of
            an episode and, in Watkins' Q(lambda), at an action that is not greedy.
    """
    return jax.tree.map(lambda z, g: decay * z + g, trace, gradient)


def bounded_step(
    params: Any, trace: Any, td_error: jax.Array, lr: jax.Array | float, kappa: jax.Array | float
) -> tuple[Any, jax.Array]:
    """Overshooting-bounded gradient descent (Elsayed et al. 2024, https://arxiv.org/abs/2410.14606, section 3).

    The parameters move by `step_size * td_error * trace`, where `step_size = lr / max(1, M)` and
    `M = lr * kappa * max(1, |td_error|) * sum |trace|`. M estimates how many times the error the prediction would
    change, so the error shrinks instead of changing its sign.

    Args:
        params: The parameters.
        trace: Their trace, a tree of the same shapes.
        td_error: The temporal-difference error, a scalar.
        lr: The largest step size.
        kappa: How cautious to be: the higher, the smaller the steps.

    Returns:
        The parameters, and the step size.
    """
    norm = sum(jnp.sum(jnp.abs(z)) for z in jax.tree.leaves(trace))
    overshoot = lr * kappa * jnp.maximum(jnp.abs(td_error), 1.0) * norm
    step_size = lr / jnp.maximum(overshoot, 1.0)
    return jax.tree.map(lambda p, z: p + step_size * td_error * z, params, trace), step_size
