"""The user's own files that a run is made of: its folder keeps copies, and later commands use these."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from jaxrl.algorithm import made_from
from jaxrl.registry import lives_here, own_code
from jaxrl.source_file import SourceFile, source_of

__all__ = [
    "FOLDER",
    "NAMED",
    "changed",
    "describe_sources",
    "keep_sources",
    "kept_source",
    "named_code",
    "not_loadable",
    "own_loss",
    "own_make",
    "portable",
    "restored",
]

FOLDER = "source"
"""The folder of the copies, in the run folder."""
NAMED = ("env", "params", "network")
"""The fields of a config that can name code of the user's own, such as `./my_env.py:MyEnv`."""


def describe_sources(config: Any) -> dict[str, Any]:
    """For run.json, under `sources`: each file's copy, where it came from, and the hash of its content."""
    files = _own_files(config)
    if not files:
        return {}
    about = {role: {"file": _kept_name(f), "path": str(f.path), "sha256": f.sha256} for role, f in files.items()}
    return {"sources": about}


def keep_sources(folder: Path, config: Any) -> None:
    """Copy the files into the run folder.

    Raises:
        OSError: They cannot be written.
    """
    for file in _own_files(config).values():
        place = folder / _kept_name(file)
        place.parent.mkdir(exist_ok=True)
        place.write_bytes(file.content)


def portable(name: str) -> str:
    """A name as run.json has it; code in a file is named by the copy, `source/my_env.py:MyEnv`."""
    own = own_code(name)
    if own is None or not own[0].endswith(".py"):
        return name
    _, mark, query = name.partition("?")
    return f"{FOLDER}/{Path(own[0]).name}:{own[1]}{mark}{query}"


def restored(name: str, folder: Path) -> str:
    """The inverse of `portable` for a run in `folder`."""
    return str(folder / name) if name.startswith(f"{FOLDER}/") and own_code(name) is not None else name


def named_code(config: Mapping[str, Any]) -> dict[str, tuple[str, str]]:
    """For each field that names the user's own code, the file or module and the name in it.

    Args:
        config: The fields of a config, as in run.json.
    """
    names = {role: config.get(role) for role in NAMED}
    return {role: own for role, name in names.items() if isinstance(name, str) and (own := own_code(name)) is not None}


def not_loadable(config: Any) -> list[str]:
    """A sentence for each part of a run that no other process can load, and what to do about it."""
    sentences = []
    for role in NAMED:
        name = lives_here(getattr(config, role, None) or "")
        if name is not None:
            sentences.append(
                f"Other processes cannot load this run, because {name} is defined only here: eval, render and resume "
                f'need a class in a file, {role}="./my_{role}.py:{name}", or in a module that can be imported.'
            )
    if type(config).__module__ == "__main__" and source_of(type(config)) is None:
        sentences.append(
            "Other processes cannot load this run, because its algorithm is defined only here: eval, render and resume "
            'need it in a file, jaxrl.algos.load("./my_ppo.py"), or in a module that can be imported.'
        )
    return sentences


def own_make(config: Any) -> Callable[[Any], Any] | None:
    """The `make` beside a configuration's class, which later commands call with it; None if there is none."""
    return getattr(sys.modules.get(type(config).__module__), "make", None)


def own_loss(algo: Any, config: Any) -> str | None:
    """The name of the loss that `make` was given in Python; None if it is that of the algorithm's module."""
    make = own_make(config)
    given = _loss(algo)
    return given if make and given and given != _loss(make(config)) else None


def _loss(algo: Any) -> str | None:
    """The name of an algorithm's loss, if it has one."""
    loss = getattr(made_from(algo), "loss", None)
    return None if loss is None else f"{loss.__module__}:{getattr(loss, '__qualname__', type(loss).__qualname__)}"


def changed(about: Mapping[str, Any]) -> list[str]:
    """A sentence for each file that has changed since the run was made."""
    sentences = []
    for source in about.get("sources", {}).values():
        path = Path(source["path"])
        if path.is_file() and SourceFile(path).sha256 != source["sha256"]:
            sentences.append(f"{path} has changed since this run was made; the copy in the run folder is used.")
    return list(dict.fromkeys(sentences))


def kept_source(about: Mapping[str, Any], folder: Path, role: str) -> SourceFile | None:
    """The copy of a file that a run is made of; None if that part of the run is not in a file.

    Args:
        about: The content of run.json.
        folder: The run folder.
        role: `"algorithm"`, or one of `NAMED`.

    Raises:
        ValueError: The copy is not what run.json says.
    """
    source = about.get("sources", {}).get(role)
    if source is None:
        return None
    place = folder / FOLDER / Path(source["file"]).name  # whatever the file says, nothing outside the folder is read
    if not place.is_file() or place.is_symlink():
        raise ValueError(f"{folder} has lost the file {place.name}, which its {role} was made from.")
    file = SourceFile(place)
    if file.sha256 != source["sha256"]:
        raise ValueError(f"{place} is not the file that the run was made with, so it is not used.")
    return file


def _own_files(config: Any) -> dict[str, SourceFile]:
    """The files that hold the config's algorithm and what its fields name."""
    files = {}
    algorithm = source_of(type(config))
    if algorithm is not None:
        files["algorithm"] = algorithm
    for role, (place, _) in named_code({name: getattr(config, name, None) for name in NAMED}).items():
        if place.endswith(".py"):
            files[role] = SourceFile(place)
    names = [f.path.name for f in files.values()]
    if len(set(names)) < len({f.sha256 for f in files.values()}):
        raise ValueError(f"Two different files of this run are called {max(names, key=names.count)}; rename one.")
    return files


def _kept_name(file: SourceFile) -> str:
    return f"{FOLDER}/{file.path.name}"
