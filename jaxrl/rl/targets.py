"""Target networks: parameters that follow the learned ones slowly, or now and then."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

__all__ = ["update_target"]


def update_target(
    params: Any, target: Any, tau: jax.Array | float, steps: jax.Array | int = 0, interval: int = 1
) -> Any:
    """The target after a gradient step: moved by the share `tau` towards the parameters if that is due.

    `tau` = 1 copies them (Mnih et al. 2015, https://doi.org/10.1038/nature14236), a small one at every step averages
    them (Lillicrap et al. 2016, https://arxiv.org/abs/1509.02971).

    Args:
        params: The learned parameters after the step.
        target: The target before it.
        tau: The share, 0 … 1.
        steps: Gradient steps taken so far, this one included.
        interval: Gradient steps between moves.
    """
    share = jnp.where(steps % interval == 0, tau, 0.0) if interval > 1 else tau
    return jax.tree.map(lambda old, new: (1.0 - share) * old + share * new, target, params)
