"""How an episode that has ended begins again."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from jaxrl.returned import check_same_form, check_values

__all__ = ["auto_reset", "select"]

_Step = tuple[Any, Any, jax.Array, jax.Array, jax.Array, dict[str, Any]]


def auto_reset(stepped: _Step, reset_to: tuple[Any, Any]) -> _Step:
    """Replace the observation and state of ended episodes by `reset_to`, and keep the final ones in `info`.

    Works for one environment (scalar flags) and for a batch (flags `[B]`, leaves `[B, …]`).

    Raises:
        TypeError: A step of the environment did not return six values, or returned another form than its reset.
    """
    check_values(stepped)
    obs, state, reward, terminated, truncated, info = stepped
    done = jnp.asarray(terminated | truncated)
    check_same_form(reset_to, (obs, state), done.ndim)
    next_obs, next_state = select(done, reset_to, (obs, state))
    info = {**info, "final_observation": obs, "final_state": state}
    return next_obs, next_state, reward, terminated, truncated, info


def select(mask: jax.Array, on_true: Any, on_false: Any) -> Any:
    """`jnp.where` over two pytrees of the same structure; `mask` has the leading axes of every leaf."""
    return jax.tree.map(
        lambda a, b: jnp.where(mask.reshape(mask.shape + (1,) * (jnp.ndim(b) - mask.ndim)), a, b), on_true, on_false
    )
