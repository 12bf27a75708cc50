"""Names to environments: `make`, `register`, `list_envs`, and options behind a name, `smax/3m?max_steps=50`."""

from __future__ import annotations

import fnmatch
import functools
import importlib
import importlib.metadata
import inspect
import json
import re
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

from jaxrl.environment import Environment
from jaxrl.errors import UnknownNameError, nearest
from jaxrl.source_file import class_reference, load_named

__all__ = [
    "aliases",
    "canonical",
    "hint_elsewhere",
    "list_envs",
    "lives_here",
    "made_name",
    "make",
    "name_of",
    "own_code",
    "own_params",
    "parse_options",
    "register",
    "same_name",
    "shared",
    "shown_name",
    "spelled",
    "with_text",
]

_FACTORIES: dict[str, str | Callable[..., Environment]] = {}
_FIXED: dict[str, dict[str, Any]] = {}
_ALIASES: dict[str, str] = {}
_TEXTS: dict[str, tuple[str, str]] = {}  # by family: which environment takes the text of a file, and in which option
_FAMILIES = ("jaxrl.envs",)  # imported on first use; each registers its environments
_LIBRARIES = ("brax", "craftax", "gymnax", "jaxmarl", "jumanji", "mjx", "navix", "pgx")  # each a file of interop
_ONLY_IN_JAXMARL = ("ant_4x2", "halfcheetah_6x1", "hopper_3x1", "humanoid_9|8", "walker2d_2x3")
_IN_PYTHON = ("dm_env", "gym", "gymnasium", "pettingzoo")  # libraries whose environments no compiled program can call
_OTHER_RULES = {"storm_2p": "storm", "storm_np": "storm?num_agents=4"}  # JaxMARL's ids, and what comes closest here
_OBJECT = "object"  # the place of environments that are objects of this process
_OBJECTS: dict[str, Environment] = {}
_MADE: dict[tuple[str, Any], Environment] = {}  # the first environment of each registered name with options


def register(
    env_id: str,
    factory: str | Callable[..., Environment],
    *,
    aliases: tuple[str, ...] = (),
    options: dict[str, Any] | None = None,
    replace: bool = False,
    text_option: str = "",
) -> None:
    """Make `env_id` (form `family/name`) known to `make`.

    A class that a notebook defines anew, by running a cell again, takes the place of the old one.

    Args:
        env_id: The name users type.
        factory: A callable that returns the environment, or "module:callable", imported on first use.
        aliases: Other names for it, such as Gymnasium's or JaxMARL's.
        options: Keyword arguments always given to the factory.
        replace: Whether the factory may take the place of another one with the same name.
        text_option: The option that takes the text of a file, so that `family/FILE.txt` is this environment with it.

    Raises:
        ValueError: If a name is taken or has a question mark in it.
    """
    replace = replace or _is_defined_anew(_FACTORIES.get(env_id), factory)
    for name in (env_id, *aliases):
        if not name or "?" in name:
            raise ValueError(
                f"An environment's name is text without a question mark, such as family/name, not {name!r}."
            )
        if not (replace and env_id in (name, _ALIASES.get(name))) and (name in _FACTORIES or name in _ALIASES):
            raise ValueError(f"The environment name {name!r} is already taken; choose another, or add replace=True.")
    _FACTORIES[env_id] = factory
    _FIXED[env_id] = options or {}
    if text_option:
        _TEXTS[env_id.partition("/")[0]] = env_id, text_option
    _ALIASES.update(dict.fromkeys(aliases, env_id))


def make(env_id: str, **options: Any) -> Any:
    """The environment of that name, e.g. `make("smax/3m")`; `options` go to its constructor.

    Options can stand in the name as well: `make("smax/3m?max_steps=50")`. A colon leads elsewhere: to a class, or a
    function that returns an environment, in a file or module of your own, `make("./my_env.py:MyEnv")` or
    `make("package.module:MyEnv")`, or to another library, `make("jaxmarl:overcooked")` or
    `make("gymnax:Breakout-MinAtar")`; see `jaxrl.interop`. Battles and maps come from files of text as well,
    `make("smax/my_battle.txt")`, relative to the current folder.

    Raises:
        UnknownNameError: Unknown name; the message lists the nearest ones. Or there is no such file.
        TypeError: An option that the environment does not have, or a name that is not text.
        ValueError: A value that an option cannot have.
    """
    if not isinstance(env_id, str):
        raise TypeError(f'make takes a name such as "smax/3m", not a {type(env_id).__name__}.')
    _load()
    name, _, query = with_text(env_id).partition("?")
    name = _ALIASES.get(name, name)
    options = {**parse_options(query), **options}
    place, colon, attribute = name.rpartition(":")
    registered, _ = _takes_text(name) or (name, "")
    if registered in _FACTORIES:
        factory = _factory(registered)
    elif place == _OBJECT:
        return _object(attribute)
    elif colon and place in _LIBRARIES:
        env = importlib.import_module("jaxrl.interop").make_foreign(place, attribute, **options)
        _label(env, made_as=spelled(name, options))
        return env
    elif colon:
        factory = _own_factory(place, attribute)
    elif name.endswith(".py"):
        raise UnknownNameError(f"{name} is a file; say which class in it is the environment, {name}:CLASS.")
    else:
        hint = hint_elsewhere(name) or nearest(name, [*_FACTORIES, *_ALIASES])
        raise UnknownNameError(f"There is no environment {name!r}. {hint} `jaxrl envs` lists all.")
    _check_options(registered, factory, options)
    env = factory(**_FIXED.get(registered, {}), **options)
    if not isinstance(env, Environment):
        raise TypeError(f"{name} returns a {type(env).__name__}; it must return an environment.")
    _label(env, name=shown_name(name), made_as=spelled(name, options))
    return env


def with_text(env_id: str) -> str:
    """The name of a file, such as `smax/my_battle.txt`, with what is in it; all other names stay as they are.

    `smax/my_battle.txt?scenario=…` makes the environment even when the file has changed or gone.

    Raises:
        UnknownNameError: There is no such file of text.
        ValueError: It is empty, or has an & in it.
    """
    name, _, query = env_id.partition("?")
    if name.endswith(".txt"):
        _load()
    if not (found := _takes_text(name)) or found[1] in (options := parse_options(query)):
        return env_id
    family, _, file = name.partition("/")
    try:
        lines = Path(file).read_text(encoding="utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise UnknownNameError(f"{family}/FILE.txt reads a file, but in {Path.cwd()}: {error}.") from None
    for number, line in enumerate(lines, 1):
        if "&" in line:
            raise ValueError(f"{file}, line {number}: an & ends a text in an environment's name; leave it out.")
    if not any(lines):
        raise ValueError(f"{file} is empty.")
    return spelled(f"{family}/{Path(file).name}", {**options, found[1]: "|".join(lines).rstrip("|")})


def _takes_text(name: str) -> tuple[str, str] | None:
    """The environment behind `family/FILE.txt`, and its option for the text; None for all other names."""
    family, _, file = name.partition("/")
    return _TEXTS.get(family) if file.endswith(".txt") and name not in _FACTORIES else None


def name_of(env: Any) -> str:
    """The name by which `make` finds an environment or its class; a name stays as it is, and a file is read.

    Args:
        env: An instance, which `make` returns itself unless it made it, or a class that needs no arguments; a class
            that is defined inside a function or class is instantiated here.

    Raises:
        ValueError: It is something else.
    """
    if isinstance(env, Environment):
        if env.made_as:
            return env.made_as
        label = f"{type(env).__name__}-{id(env):x}"
        _OBJECTS[label] = env
        return f"{_OBJECT}:{label}"
    if isinstance(env, type) and issubclass(env, Environment):
        return name_of(env()) if "." in env.__qualname__ else class_reference(env)  # no module has what is inside
    if not isinstance(env, str):
        call = getattr(env, "__name__", "")
        call = f", env={call}()" if call.isidentifier() else ""
        advice = f"; give what it returns{call}" if inspect.isfunction(env) else ""
        raise ValueError(f"env must be a name, or an environment of jaxrl or its class; got {env!r}{advice}.")
    return with_text(env)


def shared(env: Environment) -> Environment:
    """The first environment of the same registered name and options, or `env` itself: for compiled programs."""
    name = env.made_as.partition("?")[0]
    factory = _FACTORIES.get((_takes_text(name) or (name,))[0])
    return _MADE.setdefault((env.made_as, factory), env) if factory else env


def lives_here(env_id: str) -> str | None:
    """The environment's class, if no other process can make it because it exists only in this process or notebook."""
    place, _, attribute = env_id.partition("?")[0].rpartition(":")
    return attribute.partition("-")[0] if place in (_OBJECT, "__main__") else None


def canonical(env_id: str) -> str:
    """The name behind an alias, or with the text of a file, and its options; any other name stays as it is."""
    _load()
    name, mark, query = with_text(env_id).partition("?")
    return _ALIASES.get(name, name) + mark + query


def shown_name(env_id: str) -> str:
    """The name under which an environment is shown, wherever it was loaded from.

    It is the one behind an alias; a class in a file is shown without the folder, as `my_env.py:MyEnv`, and a text as
    `smax/my_battle`.
    """
    own = own_code(env_id)
    name, mark, query = env_id.partition("?")
    if text := _takes_text(name):
        short = f"{name.partition('/')[0]}/{Path(name).stem}"
        others = "&".join(pair for pair in query.split("&") if pair.partition("=")[0] != text[1])
        return (f"{short}.txt" if short in _FACTORIES else short) + (f"?{others}" if others else "")
    if own is None or not own[0].endswith(".py"):
        return canonical(env_id)
    return f"{Path(own[0]).name}:{own[1]}{mark}{query}"


def made_name(env: Environment) -> str:
    """The name by which the environment, or the one in its wrappers, was made."""
    from jaxrl.wrappers.base import nested  # wrappers are seldom needed to make an environment

    return next((each.made_as for each in nested(env) if each.made_as), env.name)


def same_name(one: str, other: str) -> bool:
    """True if two names are of one environment, wherever it was loaded from, with the options in any order."""
    return sorted(re.split("[?&]", shown_name(one))) == sorted(re.split("[?&]", shown_name(other)))


def list_envs(pattern: str = "*") -> list[str]:
    """The registered names that match a shell pattern (a bare word matches anywhere), sorted; otherwise, those with an
    alias that matches. Capitals make no difference. `brax:` and so on lists another library's, `brax:*walk*` some.

    Raises:
        ImportError: The pattern names a library that is not installed.
    """
    _load()
    library, colon, rest = pattern.partition(":")
    library = library.lower()
    foreign = colon and library in _LIBRARIES
    pattern = f"{pattern}*" if foreign and not rest else pattern
    pattern = pattern.lower() if any(c in pattern for c in "*?[") else f"*{pattern.lower()}*"

    def matches(name: str) -> bool:
        return fnmatch.fnmatchcase(name.lower(), pattern)

    if foreign:
        return sorted(filter(matches, importlib.import_module("jaxrl.interop").foreign_names(library)))
    aliased = {name for alias, name in _ALIASES.items() if matches(alias)}
    return sorted(filter(matches, _FACTORIES)) or sorted(aliased)


def aliases() -> list[str]:
    """The other names of registered environments, such as Gymnasium's, sorted."""
    _load()
    return sorted(_ALIASES)


def own_code(env_id: str) -> tuple[str, str] | None:
    """The file or module and the class of a name that leads to the user's own code; None for all other names."""
    name = env_id.partition("?")[0]
    place, colon, attribute = name.rpartition(":")
    _load()
    is_own = colon and name not in _FACTORIES and place not in (*_LIBRARIES, _OBJECT)
    return (place, attribute) if is_own else None


def own_params(name: str) -> Any:
    """The parameters to choose from, or the function that draws them, of a name such as `./worlds.py:draw`.

    See `jaxrl.wrappers.RandomParams`.

    Raises:
        UnknownNameError: The name leads nowhere; the message says what to type.
    """
    place, colon, attribute = name.rpartition(":")
    if not colon:
        raise UnknownNameError(f"params={name!r} names nothing; write ./FILE.py:NAME or package.module:NAME.")
    return load_named(place, attribute)


def hint_elsewhere(name: str) -> str:
    """Advice for another library's name, or for its id that is not an alias here; empty for all other names."""
    if name.lower() in _LIBRARIES:
        return f"Say {name.lower()}:NAME for one of that library's, which `jaxrl envs {name.lower()}:` lists."
    if name.lower() in _IN_PYTHON:
        return f"{_steps_in_python(name.lower())}."
    if name.startswith("ALE/"):
        return "Atari's emulator steps outside of compiled programs; minatar/NAME has small versions of five games."
    if name in _OTHER_RULES:
        return f"What comes closest to JaxMARL's is {_OTHER_RULES[name]}, whose rules differ; see docs/social_games.md."
    if name in _ONLY_IN_JAXMARL or name.endswith(("-bsuite", "-misc")):
        return f"Say {'jaxmarl' if name in _ONLY_IN_JAXMARL else 'gymnax'}:{name} for that library's."
    return ""


def _steps_in_python(library: str) -> str:
    return f"The environments of {library} step in Python, and no compiled program can call them"


def _own_factory(place: str, attribute: str) -> Callable[..., Environment]:
    """A class or function of the user's own that makes an environment."""
    if place in _IN_PYTHON:
        own = f"say {attribute} for jaxrl's own" if attribute in _ALIASES else "`jaxrl envs` lists those that it can"
        raise UnknownNameError(f"{_steps_in_python(place)}; {own}.")
    known = ", ".join(f"{library}:NAME" for library in _LIBRARIES)
    known = f"{place.lower()}:{attribute}" if place.lower() in _LIBRARIES else f"one of {known}"
    factory = load_named(place, attribute, f", or {known} for another library's environment")
    if not callable(factory):
        raise UnknownNameError(
            f"{attribute!r} in {place} is not a class or function that returns an environment, but a "
            f"{type(factory).__name__}."
        )
    return cast(Callable[..., Environment], factory)


def _object(label: str) -> Environment:
    """The instance that `name_of` has seen."""
    if label not in _OBJECTS:
        raise UnknownNameError(
            f"The environment was an object of another process, {label.partition('-')[0]}; name a class in a file, "
            f"./FILE.py:CLASS, to find it from everywhere."
        )
    return _OBJECTS[label]


def _is_defined_anew(old: Any, new: Any) -> bool:
    """True if both are classes of the same name in the notebook or script that runs."""
    both = isinstance(old, type) and isinstance(new, type) and new.__module__ == "__main__" == old.__module__
    return both and old.__qualname__ == new.__qualname__


@functools.cache
def _load() -> None:
    for module in _FAMILIES:
        importlib.import_module(module)
    for package in importlib.metadata.entry_points(group="jaxrl.envs"):
        try:
            loaded = package.load()  # a module that registers its environments, or one environment's class or function
            if callable(loaded) and _FACTORIES.get(package.name) not in (loaded, package.value):
                register(package.name, cast(Callable[..., Environment], loaded))
        except Exception as error:  # a broken package must not hide all other environments
            warnings.warn(
                f"The environments of the package {package.name!r} are missing: importing {package.value} fails with "
                f"{type(error).__name__}: {error}. Reinstall that package, or remove it.",
                stacklevel=2,
            )


def _factory(name: str) -> Callable[..., Environment]:
    factory = _FACTORIES[name]
    if isinstance(factory, str):
        module, _, attribute = factory.partition(":")
        factory = getattr(importlib.import_module(module), attribute)
    return factory


def _check_options(name: str, factory: Callable[..., Environment], options: dict[str, Any]) -> None:
    """Raise a TypeError for an option that the factory lacks or needs, or that the name itself decides."""
    parameters, fixed = inspect.signature(factory).parameters.values(), _FIXED.get(name, {})
    if any(p.kind is p.VAR_KEYWORD for p in parameters):
        return
    allowed = [p.name for p in parameters if p.name not in fixed and p.kind is not p.VAR_POSITIONAL]
    for option in options:
        if option in fixed:
            other = _named_by(name, option, options[option])
            raise TypeError(f"The name {name!r} decides {option!r} itself; {other or 'leave that option out'}.")
        if option not in allowed:
            has = f"It has {', '.join(allowed)}." if allowed else "It has none."
            raise TypeError(f"{name} has no option {option!r}. {has}")
    needed = [p.name for p in parameters if p.default is p.empty and p.name in allowed and p.name not in options]
    if needed:
        values = "&".join(f"{option}=…" for option in needed)
        raise TypeError(f"{name} needs {' and '.join(map(repr, needed))}: type {name}?{values}.")


def _named_by(name: str, option: str, value: Any) -> str:
    """Advice to type the name like `name` with another value of an option that names decide; empty without one."""
    wanted = {**_FIXED[name], option: value}
    for other, fixed in _FIXED.items():
        if other != name and _FACTORIES[other] is _FACTORIES[name] and repr(fixed) == repr(wanted):
            return f"type {other} instead"
    return ""


def _label(env: Environment, **texts: str) -> None:
    """Set attributes of an environment, which may be a frozen dataclass; what its class computes stays."""
    for attribute, text in texts.items():
        if not isinstance(getattr(type(env), attribute, None), property):
            object.__setattr__(env, attribute, text)


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
