"""The run folder: run.json says what was run and how it went, metrics.jsonl has one row per log interval."""

from __future__ import annotations

import dataclasses
import json
import shlex
import sys
from pathlib import Path
from typing import Any, ClassVar

from jaxrl.errors import shell_path
from jaxrl.registry import canonical
from jaxrl.source_file import algorithm_name, source_of
from jaxrl.train.folder.disk import check_writable, refuse_links, why
from jaxrl.train.folder.json_file import dataclass_from_json, infinities_as_text, write_json
from jaxrl.train.folder.json_lines import JsonLines, RowCheck
from jaxrl.train.folder.lock import NAME as LOCK
from jaxrl.train.folder.provenance import surroundings
from jaxrl.train.folder.run_info import plan_in, read_run_info
from jaxrl.train.folder.sources import FOLDER, NAMED, describe_sources, portable

__all__ = ["JsonLines", "RunFolder", "class_name", "config_from_json", "config_to_json", "describe_run", "latest_run"]

_LEFTOVERS = (FOLDER, "live.", "events.jsonl", "interrupted-", ".probe-", LOCK)
_UNFINISHED = ".json.new"
"""The suffix of a JSON file while it is being written."""


class RunFolder:
    """Names and files of one run."""

    trusted: ClassVar[set[Path]] = set()
    """The folders in which this process was told to trust everything, links too."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.metrics = JsonLines(self.path / "metrics.jsonl", lambda: RowCheck("seconds", "return_mean", "length_mean"))
        self.evaluations = JsonLines(self.path / "evaluations.jsonl", lambda: RowCheck("return_mean"))
        self.events = JsonLines(self.path / "events.jsonl")

    @classmethod
    def create(cls, path: str | Path) -> RunFolder:
        """A new folder.

        Raises:
            FileExistsError: Something is in it already.
            OSError: Nothing can be written there.
        """
        folder = cls(path)
        if folder.path.exists() and not _is_free(folder.path):
            if (folder.path / "run.json").exists():
                cure = f"holds a run; continue it with `jaxrl resume {shell_path(folder.path)}`, or"
            else:
                cure = "has something else in it;"
            raise FileExistsError(f"The folder {folder.path} already {cure} name another one with --run-dir.")
        refuse_links(folder.path)
        try:
            folder.path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            reason = why(error, folder.path)
            raise OSError(f"The folder {path} cannot be made: {reason}. Choose another --run-dir.") from error
        check_writable(folder.path)
        return folder

    @classmethod
    def open(cls, path: str | Path) -> RunFolder:
        """A folder that holds a run.

        Raises:
            FileNotFoundError: It does not.
            FileExistsError: Something in it is neither a file nor a folder.
        """
        folder = cls(path)
        # Folders that hold several runs, or none.
        plan = plan_in(folder.path)
        if plan == "sweep":
            raise FileNotFoundError(
                f"{folder.path} holds a sweep, not one run: name a run in it such as {folder.path}/group-000, or "
                f"continue the sweep by its own command with --run-dir {folder.path}."
            )
        if plan == "search":
            test = folder.path / "test"
            cure = f"name the run of its best, {test}, or" if (test / "run.json").is_file() else "let it end, or"
            raise FileNotFoundError(
                f"{folder.path} holds a search, not one run: {cure} continue the search by its own command with "
                f"--run-dir {folder.path}."
            )
        if not (folder.path / "run.json").is_file():
            around = next((parent for parent in folder.path.parents if (parent / "run.json").is_file()), None)
            cure = f"it is in the run {around}, so name that" if around else "`ls runs` shows what there is"
            raise FileNotFoundError(f"{folder.path} holds no run (there is no run.json in it); {cure}.")
        # A reader of a pipe would wait for ever.
        for file in folder.path.iterdir():
            if not file.is_file() and not file.is_dir() and file.exists():
                raise FileExistsError(f"{file} is a pipe or a device, and reading it may never end; remove it.")
        return folder

    @classmethod
    def reopen(cls, path: str | Path) -> RunFolder:
        """A folder that holds a run, to go on writing into it.

        Raises:
            FileNotFoundError: It does not.
            OSError: Nothing can be written there, or something in it is a link.
        """
        folder = cls.open(path)
        if folder.path.resolve() not in cls.trusted:
            refuse_links(folder.path)
        check_writable(folder.path, "Mend that, or continue a copy of the folder in another place.")
        return folder

    def flush(self) -> None:
        """Make sure that all rows are on disk.

        Raises:
            OSError: Some are not.
        """
        self.metrics.flush()
        self.evaluations.flush()

    @property
    def checkpoints(self) -> Path:
        """The folder of the checkpoints."""
        return self.path / "checkpoints"

    @property
    def best(self) -> Path:
        """The folder of the checkpoint with the best evaluation."""
        return self.path / "best"

    def read(self) -> dict[str, Any]:
        """The content of run.json; see `RunInfo`.

        Raises:
            OSError: It cannot be read.
            DamagedFileError: Its content is not that of a run.json.
        """
        return read_run_info(self.path / "run.json")

    def write(self, content: dict[str, Any]) -> None:
        """Replace run.json atomically: readers see either the old one or the new one.

        Raises:
            OSError: It cannot be written; the old one is unchanged.
        """
        if "members" in content:
            content = {**content, "members": infinities_as_text(content["members"])}
        write_json(self.path / "run.json", content)


def _program(path: Path) -> list[str]:
    """The words that run the program at `path`: its name, `python` and a script, or `python -m` and its package."""
    if path.name == "__main__.py":
        return ["python", "-m", path.parent.name]
    if path.suffix == ".py":
        return ["python", path.name if path.is_absolute() else path.as_posix()]
    return [path.name]


def describe_run(config: Any, num_seeds: int) -> dict[str, Any]:
    """The content of run.json before anything has run: command, algorithm, config, versions, git, devices."""
    kind = type(config)
    return {
        "status": "running",
        "command": shlex.join([*_program(Path(sys.argv[0])), *sys.argv[1:]]),
        "algorithm": algorithm_name(kind),
        "env": portable(canonical(config.env)),
        "seed": config.seed,
        "num_seeds": num_seeds,
        "config": config_to_json(config),
        "config_class": class_name(config),
        **surroundings(),
        **describe_sources(config),
    }


def class_name(config: Any) -> str:
    """The class of a config, `"module:Class"`; the module of a user's own file is named by its hash."""
    file = source_of(type(config))
    return f"{type(config).__module__ if file is None else file.module_name}:{type(config).__qualname__}"


def config_to_json(config: Any) -> dict[str, Any]:
    """A config dataclass as JSON-able data, with words for infinite numbers, which JSON lacks.

    Raises:
        TypeError: A field holds what JSON cannot; the message says what to give it instead.
    """
    content = dataclasses.asdict(config)
    content |= {role: portable(content[role]) for role in NAMED if isinstance(content.get(role), str)}
    plain = {}
    for name, value in content.items():
        try:
            plain[name] = json.loads(json.dumps(infinities_as_text(value)))
        except TypeError:
            whose = f"{algorithm_name(type(config))}.{type(config).__qualname__}"
            raise TypeError(
                f"run.json cannot hold {name}={getattr(config, name)!r} of {whose}; make it a number, a text or a "
                f"tuple, such as the name of what it stands for."
            ) from None
    return plain


def config_from_json(config_class: type, data: dict[str, Any]) -> Any:
    """The inverse of `config_to_json`.

    Raises:
        ValueError: The class has other fields, so it is another version of it, or fields of other types.
    """
    try:
        return dataclass_from_json(config_class, data)
    except ValueError as error:
        raise ValueError(
            f"its config does not fit ({str(error).rstrip('.')}); install the version that its run.json names under "
            f"versions"
        ) from error


def latest_run(root: str | Path = "runs") -> Path:
    """The run under `root` that was written to last.

    Raises:
        FileNotFoundError: There is none.
    """
    runs = sorted(Path(root).glob("*/run.json"), key=lambda path: path.stat().st_mtime)
    if not runs:
        raise FileNotFoundError(f"There is no run in {root}/ yet; make one with `jaxrl train ippo --env smax/3m`.")
    return runs[-1].parent


def _is_free(path: Path) -> bool:
    """True if a run can begin there: files left by a run that was interrupted before it began do not count."""
    return path.is_dir() and all(_is_leftover(file.name) for file in path.iterdir())


def _is_leftover(name: str) -> bool:
    return name.startswith(_LEFTOVERS) or name.endswith(_UNFINISHED)
