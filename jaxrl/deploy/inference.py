"""What `Policy.export` writes to a file: the policy's function, parameters and arguments."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax

__all__ = ["Inference"]


class Inference(NamedTuple):
    """A greedy policy as a function of a batch of any size `b`."""

    env: str
    """The name of the environment."""
    function: Callable[..., Any]
    """`function(params, obs[, carry, reset][, action_mask])`: without a memory the action `[b, …]`, with one
    `(action, carry)`. It takes what `arguments` names, in that order."""
    params: dict[str, Any]
    """Nested dicts of arrays."""
    arguments: dict[str, Any]
    """Shapes and dtypes; `carry` is a tuple."""

    @property
    def has_memory(self) -> bool:
        """Whether there is a carry."""
        return "carry" in self.arguments

    @property
    def batch(self) -> Any:
        """The symbol `b`."""
        obs: jax.ShapeDtypeStruct = self.arguments["obs"]
        return obs.shape[0]
