"""Checks values that users type: each fits its annotation, or a message says what it must be.

Whole floats such as 2e4 count as whole numbers, NumPy's numbers as Python numbers, and lists as tuples.
"""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Collection
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import numpy as np

__all__ = ["MAX_COUNT", "MAX_SEED", "Name", "Pairs", "as_seed", "as_whole", "settled", "typed"]

MAX_COUNT = 2**31 - 1
"""The largest number that an int32 holds."""

MAX_SEED = 2**32 - 1
"""JAX makes keys from seeds modulo 2^32, so a larger seed would silently repeat another run."""

_TINY, _HUGE = float(np.finfo(np.float32).tiny), float(np.finfo(np.float32).max)

Config = TypeVar("Config")

if TYPE_CHECKING:
    Name = Any
    Pairs = Any
else:
    Name = str
    Pairs = tuple[str, ...]
"""`Name` is a field that holds a name; the config also takes the thing itself, such as an environment, and keeps its
name. `Pairs` is one that holds ("key=value", …); the config also takes a dict."""


def typed(name: str, hint: Any, value: Any) -> Any:
    """`value` converted to the annotation `hint`: bool, int, float, str, a Literal, tuples and unions of these.

    Other annotations accept any value.

    Args:
        name: The name of the value in messages.
        hint: The resolved annotation (see `typing.get_type_hints`).
        value: The given value.

    Raises:
        ValueError: The value does not fit, or is a float that is not finite in float32.
    """
    try:
        return _converted(hint, value)
    except _OtherError:
        raise ValueError(f"{name} must be {_words(hint)}; got {value!r}.") from None


def as_whole(name: str, value: Any, least: int = 1, most: int | None = None) -> int:
    """`value` as an int.

    Raises:
        ValueError: It is not a whole number, less than `least`, or more than `most`.
    """
    try:
        number = _converted(int, value)
    except _OtherError:
        number = None
    too_large = number is not None and most is not None and number > most
    if number is None or number < least or too_large:
        tells_most = most not in (None, MAX_COUNT) or too_large
        bounds = f"from {least} to {most}" if tells_most else f"of at least {least}"
        raise ValueError(f"{name} must be a whole number {bounds}, got {value!r}.")
    return number


def as_seed(name: str, value: Any) -> int:
    """`value` as a seed, an int from 0 to `MAX_SEED`; raises ValueError otherwise."""
    return as_whole(name, value, 0, MAX_SEED)


def settled(config: Config, because: Collection[str] | None = None, keep: Collection[str] = ()) -> Config:
    """A config without leftovers: fields that have no effect because of other fields go back to their defaults.

    This is for a preset, or another base, with some fields replaced: `memory="none"` leaves behind a `memory_size`
    that the user did not ask for.

    Args:
        config: A config; one without a method `idle` (see `OnPolicyConfig.idle`) is returned unchanged.
        because: The fields that were replaced; None for all.
        keep: Fields to leave unchanged.
    """
    if not hasattr(config, "idle"):
        return config
    given: Any = config
    dropped = {rule.field for rule in given.idle(because=because)} - set(keep)
    defaults = {field.name: field.default for field in dataclasses.fields(given) if field.name in dropped}
    return dataclasses.replace(given, **defaults) if dropped else config


class _OtherError(Exception):
    """The value does not fit the annotation."""


def _converted(hint: Any, value: Any) -> Any:
    origin, arms = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        return _first(arms, value)
    if origin is Literal or hint is type(None):
        return _choice(arms if origin is Literal else (None,), value)
    if origin is tuple:
        return _tuple(arms, value)
    if hint is bool:
        return bool(_checked(value, isinstance(value, bool | np.bool_)))
    if hint is int:
        return _int(value)
    if hint is float:
        return _float(value)
    return _checked(value, hint is not str or isinstance(value, str))


def _first(arms: tuple[Any, ...], value: Any) -> Any:
    """`value` converted to the first annotation that accepts it."""
    for arm in arms:
        try:
            return _converted(arm, value)
        except _OtherError:
            pass
    raise _OtherError


def _choice(choices: tuple[Any, ...], value: Any) -> Any:
    """The choice that `value` is: equal and of its type, so that True is not 1."""
    for choice in choices:
        if isinstance(value, type(choice)) and isinstance(value, bool) == isinstance(choice, bool) and value == choice:
            return choice
    raise _OtherError


def _tuple(arms: tuple[Any, ...], value: Any) -> tuple[Any, ...]:
    _checked(value, isinstance(value, list | tuple))
    if arms[-1] is not Ellipsis:
        _checked(value, len(value) == len(arms))
        return tuple(_converted(arm, each) for arm, each in zip(arms, value, strict=True))
    return tuple(_converted(arms[0], each) for each in value)


def _int(value: Any) -> int:
    """Convert integers, and reals without a fraction; True and False are rejected."""
    value = _held(value)
    _checked(value, isinstance(value, Real) and not isinstance(value, bool))
    return int(_checked(value, isinstance(value, Integral) or float(value).is_integer()))


def _float(value: Any) -> float:
    """Convert reals within the range of float32, in which everything is computed."""
    value = _held(value)
    _checked(value, isinstance(value, Real) and not isinstance(value, bool))
    number = float(value)
    return _checked(number, number == 0 or _TINY <= abs(number) <= _HUGE)


def _held(value: Any) -> Any:
    """The number in an array without axes, such as `jnp.float32(1e-3)`; anything else as it is."""
    if isinstance(value, Real) or getattr(value, "shape", None) != () or not hasattr(value, "item"):
        return value
    try:
        return value.item()
    except TypeError:  # a traced one, which holds none yet
        return value


def _checked(value: Any, fits: bool) -> Any:
    if not fits:
        raise _OtherError
    return value


def _words(hint: Any) -> str:
    """A description of the annotation that follows "must be"."""
    origin, arms = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        return " or ".join(map(_words, arms))
    if origin is Literal:
        return f"one of {', '.join(map(str, arms))}"
    if origin is tuple and arms[-1] is Ellipsis:
        return f"a tuple, each entry {_words(arms[0])}"
    if origin is tuple:
        return f"a tuple of {len(arms)}, each entry {_words(arms[0])}"
    words = {bool: "True or False", int: "a whole number", float: "a finite number that float32 has", str: "text"}
    return words.get(hint, "None")
