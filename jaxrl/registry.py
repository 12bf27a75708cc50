"""Names to environments: `make`, `register`, `list_envs`."""

from __future__ import annotations

import fnmatch
import importlib
import inspect
from collections.abc import Callable
from typing import Any

from jaxrl.environment import Environment
from jaxrl.errors import UnknownNameError, nearest

__all__ = ["canonical", "list_envs", "make", "register"]

_FACTORIES: dict[str, str | Callable[..., Environment]] = {}
_FIXED: dict[str, dict[str, Any]] = {}
_ALIASES: dict[str, str] = {}
_FAMILIES = ("jaxrl.envs",)  # imported on first use; each registers its environments


def register(
    env_id: str,
    factory: str | Callable[..., Environment],
    *,
    aliases: tuple[str, ...] = (),
    options: dict[str, Any] | None = None,
) -> None:
    """Make `env_id` (form `family/name`) known to `make`.

    Args:
        env_id: The name users type.
        factory: A callable that returns the environment, or "module:callable", imported on first use.
        aliases: Other names for it, such as Gymnasium's or JaxMARL's.
        options: Keyword arguments always given to the factory.

    Raises:
        ValueError: If a name is taken or has a question mark in it.
    """
    for name in (env_id, *aliases):
        if not name or "?" in name:
            raise ValueError(
                f"An environment's name is text without a question mark, such as family/name, not {name!r}."
            )
        if name in _FACTORIES or name in _ALIASES:
            raise ValueError(f"The environment name {name!r} is already taken; choose another.")
    _FACTORIES[env_id] = factory
    _FIXED[env_id] = options or {}
    _ALIASES.update(dict.fromkeys(aliases, env_id))


def make(env_id: str, **options: Any) -> Any:
    """The environment of that name, e.g. `make("smax/3m")`; `options` go to its constructor.

    Options can stand in the name as well: `make("smax/3m?max_steps=50")`. With a colon it is an environment of another
    library, `make("jaxmarl:overcooked")` or `make("gymnax:Breakout-MinAtar")`; see `jaxrl.interop`.

    Raises:
        UnknownNameError: Unknown name; the message lists the nearest ones.
        TypeError: An option that the environment does not have, or a name that is not text.
        ValueError: A value that an option cannot have.
    """
    if not isinstance(env_id, str):
        raise TypeError(f'make takes a name such as "smax/3m", not a {type(env_id).__name__}.')
    _load()
    name, _, query = env_id.partition("?")
    name = _ALIASES.get(name, name)
    library, colon, theirs = name.partition(":")
    if colon and name not in _FACTORIES:
        return importlib.import_module("jaxrl.interop").make_foreign(library, theirs, **{**_parse(query), **options})
    if name not in _FACTORIES:
        known = [*_FACTORIES, *_ALIASES]
        raise UnknownNameError(f"There is no environment {name!r}. {nearest(name, known)} `jaxrl envs` lists all.")
    factory = _factory(name)
    options = {**_parse(query), **options}
    _check_options(name, factory, options)
    env = factory(**_FIXED[name], **options)
    env.name = name
    return env


def canonical(env_id: str) -> str:
    """The name behind an alias, with the options that stand in it; what is no alias comes back as it is."""
    _load()
    name, mark, query = env_id.partition("?")
    return _ALIASES.get(name, name) + mark + query


def list_envs(pattern: str = "*") -> list[str]:
    """The registered names that match a shell pattern (a bare word matches anywhere), sorted."""
    _load()
    if not any(c in pattern for c in "*?["):
        pattern = f"*{pattern}*"
    return sorted(name for name in _FACTORIES if fnmatch.fnmatch(name, pattern))


def _load() -> None:
    for module in _FAMILIES:
        importlib.import_module(module)


def _factory(name: str) -> Callable[..., Environment]:
    factory = _FACTORIES[name]
    if isinstance(factory, str):
        module, _, attribute = factory.partition(":")
        factory = getattr(importlib.import_module(module), attribute)
    return factory


def _check_options(name: str, factory: Callable[..., Environment], options: dict[str, Any]) -> None:
    """Raise a TypeError for an option that the factory does not have, or that the name itself decides."""
    parameters = inspect.signature(factory).parameters.values()
    if any(p.kind is p.VAR_KEYWORD for p in parameters):
        return
    allowed = [p.name for p in parameters if p.name not in _FIXED[name] and p.kind is not p.VAR_POSITIONAL]
    for option in options:
        if option in _FIXED[name]:
            raise TypeError(f"The name {name!r} decides {option!r} itself; leave that option out.")
        if option not in allowed:
            has = f"It has {', '.join(allowed)}." if allowed else "It has none."
            raise TypeError(f"{name} has no option {option!r}. {has}")


def _parse(query: str) -> dict[str, Any]:
    """`"a=1&b=x"` as `{"a": 1, "b": "x"}`: numbers and booleans are recognised, all else stays text."""
    options: dict[str, Any] = {}
    for pair in filter(None, query.split("&")):
        key, equals, text = pair.partition("=")
        if not equals or not text:
            raise ValueError(f"The option {pair!r} in an environment name needs a value: {pair}=…")
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
    return text
