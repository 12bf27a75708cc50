"""The run folder: run.json tells what was run and how it went, metrics.jsonl has one row a log interval."""

from __future__ import annotations

import contextlib
import dataclasses
import importlib
import json
import os
import shlex
import sys
import typing
from pathlib import Path
from typing import Any

from jaxrl.train.disk import check_writable, why
from jaxrl.train.json_lines import JsonLines
from jaxrl.train.lock import NAME as LOCK
from jaxrl.train.provenance import device_names, git_state, versions

__all__ = ["JsonLines", "RunFolder", "class_name", "config_from_json", "config_to_json", "describe_run", "latest_run"]

_LEFTOVERS = ("live.", "run.json.new", "events.jsonl", "interrupted-", ".probe-", LOCK)


class RunFolder:
    """Names and files of one run."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.metrics = JsonLines(self.path / "metrics.jsonl")
        self.evaluations = JsonLines(self.path / "evaluations.jsonl")
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
                cure = f"holds a run; continue it with `jaxrl resume {folder.path}`, or"
            else:
                cure = "has something else in it;"
            raise FileExistsError(f"The folder {folder.path} already {cure} name another one with --run-dir.")
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
        """
        folder = cls(path)
        if (folder.path / "sweep.json").is_file():
            raise FileNotFoundError(
                f"{folder.path} holds a sweep, not one run: name a run in it such as {folder.path}/group-000, or "
                f"continue the sweep by its own command with --run-dir {folder.path}."
            )
        if (folder.path / "checklist.json").is_file():
            raise FileNotFoundError(
                f"{folder.path} holds a search, not one run: name the run of its best, {folder.path}/test, or continue "
                f"the search by its own command with --run-dir {folder.path}."
            )
        if not (folder.path / "run.json").is_file():
            raise FileNotFoundError(
                f"{folder.path} holds no run (there is no run.json in it); `ls runs` shows what there is."
            )
        return folder

    @classmethod
    def reopen(cls, path: str | Path) -> RunFolder:
        """A folder that holds a run, to go on writing into it.

        Raises:
            FileNotFoundError: It does not.
            OSError: Nothing can be written there.
        """
        folder = cls.open(path)
        check_writable(folder.path)
        return folder

    def flush(self) -> None:
        """See to it that all rows are on the disk.

        Raises:
            OSError: Some are not.
        """
        self.metrics.flush()
        self.evaluations.flush()

    @property
    def checkpoints(self) -> Path:
        """Where the checkpoints lie."""
        return self.path / "checkpoints"

    @property
    def best(self) -> Path:
        """Where the checkpoint with the best evaluation lies."""
        return self.path / "best"

    def read(self) -> dict[str, Any]:
        """The content of run.json."""
        return json.loads((self.path / "run.json").read_text())

    def write(self, content: dict[str, Any]) -> None:
        """Replace run.json, in one go: who reads it sees the old one or the new one.

        Raises:
            OSError: It is as it was.
        """
        new = self.path / "run.json.new"
        try:
            with new.open("w") as file:
                file.write(json.dumps(content, indent=2) + "\n")
                file.flush()
                os.fsync(file.fileno())  # or a power cut could leave an empty file under the old name
            os.replace(new, self.path / "run.json")
        except OSError:
            with contextlib.suppress(OSError):
                new.unlink(missing_ok=True)
            raise


def describe_run(config: Any, num_seeds: int) -> dict[str, Any]:
    """What run.json says before anything has run: command, algorithm, environment, config, versions, git, devices."""
    kind = type(config)
    return {
        "status": "running",
        "command": shlex.join([Path(sys.argv[0]).name, *sys.argv[1:]]),
        "algorithm": kind.__module__.rpartition(".")[2],
        "env": config.env,
        "seed": config.seed,
        "num_seeds": num_seeds,
        "config": config_to_json(config),
        "config_class": class_name(config),
        "versions": versions(),
        "git": git_state(),
        "devices": device_names(),
        "xla_flags": os.environ.get("XLA_FLAGS", ""),
    }


def class_name(config: Any) -> str:
    """The class of a config, `"module:Class"`."""
    return f"{type(config).__module__}:{type(config).__qualname__}"


def config_to_json(config: Any) -> dict[str, Any]:
    """A config dataclass as JSON-able data."""
    return json.loads(json.dumps(dataclasses.asdict(config)))


def config_from_json(config_class: str | type, data: dict[str, Any]) -> Any:
    """The inverse of `config_to_json`; `config_class` is the class, or `"module:Class"` as in run.json.

    Raises:
        ValueError: The class has other fields, so it is another version of it.
    """
    if isinstance(config_class, str):
        module, _, name = config_class.partition(":")
        return config_from_json(getattr(importlib.import_module(module), name), data)
    hints = typing.get_type_hints(config_class)
    unknown = set(data) - set(hints)
    if unknown:
        raise ValueError(
            f"{config_class.__module__} has no option {', '.join(sorted(unknown))}, which the run was made with; "
            f"install the version that run.json names under versions."
        )
    return config_class(**{name: _typed(hints.get(name, Any), value) for name, value in data.items()})


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
    """Whether a run can begin there: some files are left by one that was interrupted before it had begun."""
    return path.is_dir() and all(file.name.startswith(_LEFTOVERS) for file in path.iterdir())


def _typed(hint: Any, value: Any) -> Any:
    """`value` as read from JSON, given back the tuples and dataclasses that JSON does not know."""
    if dataclasses.is_dataclass(hint) and isinstance(value, dict):
        return config_from_json(typing.cast(type, hint), value)
    if isinstance(value, list) and typing.get_origin(hint) is not list:
        return tuple(tuple(v) if isinstance(v, list) else v for v in value)
    return value
