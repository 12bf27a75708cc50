"""The user's own files that a run is made of: copies are kept in its folder, and later commands use these."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from jaxrl.registry import own_code
from jaxrl.source_file import SourceFile, source_of

__all__ = [
    "FOLDER",
    "NAMING",
    "changed",
    "describe_sources",
    "keep_sources",
    "kept_source",
    "portable",
    "restored",
]

FOLDER = "source"
"""In the run folder."""
NAMING = ("env", "params")
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
    """A name as it stands in run.json; what is in a file is named by the copy, `source/my_env.py:MyEnv`."""
    own = own_code(name)
    if own is None or not own[0].endswith(".py"):
        return name
    _, mark, query = name.partition("?")
    return f"{FOLDER}/{Path(own[0]).name}:{own[1]}{mark}{query}"


def restored(name: str, folder: Path) -> str:
    """The inverse of `portable` for a run in `folder`."""
    return str(folder / name) if name.startswith(f"{FOLDER}/") and own_code(name) is not None else name


def changed(about: Mapping[str, Any]) -> list[str]:
    """A sentence for each file that is no longer what it was when the run was made."""
    sentences = []
    for source in about.get("sources", {}).values():
        path = Path(source["path"])
        if path.is_file() and SourceFile(path).sha256 != source["sha256"]:
            sentences.append(f"{path} has changed since this run was made; the copy in the run folder is used.")
    return list(dict.fromkeys(sentences))


def kept_source(about: Mapping[str, Any], folder: Path, role: str) -> SourceFile | None:
    """The copy of a file that a run is made of; None if that part of it is in no file.

    Args:
        about: The content of run.json.
        folder: The run folder.
        role: `"algorithm"`, or one of `NAMING`.

    Raises:
        ValueError: The copy is not what run.json says.
    """
    source = about.get("sources", {}).get(role)
    if source is None:
        return None
    place = folder / FOLDER / Path(source["file"]).name  # whatever the file says, nothing outside the folder is read
    if not place.is_file() or place.is_symlink():
        raise ValueError(f"{folder} has lost the file {place.name}, of which its {role} was made.")
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
    for role in NAMING:
        own = own_code(getattr(config, role, ""))
        if own is not None and own[0].endswith(".py"):
            files[role] = SourceFile(own[0])
    contents: dict[str, str] = {}
    for file in files.values():
        if contents.setdefault(file.path.name, file.sha256) != file.sha256:
            raise ValueError(f"Two files of the {' and the '.join(files)} are called {file.path.name}; rename one.")
    return files


def _kept_name(file: SourceFile) -> str:
    return f"{FOLDER}/{file.path.name}"
