"""The code that a run folder may execute: the library's, and what the user vouches for.

A run folder names code, such as the config class in run.json, and may come from anybody. What it names is jaxrl's own,
or a copy in its folder `source/`, which is read once: the bytes that were checked are the bytes that run. Neither a
copy nor anything else that is not jaxrl's own is used unless this user made the run on this machine, and so has a
record of it outside the run folder, or says that the run can be trusted.
"""

from __future__ import annotations

import contextlib
import dataclasses
import importlib
import json
import os
import re
import secrets
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import Any

from jaxrl.errors import shell_path
from jaxrl.registry import own_code
from jaxrl.source_file import SourceFile, load_source
from jaxrl.train.folder.json_file import read_json, write_json
from jaxrl.train.folder.sources import FOLDER, NAMED, read_copy
from jaxrl.wrappers.players import fixed_policies

__all__ = [
    "RunCode",
    "UntrustedRunError",
    "check_start",
    "data_asked_for",
    "foreign_names",
    "known_class",
    "load_code",
    "remember_class",
    "unvouched",
    "vouch",
]

_IMPORTABLE = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*")
"""A module's name."""
_DEFINED = {
    "algorithm": "algorithm is",
    "env": "environment is",
    "params": "parameters are",
    "network": "network is",
    "memory": "memory is",
    "optimizer": "optimiser is",
}
"""The words for what a file of each role defines."""
_START = "init_from"
"""The role of the run that this one began with, which matters only when it is trained again."""
_OFTEN_OURS = ("memory", "optimizer")
"""The fields that name what the library has by a word, and code by a name with a colon."""

_CLASSES: dict[str, type] = {}  # the config classes of this process's own runs, by their names
_TRUSTED: set[str] = set()  # what this process was told to trust: the folder, and what it names


class UntrustedRunError(ValueError):
    """Loading the run would execute code that nobody has vouched for."""


@dataclasses.dataclass(frozen=True)
class RunCode:
    """The code of a run: it was checked and may be used."""

    config_class: type
    names: dict[str, str]
    """For each field of the config that names a copy, the name by which this process finds it."""
    trusted: bool
    """True if the user vouches for everything that run.json names, other runs too."""
    own: bool
    """True if this user has made the run."""


def load_code(about: Mapping[str, Any], path: Path, trust: bool = False) -> RunCode:
    """Check what a run names, and load it.

    Args:
        about: The content of run.json.
        path: The run folder.
        trust: Use whatever it names.

    Raises:
        UntrustedRunError: Code would be executed that neither `trust` nor this user's records allow.
        ValueError: There is no such class, or it is not an algorithm's config; or a copy is not what run.json says.
        ImportError: A module cannot be imported, or a copy imports what is neither kept nor installed.
        FileNotFoundError: A copy reads a file that the run does not keep.
    """
    names = foreign_names(about)
    module = names.get("algorithm", ":").partition(":")[0]
    if "algorithm" in names and (not _IMPORTABLE.fullmatch(module) or module.partition(".")[0] == "jaxrl"):
        raise _no_config(about, path)
    kept = _copies(about, path, names)

    # Nothing has been executed so far, and nothing outside the folder has been read.
    own, memory = _vouched(about, names), _memory(about, path, names)
    if trust:
        _TRUSTED.add(memory)
    trusted = own or memory in _TRUSTED
    if not trusted and (asked := [role for role in names if role != _START]):
        raise _refusal(path, asked[0], names, kept)

    # From here on the user vouches for all of it.
    for role, file in kept.items():
        _load_copy(file, about, path, role)
    named = {role: file.path.absolute() for role, file in kept.items() if role in NAMED}
    found = {role: f"{place}:{names[role].partition(':')[2]}" for role, place in named.items()}
    return RunCode(_config_class(about, path, module), found, trusted, own)


def check_start(about: Mapping[str, Any], path: Path, trusted: bool) -> None:
    """Raise UntrustedRunError if training a run again would load another one that the user does not vouch for."""
    names = foreign_names(about)
    if _START in names and not trusted:
        raise _refusal(path, _START, names, {})


@contextlib.contextmanager
def data_asked_for(about: Mapping[str, Any], folder: Path) -> Iterator[None]:
    """Ask for the data files that copied code looks for beside itself: a run keeps none.

    Args:
        about: The content of run.json.
        folder: The run folder.

    Raises:
        FileNotFoundError: A file is missing there; the message says what to copy.
    """
    try:
        yield
    except FileNotFoundError as error:
        missing = Path(os.fsdecode(error.filename)) if isinstance(error.filename, str | bytes) else Path()
        place = (folder / FOLDER).absolute()
        if not missing.absolute().is_relative_to(place):
            raise
        inner = missing.absolute().relative_to(place)
        originals = [Path(source["path"]).absolute().parent / inner for source in about.get("sources", {}).values()]
        original = next(filter(os.path.exists, originals), originals[0])
        raise FileNotFoundError(
            f"The code of {folder} reads {inner}, and the run keeps no data: copy that file from where it lay into "
            f"{folder / FOLDER}, cp {shell_path(original)} {shell_path(folder / FOLDER / inner)}"
        ) from error


def _load_copy(copy: SourceFile, about: Mapping[str, Any], folder: Path, role: str) -> None:
    """Execute a copy; it finds what was copied with it, and what is installed."""
    try:
        with data_asked_for(about, folder):
            load_source(copy)
    except ImportError as error:
        raise ImportError(
            f"{copy.path}, where its {_DEFINED[role]} defined, cannot be imported here: {error}. Install what is "
            f"missing, or put the folder that it lies in on PYTHONPATH: type PYTHONPATH=FOLDER before the command."
        ) from error


def known_class(name: str) -> type | None:
    """The config class called `module:Class`, of one of the library's algorithms or of a run of this process's own."""
    return _of_library(name) or _CLASSES.get(name)


def remember_class(name: str, kind: type) -> None:
    """Let `known_class` find the config class of a run that this process trains or has loaded."""
    _CLASSES[name] = kind


def vouch(about: Mapping[str, Any]) -> dict[str, str]:
    """Remember that this user makes this run on this machine.

    Args:
        about: The content of run.json.

    Returns:
        Entries to add to run.json. Empty if all of its code is the library's, or if this user has no place for a
        record: when the run is loaded, it then counts as a stranger's.
    """
    names = foreign_names(about)
    if not names:
        return {}
    number = secrets.token_hex(16)
    try:
        place = _place()
        place.mkdir(parents=True, exist_ok=True)
        write_json(place / f"{number}.json", _record(about, names))
    except (OSError, RuntimeError):  # no home, no permission, no space
        return {}
    return {"trust_id": number}


def _of_library(name: str) -> type | None:
    from jaxrl import algos

    module, _, attribute = name.partition(":")
    own = algos.find(module)
    return own.Config if own is not None and own.Config.__name__ == attribute else None


def foreign_names(about: Mapping[str, Any]) -> dict[str, str]:
    """The names in a run of what is neither jaxrl's own nor a mere value, by its role: code, and other runs."""
    config, kind = {"env": about.get("env"), **about["config"]}, about["config_class"]
    names = {} if _of_library(kind) else {"algorithm": kind}
    for role in NAMED:
        name = config.get(role)
        own = own_code(str(name)) is not None if role == "env" else role not in _OFTEN_OURS or ":" in str(name)
        if name and isinstance(name, str) and own:
            names[role] = name
    policies = config.get("policies")
    fixed = fixed_policies(map(str, policies)) if isinstance(policies, list | tuple) else ()
    start = about.get("options", {}).get(_START)
    return names | ({"policies": " ".join(fixed)} if fixed else {}) | ({_START: str(start["run"])} if start else {})


def _copies(about: Mapping[str, Any], path: Path, names: Mapping[str, str]) -> dict[str, SourceFile]:
    """The copies that a run's names lead to, by their roles."""
    kept = {}
    for role, source in about.get("sources", {}).items():
        file = f"{FOLDER}/{PurePosixPath(source['file']).name}"
        named = role == "algorithm" or re.fullmatch(rf"{re.escape(file)}:\w+(\?.*)?", names.get(role, ""), re.DOTALL)
        if role not in names or source["file"] != file or not named:
            raise ValueError(f"The run.json of {path} has the file {source['file']} as {role}, which it does not name.")
        kept[role] = read_copy(path, source)
    module = names.get("algorithm", "").partition(":")[0]
    if "algorithm" in kept and kept["algorithm"].module_name != module:
        raise ValueError(f"{kept['algorithm'].path} is not the file that the run was made with, so it is not used.")
    for role in NAMED:
        if role not in kept and names.get(role, "").startswith(f"{FOLDER}/"):
            raise ValueError(f"The run.json of {path} does not say what was in {names[role]}, its {role}.")
    return kept


def _config_class(about: Mapping[str, Any], path: Path, module: str) -> type:
    """The config class that a run names; its module is imported unless it is a copy, which is there."""
    name = about["config_class"]
    if not module:
        own = _of_library(name)
        assert own is not None
        return own
    try:
        found = vars(importlib.import_module(module))
    except ImportError as error:
        raise ImportError(
            f"{path} was made by the algorithm in the module {module}, which cannot be imported here ({error}); "
            f"put its folder on PYTHONPATH."
        ) from error
    kind = found.get(name.partition(":")[2])
    if not (isinstance(kind, type) and dataclasses.is_dataclass(kind) and callable(found.get("make"))):
        raise _no_config(about, path)
    if f"{kind.__module__}:{kind.__qualname__}" != name:
        raise _no_config(about, path)
    remember_class(name, kind)
    return kind


def _no_config(about: Mapping[str, Any], path: Path) -> ValueError:
    return ValueError(
        f"The run.json of {path} names {about['config_class']!r} as its algorithm's config, which is not a dataclass "
        f"in a module with `make`. A run of a script is loaded in that script; `jaxrl` needs a module that it can "
        f"import."
    )


def _refusal(path: Path, role: str, names: Mapping[str, str], kept: Mapping[str, SourceFile]) -> UntrustedRunError:
    place = names[role].partition("?")[0].rpartition(":")[0] or names[role]
    code = kept[role].path if role in kept else place if place.endswith(".py") else f"the module {place}"
    does = {
        _START: f"Training {path} again would load the run {names[role]}, with which it began",
        "policies": f"Loading {path} would load other runs, by its policies {names[role]}",
        "algorithm": f"Loading {path} would execute {code}, which is not one of jaxrl's algorithms",
    }
    says = does.get(role) or f"Loading {path} would execute {code}, where its {_DEFINED[role]} defined"
    says = says if says.isprintable() else ascii(says)  # as a terminal may be shown it
    return UntrustedRunError(
        f"{says}. If you trust whoever made the run, add --trust (in Python, jaxrl.load({str(path)!r}, trust=True))."
    )


def unvouched(about: Mapping[str, Any]) -> dict[str, str]:
    """The `foreign_names` of a run that this user has not made on this machine."""
    names = foreign_names(about)
    return {} if _vouched(about, names) else names


def _vouched(about: Mapping[str, Any], names: Mapping[str, str]) -> bool:
    """True if this user has made the run on this machine, with everything that it names now."""
    number = about.get("trust_id", "")
    if not re.fullmatch("[0-9a-f]{32}", number):
        return False
    with contextlib.suppress(OSError, ValueError, RuntimeError):
        return read_json(_place() / f"{number}.json") == _record(about, names)
    return False


def _record(about: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    return {"code": dict(names), "sources": about.get("sources", {})}


def _memory(about: Mapping[str, Any], path: Path, names: Mapping[str, str]) -> str:
    return json.dumps([str(path.resolve()), _record(about, names)], sort_keys=True)


def _place() -> Path:
    """The folder of the records: in the user's folder for the state of programs, outside of any run folder."""
    home = Path(os.environ.get("XDG_STATE_HOME", ""))
    return (home if home.is_absolute() else Path.home() / ".local" / "state") / "jaxrl" / "runs"
