"""The code that a run folder may execute: the library's, what this process runs already, and what the user vouches for.

A run folder names code, such as the config class in run.json, and may come from anybody. Nothing that it names is
imported unless this user made the run on this machine, and so has a record of it outside the run folder, or says that
the run can be trusted.
"""

from __future__ import annotations

import contextlib
import dataclasses
import importlib
import os
import re
import secrets
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from jaxrl.source_file import SourceFile
from jaxrl.train.folder.json_file import read_json, write_json
from jaxrl.train.folder.kept import DEFINED, load_kept
from jaxrl.train.folder.sources import kept_source, named_code

__all__ = ["UntrustedRunError", "check_own_code", "known_class", "trusted_class", "vouch"]

_IMPORTABLE = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*")
"""A module's name."""


class UntrustedRunError(ValueError):
    """Loading the run would execute code that nobody has vouched for."""


def trusted_class(about: Mapping[str, Any], path: Path, trust: bool = False) -> type:
    """The config class that a run names.

    Args:
        about: The content of run.json.
        path: The run folder, for errors.
        trust: Import whatever module it names.

    Raises:
        UntrustedRunError: It would have to be imported first, and neither `trust` nor this user's records allow it.
        ValueError: There is no such class, or it is not an algorithm's config.
        ImportError: Its module cannot be imported.
        FileNotFoundError: It reads a file that the run does not keep.
    """
    name = about["config_class"]
    if (known := known_class(name)) is not None:
        return known
    module = name.partition(":")[0]
    kept = kept_source(about, path, "algorithm")
    if _IMPORTABLE.fullmatch(module) and module not in sys.modules:
        if not (trust or _vouched(about)):
            raise _refusal(path, kept, module, "which is not one of jaxrl's algorithms")
        if kept is not None:
            load_kept(kept, about, path, "algorithm")
        else:
            _import_named(module, path)
    found = known_class(name)
    if found is None:
        raise ValueError(
            f"The run.json of {path} names {name!r} as its algorithm's config, which is not a dataclass in a module "
            f"with `make`. A run of a script is loaded in that script; `jaxrl` needs a module that it can import."
        )
    return found


def check_own_code(about: Mapping[str, Any], path: Path, trust: bool = False) -> None:
    """Check that the user's own code that the fields of a run's config name is trusted, and load it from its copies.

    Args:
        about: The content of run.json.
        path: The run folder.
        trust: Execute whatever it names.

    Raises:
        UntrustedRunError: Code would be executed that neither `trust` nor this user's records allow.
        ValueError: A copy is not what run.json says.
        ImportError: A copy imports what is neither kept nor installed.
        FileNotFoundError: A copy reads a file that the run does not keep.
    """
    for role, own in _named(about).items():
        kept = kept_source(about, path, role)
        loaded = own[0] in sys.modules if kept is None else kept.module_name in sys.modules
        if not (loaded or trust or _vouched(about)):
            raise _refusal(path, kept, own[0], f"where its {DEFINED[role]} defined")
        if kept is not None:
            load_kept(kept, about, path, role)


def _import_named(module: str, path: Path) -> None:
    try:
        importlib.import_module(module)
    except ImportError as error:
        raise ImportError(
            f"{path} was made by the algorithm in the module {module}, which cannot be imported here ({error}); "
            f"put its folder on PYTHONPATH."
        ) from error


def _refusal(path: Path, kept: SourceFile | None, module: str, what: str) -> UntrustedRunError:
    code = f"the module {module}" if kept is None else kept.path
    return UntrustedRunError(
        f"Loading {path} would execute {code}, {what}. If you trust whoever made the run, add --trust (in Python, "
        f"jaxrl.load({str(path)!r}, trust=True))."
    )


def known_class(name: str) -> type | None:
    """The config class called `module:Class`, if it exists without importing any foreign code.

    It is the `Config` of one of the library's algorithms, or a dataclass in a module that this process has imported
    and that has `make`.
    """
    from jaxrl import algos

    module, _, attribute = name.partition(":")
    own = algos.find(module)
    found = getattr(own or sys.modules.get(module), "__dict__", {})  # reading an attribute could import more
    kind = found.get(attribute)
    if not (isinstance(kind, type) and dataclasses.is_dataclass(kind) and callable(found.get("make"))):
        return None
    if own is not None or module.partition(".")[0] == "jaxrl":  # no other module of the library has configs to load
        return kind if own is not None and kind is own.Config else None
    return kind if f"{kind.__module__}:{kind.__qualname__}" == name else None


def vouch(about: Mapping[str, Any]) -> dict[str, str]:
    """Remember that this user makes this run on this machine.

    Args:
        about: The content of run.json.

    Returns:
        Entries to add to run.json. Empty if all of its code is the library's, or if this user has no place for a
        record: when the run is loaded, it then counts as a stranger's.
    """
    code = _foreign_code(about)
    if not code:
        return {}
    number = secrets.token_hex(16)
    try:
        place = _place()
        place.mkdir(parents=True, exist_ok=True)
        write_json(place / f"{number}.json", {"code": code})
    except (OSError, RuntimeError):  # no home, no permission, no space
        return {}
    return {"trust_id": number}


def _vouched(about: Mapping[str, Any]) -> bool:
    """Whether this user has made the run on this machine, with the code that it names now."""
    number = about.get("trust_id", "")
    if not re.fullmatch("[0-9a-f]{32}", number):
        return False
    with contextlib.suppress(OSError, ValueError, RuntimeError):
        return read_json(_place() / f"{number}.json").get("code") == _foreign_code(about)
    return False


def _foreign_code(about: Mapping[str, Any]) -> dict[str, str]:
    """The code that a run names and that is not the library's, by its role."""
    from jaxrl import algos

    name = about["config_class"]
    code = {} if algos.find(name.partition(":")[0]) else {"algorithm": name}
    code |= {role: ":".join(own) for role, own in _named(about).items()}
    for role, source in about.get("sources", {}).items():
        code[f"{role}_sha256"] = source["sha256"]
        code |= {f"{role}_sha256 {name}": sha256 for name, sha256 in source.get("beside", {}).items()}
    return code


def _named(about: Mapping[str, Any]) -> dict[str, tuple[str, str]]:
    """See `named_code`."""
    return named_code({"env": about.get("env", ""), **about.get("config", {})})


def _place() -> Path:
    """The folder of the records: in the user's folder for the state of programs, outside of any run folder."""
    home = Path(os.environ.get("XDG_STATE_HOME", ""))
    return (home if home.is_absolute() else Path.home() / ".local" / "state") / "jaxrl" / "runs"
