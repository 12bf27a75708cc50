"""The one rule of `fit`, sweeps and searches for what a request does: begin a run, continue one, or find it at its end.

A folder continues only the run that it holds, see `same_run`. The decision is made under the folder's lock, and nothing
that was learned is ever deleted: what an interrupted run has left without a checkpoint is set aside.
"""

from __future__ import annotations

import contextlib
import enum
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

from jaxrl.errors import CheckpointError, DivergedError, shell_path
from jaxrl.train.callbacks import goal_sentence
from jaxrl.train.devices import hosts
from jaxrl.train.folder.checkpoint import CheckpointReader
from jaxrl.train.folder.json_file import DamagedFileError, read_json
from jaxrl.train.folder.lock import NAME as LOCK
from jaxrl.train.folder.lock import locked
from jaxrl.train.folder.provenance import changes
from jaxrl.train.folder.run_folder import RunFolder
from jaxrl.train.folder.same_run import run_differences
from jaxrl.train.folder.sources import keep_sources
from jaxrl.train.folder.trust import remember_class, vouch
from jaxrl.wrappers.players import runs_near

__all__ = [
    "Begun",
    "Resume",
    "Stage",
    "decide",
    "finished_message",
    "goal_reached",
    "is_finished",
    "left_to_do",
    "open_run",
    "read_about",
]

_LASTING = ("changed", "command", "initial_state", "lengthened", "rollout_share", "sources", "trust_id")
"""The entries of run.json that a continued run keeps, besides its notes."""

_LENGTH, _POLICIES = "total_timesteps", "policies"

Resume = Literal[True, False, "auto"]
"""As `fit` takes it."""


class Stage(enum.Enum):
    """The progress of the run in a folder."""

    FRESH = "nothing to go on from"
    UNFINISHED = "a checkpoint to go on from"
    FINISHED = "every update done"
    DIVERGED = "ended, with nothing finite to go on with"


class Begun(NamedTuple):
    """A run that may write into its folder now."""

    folder: RunFolder | None
    about: dict[str, Any]
    """For run.json."""
    continues: bool
    """True if it goes on from the newest good checkpoint."""
    longer_than: int | None = None
    """The `total_timesteps` that it had before, if it is made longer now."""
    changed: Sequence[str] = ()
    """The changes since then that its numbers depend on besides its config, one sentence each."""

    @property
    def path(self) -> Path | None:
        """The path of the folder."""
        return None if self.folder is None else self.folder.path


def decide(folder: RunFolder, config: Any, about: Mapping[str, Any], longer: bool = False) -> Stage:
    """The progress of a run in a folder.

    Args:
        folder: It need not exist.
        config: The run's config.
        about: What it asks for, see `wanted`.
        longer: Whether the run may be the one in the folder, made longer.

    Raises:
        FileExistsError: The folder holds another run; the message names the differences and what to type.
    """
    if not (folder.path / "run.json").is_file():
        return Stage.FRESH
    before = read_about(folder.path / "run.json")
    then = {**before["config"], **(_longer(before, config) if longer else {}), **_met(before, config, folder)}
    differing = run_differences(config, {**before, "config": then}, about)
    if differing:
        raise FileExistsError(_another(folder, config, before, differing))
    if before["status"] == "diverged" and about["options"].get("on_nan") != "skip":
        return Stage.DIVERGED
    if is_finished(before, config, about["options"]):
        return Stage.FINISHED
    return Stage.UNFINISHED if CheckpointReader(folder.checkpoints).updates else Stage.FRESH


def is_finished(before: Mapping[str, Any], config: Any, options: Mapping[str, Any]) -> bool:
    """True if a run has made all its updates or reached its goal.

    Args:
        before: The content of run.json.
        config: The config of the run, perhaps of a longer one.
        options: The options of `fit`.
    """
    last = config.num_updates if before.get("segment") is None else before["segment"][1]
    at_end = before.get("timesteps") == last * config.steps_per_update
    return before["status"] == "finished" and (at_end or goal_reached(before, options))


def goal_reached(before: Mapping[str, Any], options: Mapping[str, Any]) -> bool:
    """True if a finished run has reached the goal that is asked for.

    Args:
        before: The content of run.json.
        options: The options of `fit`.
    """
    reached, goal = before.get("goal"), options.get("stop_at")
    return bool(reached) and goal is not None and reached["score"] >= goal


def finished_message(folder: RunFolder) -> str:
    """A message that the run in a folder is finished, and what to type to play it or to go on."""
    about, place = folder.read(), shell_path(folder.path)
    steps = about.get("timesteps", 0)
    reached = about.get("goal")
    said = f"{goal_sentence(reached)} " if reached else ""
    said += f"The run in {folder.path} is finished after {steps:,} steps: `jaxrl eval {place}` plays it"
    if "segment" in about or "population" in about:
        return f"{said}."
    higher = f"`jaxrl resume {place} --stop-at N` sets a higher goal, " if reached else ""
    more = max(2 * steps, about["config"].get(_LENGTH, 0))
    return f"{said}, {higher}`jaxrl resume {place} --total-timesteps {more}` makes it longer."


def left_to_do(run_dir: Path, config: Any, about: Mapping[str, Any]) -> bool:
    """True if there is something left to train.

    Raises:
        FileExistsError: The run in the folder has diverged, or is another one.
    """
    folder = RunFolder(run_dir)
    stage = decide(folder, config, about)
    if stage is Stage.DIVERGED:
        raise FileExistsError(_diverged(folder))
    return stage is not Stage.FINISHED


def read_about(file: Path) -> dict[str, Any]:
    """The content of a run.json, or of the same file of a sweep or search.

    Raises:
        FileExistsError: It is damaged.
    """
    try:
        return read_json(file)
    except DamagedFileError as error:
        raise FileExistsError(f"{error} Choose another --run-dir.") from error


@contextlib.contextmanager
def open_run(run_dir: str | Path | None, config: Any, about: dict[str, Any], resume: Resume) -> Iterator[Begun]:
    """Lock the folder of a run and decide what happens in it. All processes must call it; the first one decides.

    Args:
        run_dir: The folder; None for a run without one.
        config: The run's config.
        about: What run.json says of it, see `wanted`.
        resume: False begins; True continues, also as a longer run; "auto" continues if there is something to go on
            from, else begins. A finished run is continued, with nothing left to train.

    Raises:
        FileExistsError: The folder holds something else, or another process trains in it.
        FileNotFoundError: There is no run to continue.
        CheckpointError: The run to continue has no checkpoint.
        DivergedError: It has diverged.
        OSError: Nothing can be written in the folder.
    """
    remember_class(about["config_class"], type(config))
    if run_dir is None:
        yield Begun(None, about, False)
        return
    with contextlib.ExitStack() as held:
        begun = hosts.on_main(lambda: _enter(held, RunFolder(run_dir), config, about, resume), OSError)
        continues = hosts.main_says(begun is not None and begun.continues)
        yield begun or Begun(RunFolder(hosts.scratch()), about, continues)


def _enter(held: contextlib.ExitStack, folder: RunFolder, config: Any, about: dict[str, Any], resume: Resume) -> Begun:
    # The folder has to be one that may be written, and nobody else may write in it.
    holds = (folder.path / "run.json").is_file()
    opened = RunFolder.reopen if resume is True or (resume and holds) else RunFolder.create
    opened(folder.path)
    held.enter_context(locked(folder.path))
    if not resume:
        RunFolder.create(folder.path)  # once more: another process may have been quicker
        return _begun(folder, config, about)
    # What holds nothing to go on from is refused, or begins anew where that is allowed.
    stage = decide(folder, config, about, longer=resume is True)
    if stage is Stage.DIVERGED:
        raise DivergedError(_diverged(folder))
    if stage is Stage.FRESH and resume != "auto":
        raise CheckpointError(
            f"There is no checkpoint in {folder.checkpoints}: the run was interrupted before its first one, or it was "
            f"deleted. The command that began the run, given again, begins it anew: {folder.read()['command']}"
        )
    if stage is Stage.FINISHED and not CheckpointReader(folder.checkpoints).updates:
        raise CheckpointError(
            f"The run in {folder.path} is finished, but its checkpoints are gone. To train it again name another "
            f"folder with --run-dir."
        )
    if stage is Stage.FRESH:
        _begin_anew(folder)
        return _begun(folder, config, about)
    return _going_on(folder, config, about)


def _begun(folder: RunFolder, config: Any, about: dict[str, Any]) -> Begun:
    """A run from its beginning, which keeps copies of the user's own files and a record that it is this user's."""
    keep_sources(folder.path, config)
    return Begun(folder, about | vouch(about), False)


def _going_on(folder: RunFolder, config: Any, about: dict[str, Any]) -> Begun:
    """A run that is continued; its run.json records if it is made longer, and what has changed around it."""
    before = folder.read()
    then = before["config"].get(_LENGTH) if _longer(before, config) else None
    if then is not None:
        before["lengthened"] = [*before.get("lengthened", ()), {_LENGTH: then}]
    changed = changes(before, about) if before["versions"] else []  # a run.json without them tells nothing
    if changed:
        before["changed"] = [*before.get("changed", ()), *changed]
    return Begun(folder, _continued(before, about), True, then, changed)


def _continued(before: dict[str, Any], about: dict[str, Any]) -> dict[str, Any]:
    """The new content of run.json, which keeps its notes and what it says of the run's beginning."""
    names = dict.fromkeys([*before.get("notes", ()), *about.get("notes", ())])
    noted = {name: about.get(name, before.get(name)) for name in names}
    kept = {name: before[name] for name in _LASTING if name in before}
    notes = {**noted, "notes": list(names)} if names else {}
    met = {_POLICIES: before["config"][_POLICIES]} if before["config"].get(_POLICIES) else {}
    config = {**about["config"], **met}  # as it was typed, wherever the run is continued
    return {**about, "config": config, **notes, **kept, "resumed": before.get("resumed", 0) + 1}


def _met(before: Mapping[str, Any], config: Any, folder: RunFolder) -> dict[str, Any]:
    """The field `policies` of a config, if it names the runs that the run in a folder met; else nothing."""
    then, now = before["config"].get(_POLICIES), getattr(config, _POLICIES, ())
    return {_POLICIES: list(now)} if then and runs_near(then, folder.path) == tuple(now) else {}


def _longer(before: Mapping[str, Any], config: Any) -> dict[str, int]:
    """The field `total_timesteps` of a config, if it makes the run in a run.json longer; else nothing."""
    then, now = before["config"].get(_LENGTH), getattr(config, _LENGTH, None)
    if then is None or now is None or now <= then or "segment" in before:
        return {}
    return {_LENGTH: now}


def _another(folder: RunFolder, config: Any, before: Mapping[str, Any], differing: Sequence[str]) -> str:
    """A message that a folder holds another run, and what to type."""
    place, longer = shell_path(folder.path), _longer(before, config)
    if longer and all(text.startswith(f"{_LENGTH} is") for text in differing):
        other = f", or make that one longer with `jaxrl resume {place} --total-timesteps {longer[_LENGTH]}`"
    elif before["status"] != "finished":
        other = f", or continue that one with `jaxrl resume {place}`"
    else:
        other = ""
    return (
        f"{folder.path} already holds another run: {', '.join(differing)}. Name another folder with --run-dir{other}."
    )


def _diverged(folder: RunFolder) -> str:
    """A message about how the run ended, and what to type."""
    about = folder.read()
    said = f"The run in {folder.path} has ended: {about.get('error', 'it has diverged.')}"
    if not CheckpointReader(folder.checkpoints).updates:
        return f"{said} It has no checkpoint to go on from: name another folder with --run-dir."
    return (
        f"{said} To go on from the last good checkpoint without the updates that are not finite, type: "
        f"jaxrl resume {shell_path(folder.path)} --on-nan skip"
    )


def _begin_anew(folder: RunFolder) -> None:
    """Free the folder: set the files of an interrupted run aside, and say so."""
    if not (folder.path / "run.json").is_file():
        return
    place = _set_aside(folder)
    kept = f"; what it had written is in {place}" if place else ""
    print(f"{folder.path} was interrupted before its first checkpoint, so it begins anew{kept}.", file=sys.stderr)


def _set_aside(folder: RunFolder) -> Path | None:
    """The folder inside that holds the files now; None if nothing had been learned.

    The files that show that there is a run move last: if the process is killed on the way, it is set aside next time.
    """
    if not folder.metrics.size and not folder.best.exists():
        shutil.rmtree(folder.checkpoints, ignore_errors=True)
        folder.evaluations.path.unlink(missing_ok=True)
        (folder.path / "run.json").unlink()
        return None
    number = 1
    while (place := folder.path / f"interrupted-{number}").exists():
        number += 1
    files = [file for file in folder.path.iterdir() if file.name != LOCK and not file.name.startswith("interrupted-")]
    place.mkdir()
    last = (folder.best.name, folder.metrics.path.name, "run.json")
    for file in sorted(files, key=lambda file: last.index(file.name) if file.name in last else -1):
        file.rename(place / file.name)
    return place
