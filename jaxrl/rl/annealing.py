"""Schedules: hyperparameters that change over a run, as functions of the (traced) number of updates done."""

from __future__ import annotations

import jax
import jax.numpy as jnp

__all__ = ["ANNEALING", "annealed"]

# Maps the completed share of the run, 0 … 1, to the remaining share of the hyperparameter's decrease, 1 … 0.
ANNEALING = {
    "constant": jnp.ones_like,
    "linear": lambda progress: 1.0 - progress,
    "cosine": lambda progress: 0.5 * (1.0 + jnp.cos(jnp.pi * progress)),
}


def annealed(
    schedule: str,
    initial: jax.Array | float,
    update: jax.Array | int,
    num_updates: int,
    final: jax.Array | float = 0.0,
) -> jax.Array:
    """A hyperparameter's value at the beginning of an update.

    Args:
        schedule: `"constant"` (stays `initial`), `"linear"` or `"cosine"`.
        initial: Value at update 0.
        update: Updates done so far.
        num_updates: Updates in the whole run; from then on the value is `final`.
        final: Value at the end.
    """
    progress = jnp.clip(jnp.asarray(update, jnp.float32) / num_updates, 0.0, 1.0)
    return final + (initial - final) * ANNEALING[schedule](progress)
