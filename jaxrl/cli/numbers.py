"""Numbers on the command line: `--total-timesteps 1e6` means 1000000, and several stand apart."""

from __future__ import annotations

from typing import Any

from tyro.constructors import ConstructorRegistry, PrimitiveConstructorSpec, PrimitiveTypeInfo

from jaxrl.fields import typed

__all__ = ["WHOLE", "apart"]

WHOLE = ConstructorRegistry()
"""For `tyro.cli(registry=…)`."""


def apart(flag: str, *values: str) -> ValueError:
    """The error for a flag's numbers with commas in between."""
    words = " ".join(word for value in values for word in value.strip("[]()").split(",") if word)
    return ValueError(f"{flag} takes values with spaces in between: {flag} {words}.")


@WHOLE.primitive_rule
def _whole(info: PrimitiveTypeInfo) -> PrimitiveConstructorSpec[int] | None:
    """The rule for int fields; None leaves all other fields to tyro."""
    if info.type is not int:
        return None
    return PrimitiveConstructorSpec(
        nargs=1,
        metavar="INT",
        instance_from_str=lambda words: _read(words[0]),
        is_instance=_is_int,
        str_from_instance=lambda number: [str(number)],
    )


def _read(word: str) -> int:
    try:
        return int(word)
    except ValueError:
        pass
    try:
        number = float(word)
    except ValueError:
        raise ValueError(f"{word!r} is not a whole number") from None
    return typed("it", int, number)


def _is_int(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
