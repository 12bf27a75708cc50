"""Options of other libraries' environments: names and values are checked, and what the library says is explained."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from jaxrl.errors import UnknownNameError, nearest
from jaxrl.fields import MAX_COUNT, as_whole, typed

__all__ = ["check_name", "clocked", "defaults", "explained", "fitting"]

_PLAIN = (bool, int, float, str)
_CLOCKS = ("max_steps", "max_steps_in_episode", "max_timesteps", "num_inner_steps", "time_limit", "n_frames")
"""What the libraries call the steps after which an episode is over; the last, brax's, are of physics in a step."""
_REFUSALS = (TypeError, ValueError, AttributeError, AssertionError, NotImplementedError, LookupError, ArithmeticError)


def check_name(library: str, name: str, known: Sequence[str]) -> None:
    """Raise UnknownNameError unless the library has an environment of that name; the message has the nearest."""
    if name not in known:
        raise UnknownNameError(f"{library} has no environment {name!r}. {nearest(name, known)}")


@contextmanager
def explained(library: str, name: str, advice: str = "") -> Iterator[None]:
    """Say what a library refuses: some look into what they are given before they check it.

    Raises:
        ValueError: The library raises one; the message has its own, and the advice.
        TypeError: It raises something else.
    """
    try:
        yield
    except _REFUSALS as error:
        why = str(error).rstrip(". \n")
        kind = ValueError if isinstance(error, ValueError) else TypeError
        raise kind(f"{library} cannot make {name} of these options: {why}. {advice}".rstrip()) from error


def defaults(function: Callable[..., Any]) -> dict[str, Any]:
    """The named arguments of a function or class, and their default values, None without one."""
    arguments = inspect.signature(function).parameters.values()
    named = [a for a in arguments if a.kind in (a.POSITIONAL_OR_KEYWORD, a.KEYWORD_ONLY)]
    return {a.name: None if a.default is a.empty else a.default for a in named}


def clocked(options: Mapping[str, Any]) -> dict[str, Any]:
    """The options, in which every clock has a step or more.

    Most libraries take 0, and end each episode after one step or stand still. What None means is theirs to say.

    Raises:
        ValueError: A number of steps is not a whole number, or less than 1.
    """
    counted = {name: options[name] for name in _CLOCKS if options.get(name) is not None}
    return {**options, **{name: as_whole(name, value, most=MAX_COUNT) for name, value in counted.items()}}


def fitting(label: str, options: Mapping[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """The options, converted to the types of the values whose place they take.

    Args:
        label: What has these options, for messages.
        options: The given ones.
        values: The value of each option that there is; where it is no number or text, any value is accepted.

    Raises:
        TypeError: There is no such option.
        ValueError: A value is not of the type, or a clock has no steps.
    """
    for name in options:
        if name not in values:
            has = f"It has {', '.join(values)}." if values else "It has none."
            raise TypeError(f"{label} has no option {name!r}. {has}")
    kinds = {name: type(values[name]) if isinstance(values[name], _PLAIN) else Any for name in options}
    return clocked({name: typed(name, kinds[name], value) for name, value in options.items()})
