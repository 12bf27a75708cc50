"""The user's own files that a run is made of: its folder keeps copies, and later commands use these."""

from __future__ import annotations

import contextlib
import hashlib
import sys
from collections.abc import Callable, Mapping
from pathlib import Path, PurePosixPath
from typing import Any

from jaxrl.algorithm import made_from
from jaxrl.registry import lives_here, own_code
from jaxrl.source_file import SourceFile, part_of, read_source, source_of

__all__ = [
    "FOLDER",
    "NAMED",
    "changed",
    "describe_sources",
    "hashes",
    "keep_sources",
    "not_loadable",
    "own_loss",
    "own_make",
    "portable",
    "read_copy",
]

FOLDER = "source"
"""The folder of the copies, in the run folder."""
NAMED = ("env", "params", "network", "memory", "optimizer")
"""The fields of a config that can name code of the user's own, such as `./my_env.py:MyEnv`."""


def describe_sources(config: Any) -> dict[str, Any]:
    """For run.json, under `sources`: each file's copy, where it came from, and the hash of its content.

    Under `beside` are the hashes of what it imports from its folder.
    """
    about = {}
    for role, file in _own_files(config).items():
        about[role] = {"file": f"{FOLDER}/{file.path.name}", "path": str(file.path), "sha256": file.sha256}
        if file.beside:
            about[role]["beside"] = {name: _sha256(content) for name, content in sorted(file.beside.items())}
    return {"sources": about} if about else {}


def hashes(source: Mapping[str, Any]) -> dict[str, str]:
    """The hashes of a file and of what it imports from its folder, by the paths from there.

    Args:
        source: One of the `sources` in a run.json.
    """
    return {Path(source["file"]).name: source["sha256"], **source.get("beside", {})}


def keep_sources(folder: Path, config: Any) -> None:
    """Copy the files into the run folder, with what they import from their folders.

    Raises:
        OSError: They cannot be written.
    """
    for file in _own_files(config).values():
        for name, content in file.files.items():
            place = folder / FOLDER / name
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(content)


def portable(name: str) -> str:
    """A name as run.json has it; code in a file is named by the copy, `source/my_env.py:MyEnv`."""
    own = own_code(name)
    if own is None or not own[0].endswith(".py"):
        return name
    _, mark, query = name.partition("?")
    return f"{FOLDER}/{Path(own[0]).name}:{own[1]}{mark}{query}"


def not_loadable(config: Any) -> list[str]:
    """A sentence for each part of a run that no other process can load, and what to do about it."""
    sentences = []
    for role in NAMED:
        name = lives_here(getattr(config, role, None) or "")
        if name is not None:
            sentences.append(
                f"Other processes cannot load this run, because {name} is defined only here: eval, render and resume "
                f'need it in a file, {role}="./my_{role}.py:{name}", or in a module that can be imported.'
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
    """A sentence for each file that has changed since the run was made.

    Args:
        about: The content of run.json of a run that this user has made: it says which files are read.
    """
    sentences = []
    for source in about.get("sources", {}).values():
        for name, sha256 in hashes(source).items():
            path = Path(source["path"]).parent / name
            with contextlib.suppress(OSError):  # moved, or no longer readable
                if _sha256(path.read_bytes()) != sha256:
                    sentences.append(f"{path} has changed since this run was made; the copy in the run folder is used.")
    return list(dict.fromkeys(sentences))


def read_copy(folder: Path, source: Mapping[str, Any]) -> SourceFile:
    """The copy of a file that a run is made of, with what was kept beside it, as the bytes that were checked.

    Args:
        folder: The run folder.
        source: One of the `sources` in its run.json.

    Raises:
        ValueError: A copy is not there, or is not what run.json says.
    """
    kept = {}
    for name, sha256 in hashes(source).items():
        place, inside = folder / FOLDER / name, folder.resolve() / FOLDER / name
        outside = ".." in inside.parts or not inside.is_relative_to(folder.resolve())
        with contextlib.suppress(OSError, ValueError):  # whatever a stranger calls a file
            if not outside and place.is_file() and place.resolve() == inside:  # not through a link
                kept[name] = place.read_bytes()
        if name not in kept:
            raise ValueError(f"{folder} has lost the file {name}, which it was made from.")
        if _sha256(kept[name]) != sha256:
            raise ValueError(f"{place} is not the file that the run was made with, so it is not used.")
    return SourceFile(folder / FOLDER / Path(source["file"]).name, kept)


def _own_files(config: Any) -> dict[str, SourceFile]:
    """The files that hold the config's algorithm and what its fields name."""
    files = {}
    algorithm = source_of(type(config))
    if algorithm is not None:
        files["algorithm"] = algorithm
    for role in NAMED:
        name = getattr(config, role, None)
        own = own_code(name) if isinstance(name, str) else None
        if own is not None and own[0].endswith(".py"):
            files[role] = read_source(own[0])
    _check_names(files)
    return files


def _check_names(files: Mapping[str, SourceFile]) -> None:
    """Raise ValueError if two files, or packages beside them, have the same name and differ: one folder keeps both."""
    seen: dict[str, tuple[Path, dict[str, bytes]]] = {}
    for file in files.values():
        for top in sorted({PurePosixPath(name).with_suffix("").parts[0] for name in file.files}):
            whole = part_of(file.files, top)
            other, there = seen.setdefault(top, (file.path.parent, whole))
            if there != whole:
                name = next(name for name in sorted({*there, *whole}) if there.get(name) != whole.get(name))
                raise ValueError(
                    f"This run is made of two different files with the same name, {other / name} and "
                    f"{file.path.parent / name}; rename one, and what imports it."
                )


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
