"""Flags in a file: the YAML or JSON that `--config` reads and `jaxrl config` writes."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from jaxrl.config import typed
from jaxrl.errors import UnknownNameError, suggestion
from jaxrl.train.folder.json_file import parse
from jaxrl.train.folder.run_folder import RunFolder
from jaxrl.train.folder.run_info import read_run_info
from jaxrl.train.folder.sources import NAMED
from jaxrl.train.folder.trust import foreign_names, unvouched
from jaxrl.wrappers.players import member_named

__all__ = ["FlagFile", "as_text", "of_run", "read_flag_file"]


class FlagFile(NamedTuple):
    """The flags that a file holds."""

    path: Path
    algorithm: str | None
    """The algorithm to train, if the file says it."""
    values: dict[str, Any]
    """Values by the names of flags, with underscores."""

    def words(self, hints: Mapping[str, Any]) -> list[str]:
        """The flags as words of a command line.

        Args:
            hints: The types of the flags that the command has.

        Raises:
            ValueError: There is no such flag, or its value has another type; the message names the line.
        """
        words = []
        for name, value in self.values.items():
            if name not in hints:
                raise UnknownNameError(f"{self._place(name)}: there is no {name!r}. {suggestion(name, hints)}")
            try:
                value = typed(name, hints[name], value)
            except ValueError as error:
                raise ValueError(f"{self._place(name)}: {error}") from None
            flag = name.replace("_", "-")
            if hints[name] is bool:
                words.append(f"--{flag}" if value else f"--no-{flag}")
            elif isinstance(value, list | tuple):
                words += [f"--{flag}", *map(str, value)]
            else:
                words.append(f"--{flag}={value}")
        return words

    def _place(self, name: str) -> str:
        """The file, and the line that begins with a flag, if there is one."""
        key = re.compile(rf"""\s*["']?{re.escape(name)}["']?\s*:""")
        lines = enumerate(self.path.read_text(encoding="utf-8").splitlines(), 1)
        return next((f"{self.path}, line {number}" for number, line in lines if key.match(line)), str(self.path))


def read_flag_file(name: str | None, given: Collection[str] = ()) -> FlagFile:
    """The flags in a file, or those that stand for the configuration of a run.

    Args:
        name: A file in YAML or JSON, or a run: its folder, its run.json, or `RUN:2` for the seed with index 2. None
            stands for an empty file.
        given: The fields that are given in another way, so that the file's values do not matter.

    Raises:
        OSError: It cannot be read, or it is a folder without a run.
        ValueError: It holds something else, or names code although this user has not made the run.
    """
    if name is None:
        return FlagFile(Path(), None, {})
    path, index = member_named(name)
    if path.is_dir():
        path = RunFolder.open(path).path / "run.json"
    values = _parsed(path)
    if not isinstance(values.get("config"), dict):
        algorithm = values.pop("algorithm", None)
        return FlagFile(path, None if algorithm is None else str(algorithm), values)

    # A run's: whoever names a stranger's does not mean to execute what it names.
    about = read_run_info(path)
    strange = unvouched(about)
    for role in (*NAMED, "policies"):
        if role in strange and role not in given:
            said = about["config"].get(role, strange[role])
            raise ValueError(
                f"{path} names code or a run as its {role}, and you have not made it on this machine. If you trust "
                f"whoever has, type the flag itself: --{role} {shlex.join(said if isinstance(said, list) else [said])}"
            )
    values = of_run(about, index)
    algorithm = values.pop("algorithm")
    return FlagFile(path, None if "algorithm" in strange else algorithm, values)


def of_run(about: Mapping[str, Any], index: int | None = None) -> dict[str, Any]:
    """The algorithm, the number of seeds if there are several, and the configuration of a run.

    Args:
        about: The content of its run.json.
        index: The seed or member; None for all of them.

    Raises:
        ValueError: There is no such member; or none is named, and they differ in more than the seed.
    """
    config, members, count = dict(about["config"]), about["members"], about["num_seeds"]
    if index is not None and index >= count:
        raise ValueError(f"The run has no seed :{index}; its {count} are :0 to :{count - 1}.")
    if members and count > 1 and index is None:
        raise ValueError(f"The run has {count} members, each with its own values; name one: RUN:0 to RUN:{count - 1}.")
    if members:
        config |= members[index or 0]
    elif index is not None:
        config["seed"] = about["seed"] + index
    # Code in a file goes by where that lay: the copy in the run folder is the run's own.
    names, sources = foreign_names(about), about.get("sources", {})
    for role in NAMED:
        if role in names and role in sources:
            config[role] = config[role].replace(sources[role]["file"], sources[role]["path"], 1)
    own = "algorithm" in names and "algorithm" in sources
    algorithm = sources["algorithm"]["path"] if own else about["algorithm"]
    return {"algorithm": algorithm, **({"num_seeds": count} if count > 1 and index is None else {}), **config}


def as_text(values: Mapping[str, Any], as_yaml: bool) -> str:
    """Values as a file in YAML or JSON, for `read_flag_file`."""
    if as_yaml:
        return yaml.dump(dict(values), Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=110)
    return json.dumps(values, indent=2) + "\n"


class _Loader(yaml.SafeLoader):
    """YAML in which 1e-3 is a number, as in YAML 1.2 and in Python."""


class _Dumper(yaml.SafeDumper):
    """What `_Loader` reads, with each list in its line."""

    def represent_sequence(self, tag: str, sequence: Any, flow_style: bool | None = None) -> yaml.SequenceNode:
        return super().represent_sequence(tag, sequence, flow_style=True)


for _kind in (_Loader, _Dumper):
    _kind.add_implicit_resolver(
        "tag:yaml.org,2002:float", re.compile(r"[-+]?(\d+\.?\d*|\.\d+)[eE][-+]?\d+$"), list("-+.0123456789")
    )


def _parsed(path: Path) -> dict[str, Any]:
    """The mapping in a file in YAML or JSON.

    Raises:
        OSError: It cannot be read.
        ValueError: It holds something else.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise OSError(f"{path} cannot be read: {error.strerror or error}.") from error
    if data.startswith(b"{"):
        return parse(data, str(path))
    try:
        values = yaml.load(data, _Loader)
    except yaml.MarkedYAMLError as error:
        line = f", line {error.problem_mark.line + 1}" if error.problem_mark else ""
        raise ValueError(f"{path}{line} is no YAML: {error.problem}.") from error
    except yaml.YAMLError as error:
        raise ValueError(f"{path} is no YAML: {str(error).splitlines()[0]}.") from error
    if not isinstance(values, dict) or not all(isinstance(name, str) for name in values):
        raise ValueError(f"{path} holds no flags: write lines such as `lr: 1e-3`, or name a run folder.")
    return values
