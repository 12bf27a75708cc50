"""The file that records the plan and progress of a sweep or a search, so that it can be continued."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

from jaxrl.errors import CheckpointError
from jaxrl.train.folder.continuation import read_about
from jaxrl.train.folder.disk import check_writable, refuse_links, why
from jaxrl.train.folder.json_file import plain, write_json
from jaxrl.train.folder.lock import locked
from jaxrl.train.folder.run_folder import RunFolder, describe_run
from jaxrl.train.folder.run_info import PLAN_FILES
from jaxrl.train.folder.same_run import MAY_CHANGE, config_in, differences

__all__ = ["PlanFile", "recorded"]


class PlanFile:
    """One JSON file in its own folder; see `recorded`.

    Args:
        file: The file; None writes nothing.
        about: Its initial content.
    """

    def __init__(self, file: Path | None, about: dict[str, Any]) -> None:
        self._file = file
        self._about = about

    @property
    def path(self) -> Path | None:
        """The path of the folder."""
        return None if self._file is None else self._file.parent

    def write(self, status: str, **content: Any) -> None:
        """Update the content and replace the file atomically; entries that are not given stay.

        Raises:
            CheckpointError: The file cannot be written; the old one is unchanged.
        """
        self._about |= {"status": status, **content}
        if self._file is None:
            return
        try:
            write_json(self._file, self._about)
        except OSError as error:
            raise CheckpointError(
                f"{self._file} cannot be written: {why(error, self._file.parent)}. The same command writes it later, "
                f"from the runs that are saved beside it."
            ) from error

    def note(self, status: str, **content: Any) -> None:
        """`write` what the runs beside the file tell too: if it fails, training goes on, and the next one has it."""
        with contextlib.suppress(CheckpointError):
            self.write(status, **content)


@contextlib.contextmanager
def recorded(
    path: str | Path | None, what: Literal["sweep", "search"], config: Any, plan: dict[str, Any], num_seeds: int
) -> Iterator[PlanFile]:
    """Open the plan file of a folder, new or to be continued, and lock the folder against other processes meanwhile.

    Args:
        path: The folder; None writes nothing.
        what: What the plan is for.
        config: The configuration that supplies everything else.
        plan: Everything else that determines the outcome, and options that may change (`MAY_CHANGE`).
        num_seeds: The number of seeds, for `describe_run`.

    Raises:
        FileExistsError: The folder holds something else, or another process is training in it.
        OSError: The folder is not writable.
        CheckpointError: There is no room for the file.
    """
    about = describe_run(config, num_seeds) | plain(plan)
    if path is None:
        yield PlanFile(None, about)
        return
    folder = Path(path)
    file = folder / PLAN_FILES[what]
    if file.is_file():
        refuse_links(folder)
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
        try:
            yield record
        except BaseException:
            record.note("failed")  # for those who watch
            raise


def _continued(file: Path, what: str, config: Any, about: dict[str, Any], plan: dict[str, Any]) -> dict[str, Any]:
    """The content with which the file continues, if it has the same plan.

    The values that the config has for the fields in the space do not matter, because every point has its own.

    Raises:
        FileExistsError: The file has another plan.
    """
    before = read_about(file)
    names = [name for name in plan if name not in MAY_CHANGE]
    there, here = ({name: each.get(name) for name in ("algorithm", *names)} for each in (before, about))
    configs = config_in(before, config), about["config"]
    then, now = ({k: v for k, v in each.items() if k not in plan.get("space", ())} for each in configs)
    differing = [*differences(then, now), *differences(there, here)]
    if differing:
        raise FileExistsError(
            f"{file.parent} already holds another {what}: {', '.join(differing)}. Name another folder with "
            f"--run-dir, or continue that one with its own command: {before['command']}"
        )
    return {**before, **about, "command": before["command"], "resumed": before.get("resumed", 0) + 1}
