"""The one option that all of classic control has."""

from __future__ import annotations

__all__ = ["step_limit"]


def step_limit(max_steps: int) -> int:
    """`max_steps`, if it is a whole number of at least 1; else a ValueError that says so."""
    if not isinstance(max_steps, int) or max_steps < 1:
        raise ValueError(f"max_steps must be a whole number of at least 1, got {max_steps!r}.")
    return max_steps
