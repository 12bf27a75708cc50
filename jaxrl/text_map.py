"""Maps as text: what `jaxrl edit` changes, and how an environment's name holds one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

__all__ = ["TextMap", "as_rows"]


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


def as_rows(text: str) -> list[str]:
    """The rows of a text: separated by `|`, or in a line each, where spaces around a row do not count."""
    if "|" in text:
        return text.strip("\n").split("|")
    return [row for line in text.split("\n") if (row := line.strip())]
