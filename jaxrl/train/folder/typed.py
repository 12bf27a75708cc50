"""Checks values read from JSON against the types that they should have."""

from __future__ import annotations

import collections.abc
import dataclasses
import math
import types
import typing
from typing import Any, Literal, Union

__all__ = ["dataclass_from_json", "from_json", "spelled"]

_SPELLED = {"inf": math.inf, "-inf": -math.inf, "nan": math.nan}
_END = 2**63  # the first number that does not fit in an int64


def spelled(value: Any) -> Any:
    """JSON-able data with numbers that are not finite spelled as words; `from_json` turns these back into numbers."""
    if isinstance(value, dict):
        return {name: spelled(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [spelled(inner) for inner in value]
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def from_json(hint: Any, value: Any, name: str) -> Any:
    """`value` converted to `hint`, with the tuples, dataclasses and infinite numbers that JSON lacks.

    Args:
        hint: A type as in annotations; types not known here accept everything.
        value: The value read from JSON.
        name: The name of the value in error messages.

    Raises:
        ValueError: The value has another type, or is a whole number of more than 64 bits.
    """
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (Union, types.UnionType):
        return _first_fit(arguments, value, name, hint)
    if origin is tuple:
        return _tuple(arguments, value, name, hint)
    if origin is list:
        _insist(isinstance(value, list), name, hint, value)
        return [from_json(arguments[0], each, f"{name}[{i}]") for i, each in enumerate(value)]
    if origin in (dict, collections.abc.Mapping):
        _insist(isinstance(value, dict), name, hint, value)
        return {key: from_json(arguments[1], each, f"{name}.{key}") for key, each in value.items()}
    if origin is Literal:
        _insist(any(value == each and type(value) is type(each) for each in arguments), name, hint, value)
        return value
    if typing.is_typeddict(hint):
        _insist(isinstance(value, dict), name, hint, value)
        return _typed_dict(hint, value, name)
    if dataclasses.is_dataclass(hint):
        _insist(isinstance(value, dict), name, hint, value)
        return dataclass_from_json(typing.cast(type, hint), value, name)
    return _scalar(hint, value, name)


def dataclass_from_json(kind: type, content: dict[str, Any], name: str = "") -> Any:
    """The inverse of `spelled(dataclasses.asdict(…))`.

    Args:
        kind: The dataclass.
        content: Its fields; missing ones get their defaults.
        name: The name of the value in error messages.

    Raises:
        ValueError: A field is unknown, missing or rejected by the class.
    """
    hints = typing.get_type_hints(kind)
    fields = {field.name: field for field in dataclasses.fields(kind) if field.init}
    _know(fields, content, kind.__module__, name)
    none = dataclasses.MISSING
    _need([n for n, f in fields.items() if f.default is none and f.default_factory is none], content, name)
    return kind(**{key: _field(fields[key], hints[key], value, _dotted(name, key)) for key, value in content.items()})


def _field(field: dataclasses.Field[Any], hint: Any, value: Any, name: str) -> Any:
    try:
        made = from_json(hint, value, name)
        if isinstance(made, list) and list not in (hint, typing.get_origin(hint)):
            return tuple(tuple(inner) if isinstance(inner, list) else inner for inner in made)  # JSON has no tuples
        return made
    except ValueError:
        if field.default is not dataclasses.MISSING and spelled(field.default) == value:
            return field.default  # whatever its annotation says
        raise


def _typed_dict(kind: Any, content: dict[str, Any], name: str) -> dict[str, Any]:
    """A dict with the fields of a TypedDict converted; other fields are left as they are."""
    hints = typing.get_type_hints(kind)
    _need(sorted(kind.__required_keys__), content, name)
    return {
        key: from_json(hints[key], value, _dotted(name, key)) if key in hints else value
        for key, value in content.items()
    }


def _first_fit(kinds: tuple[Any, ...], value: Any, name: str, hint: Any) -> Any:
    """The value as the first type that accepts it; if there is only one type besides None, its error is raised."""
    some = [kind for kind in kinds if kind is not type(None)]
    if value is None and len(some) < len(kinds):
        return None
    if len(some) == 1:
        return from_json(some[0], value, name)
    for kind in some:
        try:
            return from_json(kind, value, name)
        except ValueError:
            continue
    raise _error(name, hint, value)


def _tuple(kinds: tuple[Any, ...], value: Any, name: str, hint: Any) -> tuple[Any, ...]:
    _insist(isinstance(value, list), name, hint, value)
    if kinds[1:] == (...,):
        kinds = kinds[:1] * len(value)
    _insist(len(kinds) == len(value), name, hint, value)
    return tuple(from_json(kind, each, f"{name}[{i}]") for i, (kind, each) in enumerate(zip(kinds, value, strict=True)))


def _scalar(hint: Any, value: Any, name: str) -> Any:
    if hint is float and isinstance(value, str) and value in _SPELLED:
        return _SPELLED[value]
    if hint in (int, float):
        whole = isinstance(value, int) and not isinstance(value, bool) and -_END <= value < _END
        _insist(whole or (hint is float and isinstance(value, float)), name, hint, value)
    elif hint in (bool, str):
        _insist(isinstance(value, hint), name, hint, value)
    return value


def _insist(fits: bool, name: str, hint: Any, value: Any) -> None:
    if not fits:
        raise _error(name, hint, value)


def _error(name: str, hint: Any, value: Any) -> ValueError:
    if dataclasses.is_dataclass(hint) or typing.is_typeddict(hint):
        wanted = "an object"
    else:
        wanted = hint.__name__ if isinstance(hint, type) and not typing.get_args(hint) else str(hint)
    got = repr(value)
    return ValueError(f"{name} must be {wanted.replace('typing.', '')}, got {got if len(got) < 60 else got[:57] + '…'}")


def _know(known: Any, content: dict[str, Any], module: str, name: str) -> None:
    if unknown := sorted(set(content) - set(known)):
        raise ValueError(f"{module} has no option {', '.join(_dotted(name, key) for key in unknown)}")


def _need(needed: list[str], content: dict[str, Any], name: str) -> None:
    if missing := [key for key in needed if key not in content]:
        raise ValueError(f"{_dotted(name, missing[0])} is missing")


def _dotted(name: str, key: str) -> str:
    return f"{name}.{key}" if name else key
