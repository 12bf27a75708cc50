"""Options of environments: checks for their values, and maps as text, which `jaxrl edit` changes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from numbers import Real
from typing import Any, NamedTuple

import numpy as np

from jaxrl.config import MAX_COUNT, as_whole

__all__ = ["TextMap", "as_rows", "flag", "number", "one_of", "part", "table", "whole"]


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


def whole(name: str, value: Any, least: int = 1, most: int = MAX_COUNT) -> int:
    """Check that `value` is a whole number within bounds, and return it; raises ValueError otherwise."""
    return as_whole(name, value, least, most)


def part(name: str, value: Any) -> float:
    """Check that `value` lies between 0 and 1, and return it; raises ValueError otherwise."""
    if isinstance(value, bool) or not isinstance(value, Real) or not 0 <= float(value) <= 1:
        raise ValueError(f"{name} must be a number between 0 and 1, got {value!r}.")
    return float(value)


def table(name: str, value: Any) -> np.ndarray:
    """Check that `value` is an array of finite numbers, and return it as float32; raises ValueError otherwise."""
    try:
        numbers = np.asarray(value)
    except ValueError:  # rows of different lengths
        numbers = np.empty(0, object)
    if numbers.dtype.kind not in "biuf" or not (np.abs(numbers) <= np.finfo(np.float32).max).all():
        raise ValueError(f"{name} must be a table of finite numbers, whose rows are equally long, got {value!r}.")
    return numbers.astype(np.float32)


def one_of(name: str, value: Any, allowed: tuple[Any, ...]) -> Any:
    """Check that `value` is allowed, and return it; otherwise, raises ValueError with the allowed values."""
    if value not in allowed:
        raise ValueError(f"{name} must be {' or '.join(map(repr, allowed))}, got {value!r}.")
    return value


class TextMap(NamedTuple):
    """An environment's map as text."""

    env: str
    """The name of the environment that takes such a text, such as `overcooked`."""
    option: str
    """Its option for the text, such as `layout`."""
    rows: tuple[str, ...]
    """From the top, all of the same length."""
    tiles: Mapping[str, str]
    """What each character means."""
    wall: str
    """The character that closes the map."""
    standing: str
    """The characters of what stands on the floor, such as cooks."""
    others: Mapping[str, Any] = {}
    """Options that go with the map, such as `recipes`."""
    ground: str = ""
    """The characters of grounds besides the floor, which a new row or column takes over."""
    file: str = ""
    """The file that keeps a text too long for a name; empty if there is none."""
    text: Callable[[Sequence[str]], str] = "|".join
    """The text with these rows."""
    note: str = ""
    """What belongs to the map and is not drawn."""


def as_rows(text: str) -> list[str]:
    """The rows of a text: separated by `|`, or in a line each, where spaces around a row do not count."""
    if "|" in text:
        return text.strip("\n").split("|")
    return [row for line in text.split("\n") if (row := line.strip())]
