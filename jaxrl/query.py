"""The options of an environment as text behind its name: `smax/3m?max_steps=50&mode=selfplay`."""

from __future__ import annotations

import json
from typing import Any

__all__ = ["parse_options", "spelled"]


def spelled(name: str, options: dict[str, Any]) -> str:
    """The inverse of `parse_options`, after the name; empty if an option cannot be written in a name."""
    texts = {option: _text(value) for option, value in options.items()}
    if not all(text and "&" not in text for text in texts.values()):
        return ""
    query = "&".join(f"{option}={text}" for option, text in texts.items())
    return f"{name}?{query}" if query else name


def parse_options(query: str) -> dict[str, Any]:
    """`"a=1&b=x"` as `{"a": 1, "b": "x"}`: numbers, booleans and JSON's lists are recognised, all else is text."""
    options: dict[str, Any] = {}
    for pair in filter(None, query.split("&")):
        key, equals, text = pair.partition("=")
        if not equals or not text:
            raise ValueError(f"The option {key!r} in an environment name needs a value: {key}=…")
        if key in options:
            raise ValueError(f"The option {key!r} stands twice in the environment name's {query!r}; keep one of them.")
        options[key] = _literal(text)
    return options


def _literal(text: str) -> Any:
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            pass
    if text.startswith("["):
        try:
            return json.loads(text)
        except ValueError:
            pass
    return text


def _text(value: Any) -> str:
    """The inverse of `_literal`; empty if there is none."""
    if isinstance(value, list | tuple):
        try:
            return json.dumps(value, separators=(",", ":"))
        except TypeError:  # such as an array
            return ""
    return str(value) if isinstance(value, bool | int | float | str) else ""
