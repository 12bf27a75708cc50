"""JSON files that survive a power cut, hold no bare NaN, and report damage in a sentence; and the types in them."""

from __future__ import annotations

import collections.abc
import dataclasses
import json
import math
import types
import typing
from pathlib import Path
from typing import Any, Literal, Union

from jaxrl.durable import replace_file

__all__ = [
    "DamagedFileError",
    "dataclass_from_json",
    "from_json",
    "infinities_as_text",
    "parse",
    "plain",
    "read_json",
    "to_json",
    "write_json",
]


class DamagedFileError(ValueError):
    """A file is not valid JSON, or has the wrong content; the message names the file."""


def write_json(path: Path, content: dict[str, Any], indent: int | None = 2) -> None:
    """Replace a file atomically: readers, even after a power cut, find either the old content or the new one.

    Args:
        path: The file; its folder must exist.
        content: JSON-able; numbers that are not finite become null.
        indent: The indentation of the text; None for a single line.

    Raises:
        OSError: It cannot be written; the old file is unchanged.
    """
    replace_file(path, (to_json(content, indent) + "\n").encode())


def read_json(path: Path) -> dict[str, Any]:
    """The object in a JSON file.

    Raises:
        FileNotFoundError: There is no such file.
        OSError: It cannot be read.
        DamagedFileError: It does not hold a JSON object.
    """
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        raise FileNotFoundError(f"There is no {path}.") from None
    except OSError as error:
        raise OSError(f"{path} cannot be read: {error.strerror or error}.") from error
    return parse(data, str(path))


def parse(data: bytes, name: str) -> dict[str, Any]:
    """Parse a JSON object; a bare NaN or Infinity, which is not valid JSON, counts as null.

    Args:
        data: The text in UTF-8.
        name: The name in error messages, for example the file it comes from.

    Raises:
        DamagedFileError: The text is not a JSON object.
    """
    try:
        content = json.loads(data.decode(), parse_constant=lambda _: None)
    except (ValueError, RecursionError) as error:  # bad UTF-8 is a ValueError too
        reason = "it is empty" if not data.strip() else str(error).splitlines()[0]
        raise DamagedFileError(f"{name} is damaged: {reason}.") from error
    if not isinstance(content, dict):
        raise DamagedFileError(f"{name} is damaged: it should hold an object, not a {type(content).__name__}.")
    return content


def to_json(content: Any, indent: int | None = None) -> str:
    """JSON text, with null for numbers that are not finite."""
    return json.dumps(plain(content), indent=indent, allow_nan=False)


def plain(content: Any) -> Any:
    """JSON-able data as it is after writing and reading: tuples become lists, numbers that are not finite None."""
    if isinstance(content, dict):
        return {key: plain(value) for key, value in content.items()}
    if isinstance(content, list | tuple):
        return [plain(value) for value in content]
    return None if isinstance(content, float) and not math.isfinite(content) else content


_INFINITIES = {"inf": math.inf, "-inf": -math.inf, "nan": math.nan}
_END = 2**63  # the first number that does not fit in an int64


def infinities_as_text(value: Any) -> Any:
    """JSON-able data with numbers that are not finite as words, which `from_json` turns back."""
    if isinstance(value, dict):
        return {name: infinities_as_text(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [infinities_as_text(inner) for inner in value]
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
    # Unions and containers, whose parts are converted in turn.
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
    # Choices, dictionaries with known names, dataclasses, and plain values.
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
    """The inverse of `infinities_as_text(dataclasses.asdict(…))`.

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
        if field.default is not dataclasses.MISSING and infinities_as_text(field.default) == value:
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
    if hint is float and isinstance(value, str) and value in _INFINITIES:
        return _INFINITIES[value]
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
