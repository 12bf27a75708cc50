"""Checks for the options of environments."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any

import numpy as np

__all__ = ["flag", "number", "one_of", "part", "whole"]


def flag(name: str, value: Any) -> bool:
    """Check that `value` is true or false, 1 or 0, and return it; raises ValueError otherwise."""
    if not isinstance(value, bool | np.bool_) and value not in (0, 1):
        raise ValueError(f"{name} must be True or False, got {value!r}.")
    return bool(value)


def number(name: str, value: Any) -> float:
    """Check that `value` is a number, and return it; raises ValueError otherwise."""
    if isinstance(value, bool) or not isinstance(value, Real):
        raise ValueError(f"{name} must be a number, got {value!r}.")
    return float(value)


def whole(name: str, value: Any, least: int = 1, most: int | None = None) -> int:
    """Check that `value` is a whole number within bounds, and return it; raises ValueError otherwise."""
    is_whole = isinstance(value, Integral) and not isinstance(value, bool)
    if not is_whole or int(value) < least or (most is not None and int(value) > most):
        bounds = f"of at least {least}" if most is None else f"from {least} to {most}"
        raise ValueError(f"{name} must be a whole number {bounds}, got {value!r}.")
    return int(value)


def part(name: str, value: Any) -> float:
    """Check that `value` lies between 0 and 1, and return it; raises ValueError otherwise."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= 1:
        raise ValueError(f"{name} must be a number between 0 and 1, got {value!r}.")
    return float(value)


def one_of(name: str, value: Any, allowed: tuple[Any, ...]) -> Any:
    """Check that `value` is allowed, and return it; otherwise, raises ValueError with the allowed values."""
    if value not in allowed:
        raise ValueError(f"{name} must be {' or '.join(map(repr, allowed))}, got {value!r}.")
    return value
