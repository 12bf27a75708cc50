"""The user's own files that a run is made of: copies are kept in its folder, and later commands use these."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from jaxrl.registry import lives_here, own_code
from jaxrl.source_file import SourceFile, source_of

__all__ = [
    "FOLDER",
    "changed",
    "describe_sources",
    "keep_sources",
    "kept_algorithm",
    "kept_env",
    "not_loadable",
    "portable_env",
    "restored_env",
]

FOLDER = "source"
"""In the run folder."""


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


def portable_env(env: str) -> str:
    """The name of an environment in run.json; a class in a file is named by the copy, `source/my_env.py:MyEnv`."""
    own = own_code(env)
    if own is None or not own[0].endswith(".py"):
        return env
    _, mark, query = env.partition("?")
    return f"{FOLDER}/{Path(own[0]).name}:{own[1]}{mark}{query}"


def restored_env(env: str, folder: Path) -> str:
    """The inverse of `portable_env` for a run in `folder`."""
    return str(folder / env) if env.startswith(f"{FOLDER}/") and own_code(env) is not None else env


def not_loadable(config: Any) -> list[str]:
    """A sentence for each part of a run that no other process can load, and what to do about it."""
    sentences = []
    env = lives_here(config.env)
    if env is not None:
        sentences.append(
            f"Other processes cannot load this run, because {env} is defined only here: eval, render and resume need "
            f'a class in a file, env="./my_env.py:{env}", or in a module that can be imported.'
        )
    if type(config).__module__ == "__main__" and source_of(type(config)) is None:
        sentences.append(
            "Other processes cannot load this run, because its algorithm is defined only here: eval, render and resume "
            'need it in a file, jaxrl.algos.load("./my_ppo.py"), or in a module that can be imported.'
        )
    return sentences


def kept_env(about: Mapping[str, Any], folder: Path) -> SourceFile | None:
    """The copy of the file that a run's environment is defined in; None if it is in no file.

    Raises:
        ValueError: The copy is not what run.json says.
    """
    return _kept(about, folder, "env")


def changed(about: Mapping[str, Any]) -> list[str]:
    """A sentence for each file that is no longer what it was when the run was made."""
    sentences = []
    for source in about.get("sources", {}).values():
        path = Path(source["path"])
        if path.is_file() and SourceFile(path).sha256 != source["sha256"]:
            sentences.append(f"{path} has changed since this run was made; the copy in the run folder is used.")
    return list(dict.fromkeys(sentences))


def kept_algorithm(about: Mapping[str, Any], folder: Path) -> SourceFile | None:
    """The copy of the file that a run's algorithm is defined in; None if it is in no file.

    Raises:
        ValueError: The copy is not what run.json says.
    """
    return _kept(about, folder, "algorithm")


def _kept(about: Mapping[str, Any], folder: Path, role: str) -> SourceFile | None:
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
    """The files that hold the config's algorithm and its environment."""
    files = {}
    algorithm, env = source_of(type(config)), own_code(config.env)
    if algorithm is not None:
        files["algorithm"] = algorithm
    if env is not None and env[0].endswith(".py"):
        files["env"] = SourceFile(env[0])
    names = [f.path.name for f in files.values()]
    if len(set(names)) < len({f.sha256 for f in files.values()}):
        raise ValueError(f"The files of the algorithm and the environment are both called {names[0]}; rename one.")
    return files


def _kept_name(file: SourceFile) -> str:
    return f"{FOLDER}/{file.path.name}"
