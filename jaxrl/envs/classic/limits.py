"""The one option that all classic control environments share."""

from __future__ import annotations

__all__ = ["step_limit"]


def step_limit(max_steps: int) -> int:
    """Check that `max_steps` is a whole number of at least 1, and return it; raises ValueError otherwise."""
    if not isinstance(max_steps, int) or max_steps < 1:
        raise ValueError(f"max_steps must be a whole number of at least 1, got {max_steps!r}.")
    return max_steps
