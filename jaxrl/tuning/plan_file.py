"""The file that says what a sweep or a search was asked for and how far it is, so that it can be continued."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

from jaxrl.train.folder.continuation import read_about
from jaxrl.train.folder.disk import check_writable
from jaxrl.train.folder.json_file import plain, write_json
from jaxrl.train.folder.lock import locked
from jaxrl.train.folder.run_folder import RunFolder, describe_run
from jaxrl.train.folder.same_run import MAY_CHANGE, config_in, differences

__all__ = ["PlanFile", "recorded"]


_FILES = {"sweep": "sweep.json", "search": "checklist.json"}


class PlanFile:
    """One JSON file in a folder of its own; see `recorded`.

    Args:
        file: Where it is; None writes nothing.
        about: What it says at first.
    """

    def __init__(self, file: Path | None, about: dict[str, Any]) -> None:
        self._file = file
        self._about = about

    @property
    def path(self) -> Path | None:
        """Of the folder."""
        return None if self._file is None else self._file.parent

    def write(self, status: str, **content: Any) -> None:
        """Replace the file in one go; what it has said before and is not said anew stays."""
        self._about |= {"status": status, **content}
        if self._file is not None:
            write_json(self._file, self._about)


@contextlib.contextmanager
def recorded(
    path: str | Path | None, what: Literal["sweep", "search"], config: Any, plan: dict[str, Any], num_seeds: int
) -> Iterator[PlanFile]:
    """The record in a folder, new or to be continued. Other processes are kept out of the folder meanwhile.

    Args:
        path: The folder; None writes nothing.
        what: It is of.
        config: The configuration from which all else is taken.
        plan: What else decides the outcome, and options that may change (`MAY_CHANGE`).
        num_seeds: For `describe_run`.

    Raises:
        FileExistsError: The folder holds something else, or another process trains in it.
        OSError: Nothing can be written there.
    """
    about = describe_run(config, num_seeds) | plain(plan)
    if path is None:
        yield PlanFile(None, about)
        return
    folder = Path(path)
    file = folder / _FILES[what]
    if file.is_file():
        check_writable(folder)
    else:
        RunFolder.create(folder)
    with locked(folder):
        if not file.is_file():
            RunFolder.create(folder)  # once more: another process may have been quicker
        else:
            about = _continued(file, what, config, about, plan)
        record = PlanFile(file, about)
        record.write("running")
        yield record


def _continued(file: Path, what: str, config: Any, about: dict[str, Any], plan: dict[str, Any]) -> dict[str, Any]:
    """What the file goes on saying, if it is of the same plan."""
    before = read_about(file)
    names = [name for name in plan if name not in MAY_CHANGE]
    there, here = ({name: each.get(name) for name in ("algorithm", *names)} for each in (before, about))
    differing = [*differences(config_in(before, config), about["config"]), *differences(there, here)]
    if differing:
        raise FileExistsError(
            f"{file.parent} already holds another {what}: {', '.join(differing)}. Name another folder with "
            f"--run-dir, or continue that one with its own command: {before['command']}"
        )
    return {**before, **about, "command": before["command"], "resumed": before.get("resumed", 0) + 1}
