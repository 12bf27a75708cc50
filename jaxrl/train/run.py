"""A run from the first update to the pictures of the result: the work behind `fit`'s many keywords."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from jax.sharding import Mesh

from jaxrl.algorithm import Algorithm, RunConfig
from jaxrl.config import as_whole
from jaxrl.errors import CheckpointError, DivergedError
from jaxrl.train.callbacks import Callback, OnRow, OwnCallbacks, StopAt
from jaxrl.train.cost import rollout_share
from jaxrl.train.devices import hosts
from jaxrl.train.folder.continuation import Begun, Resume, open_run
from jaxrl.train.folder.provenance import on_devices
from jaxrl.train.folder.run_folder import describe_run
from jaxrl.train.folder.same_run import check_hosts, wanted
from jaxrl.train.folder.sources import not_loadable, own_loss
from jaxrl.train.health.failure import failure_noted
from jaxrl.train.intervals import Intervals
from jaxrl.train.live.progress import make_progress
from jaxrl.train.loggers import Logger, follow, make_logger
from jaxrl.train.loop import Loop
from jaxrl.train.members import Lineage, Members, best_member, member_of
from jaxrl.train.metrics import RowMaker, columns
from jaxrl.train.pictures import save_pictures, title_of
from jaxrl.train.programs import Programs, compile_programs
from jaxrl.train.result import Result, UnsavedError
from jaxrl.train.start import Start

__all__ = ["KEEP_CHECKPOINTS", "Recording", "SearchRun", "Segment", "Training", "run"]


KEEP_CHECKPOINTS = 3
"""The number of checkpoints that are kept by default."""


class Segment(NamedTuple):
    """A range of a run's updates."""

    first: int
    """Updates done before the segment."""
    last: int
    """Updates done after it."""
    state: Any = None
    """The train state to start from, with a leading members axis for M > 1; it is donated. None for a fresh one."""


class SearchRun(NamedTuple):
    """The settings of searches and reruns in their runs."""

    segment: Segment | None = None
    """Only some of the updates; None for all of them."""
    lineage: Lineage | None = None
    """Hyperparameters that change while training, from generation to generation."""
    programs: Programs | None = None
    """`Result.programs` of an earlier run of the same shape; None compiles them."""
    notes: Mapping[str, Any] | None = None
    """Additional facts for run.json."""


@dataclasses.dataclass(frozen=True)
class Training:
    """A training: the algorithm, its members and where it starts."""

    algo: Algorithm
    config: RunConfig
    members: Members
    own: Sequence[Mapping[str, Any]] | None
    """The fields in which each member differs from the config, if given."""
    mesh: Mesh | None
    search: SearchRun
    start: Start
    on_nan: str
    eval_episodes: int
    time_split: bool

    @property
    def updates(self) -> Segment:
        """The updates to make."""
        return self.search.segment or Segment(0, self.config.num_updates)


@dataclasses.dataclass(frozen=True)
class Recording:
    """The output of a run: what is written and shown."""

    run_dir: str | Path | None
    resume: Resume
    keep_checkpoints: int
    pictures: bool
    logger: str | Mapping[str, Any] | Logger | None
    quiet: bool
    callbacks: Sequence[Callback | OnRow]

    def check(self, intervals: Intervals) -> None:
        """Raise ValueError for another `resume`, and for options of checkpoints without a folder to save them in."""
        if self.resume not in (True, False, "auto"):
            raise ValueError(f'resume must be True, False or "auto", got {self.resume!r}.')
        keep = as_whole("keep_checkpoints", self.keep_checkpoints)
        if self.run_dir is None and (self.resume is True or intervals.saves_on_demand or keep != KEEP_CHECKPOINTS):
            raise ValueError("Checkpoints need a place: give a run_dir.")

    @property
    def begins(self) -> bool:
        """True if there is nothing to continue from. A run that was interrupted very early may begin in any case."""
        return not self.resume or self.run_dir is None or not (Path(self.run_dir) / "run.json").is_file()


def run(training: Training, intervals: Intervals, recording: Recording) -> Result:
    """Train, log, evaluate, save; see `fit`.

    Raises:
        FileExistsError: The folder holds something else, or another process is training in it.
        DivergedError: Losses or parameters are no longer finite.
        UnsavedError: The last state or rows could not be saved.
        Exception: Whatever a callback raised.
    """
    recording.check(intervals)
    # What is trained, as run.json has it; all hosts have to agree on that.
    config, updates = training.config, training.updates
    logger, logger_options = make_logger(recording.logger if hosts.is_main() else None)
    about = _description(training, intervals, recording, logger_options)
    check_hosts({**about, "time_split": training.time_split})
    first, last = (update * config.steps_per_update for update in (updates.first, updates.last))
    own, goal = OwnCallbacks(recording.callbacks), StopAt(intervals.stop_at)
    if hosts.main_says(recording.begins):
        training.start.check()
    with (
        open_run(recording.run_dir, config, about, recording.resume) as begun,
        failure_noted(begun.path, config, len(training.members), training.eval_episodes),
        make_progress(title_of(about), last, recording.quiet, begun.path, on_devices(about), first) as progress,
        follow(logger, begun.about, begun.path, progress.say),
    ):
        if training.search.programs is None:
            progress.phase("compiling…")
        loop = Loop(
            _programs(training),
            intervals,
            RowMaker(intervals.updates_in_row, updates.last, config.steps_per_update, len(training.members)),
            members=training.members,
            say=progress.say,
            callbacks=[progress, logger, goal, own],
            folder=begun.folder,
            keep_checkpoints=recording.keep_checkpoints,
            checkpoint_replay=getattr(config, "checkpoint_replay", True),
            learns_after=getattr(config, "updates_before_learning", 0),
        )
        # Words and measurements before training.
        for text in not_loadable(config) if begun.folder else ():
            loop.tell("not_loadable", text)
        if training.time_split:
            before = getattr(config, "updates_before_learning", 0)
            share = rollout_share(training.algo, loop.programs, len(training.members), training.mesh, before=before)
            begun.about["rollout_share"] = progress.measured(share)
        result = _train(loop, training, begun, goal, own)
        # Pictures show the best member.
        if begun.folder is not None and recording.pictures and result.evaluation is not None and hosts.is_main():
            progress.phase("drawing…")
            state = result.state
            if len(training.members) > 1:
                best = best_member(result.evaluation, result.diverged, getattr(config, "league", None))
                state = member_of(state, best)
            save_pictures(begun.folder, training.algo, config.make_env(), state, title_of(about), progress.say)
        loop.saver.finish()
        # Last of all: whoever dies before has something left to do, which the same command does.
        begun.about["status"] = "unsaved" if loop.saver.error else "stopped" if result.interrupted else "finished"
        loop.saver.note(begun.about)
        progress.phase(f"stopped by {result.interrupted}" if result.interrupted else "done")
    # Errors that waited until everything was written.
    if own.error is not None:
        raise own.error
    if loop.saver.error is not None:
        raise UnsavedError(str(loop.saver.error), result)
    own.end(result)
    return result


def _programs(training: Training) -> Programs:
    """The programs of an earlier run, or newly compiled ones."""
    if training.search.programs is not None:
        return training.search.programs.bind(training.config, training.members)
    return compile_programs(training.algo, training.config, training.members, training.eval_episodes, training.mesh)


def _description(
    training: Training, intervals: Intervals, recording: Recording, logger_options: dict[str, Any] | None
) -> dict[str, Any]:
    """The content of run.json before the run starts."""
    options = {
        **{name: value for name, value in dataclasses.asdict(intervals).items() if name != "num_updates"},
        "eval_episodes": training.eval_episodes,
        "keep_checkpoints": recording.keep_checkpoints,
        "on_nan": training.on_nan,
        "pictures": recording.pictures,
        "logger": logger_options,
        "init_from": training.start.description,
    }
    segment, lineage, _, notes = training.search
    count = len(training.members)
    about = describe_run(training.config, count) | ({**notes, "notes": list(notes)} if notes else {})
    about |= wanted(training.config, training.own or count, options, segment and segment[:2], lineage)
    if training.start.initial_state is not None:
        about["initial_state"] = "given"
    if loss := own_loss(training.algo, training.config):
        about["loss"] = loss
    about["mesh"] = dict(training.mesh.shape) if training.mesh else {"member": 1, "data": 1}
    return about


def _train(loop: Loop, training: Training, begun: Begun, goal: StopAt, own: OwnCallbacks) -> Result:
    """Train from the first or the restored state to the final evaluation, and keep run.json up to date."""
    programs, about = loop.programs, begun.about

    def note(**facts: Any) -> None:
        about.update(facts)
        loop.saver.note(about)

    about.update(compile_seconds=round(programs.seconds, 3), compile_cached=programs.cached)
    # Train; an error leaves its reason in run.json.
    state = _first_state(loop, training, begun, goal)
    try:
        state = loop.run(state)
    except DivergedError as error:
        loop.saver.finish()
        everyone = list(range(about["num_seeds"]))
        note(status="diverged", error=str(error), diverged=everyone, timesteps=loop.rows.timesteps)
        raise
    if own.error is not None:
        note(status="stopped", timesteps=loop.rows.timesteps, train_seconds=round(loop.clock.seconds, 3))
        raise own.error
    # Speed is that of the updates that were made here, without compilation.
    seconds = loop.clock.seconds
    share = 1 - training.updates.first / max(loop.rows.update, 1)  # of all updates, those that were made here
    steps_per_second = share * loop.rows.timesteps * about["num_seeds"] / max(seconds, 1e-9)
    note(train_seconds=round(seconds, 3), steps_per_second=round(steps_per_second, 1), timesteps=loop.rows.timesteps)
    # A last evaluation, unless somebody wants the process to end.
    interrupted = (loop.stopped or "").startswith("SIG")
    evaluation = None if interrupted else loop.evaluate(state)
    diverged = loop.watch.divergence.found(loop.table, state)
    state = hosts.gather(state)
    note(evaluation=evaluation, diverged=diverged, goal=goal.reached)
    if goal.reached:
        loop.tell("goal", goal.sentence)
    return Result(
        state=state,
        metrics=columns(loop.table),
        evaluation=evaluation,
        diverged=diverged,
        run_dir=begun.path,
        compile_seconds=programs.seconds,
        compile_cached=programs.cached,
        train_seconds=seconds,
        steps_per_second=steps_per_second,
        programs=programs,
        stopped=loop.stopped,
        algo=training.algo,
        config=training.config,
    )


def _first_state(loop: Loop, training: Training, begun: Begun, goal: StopAt) -> Any:
    """The restored state, or the one to start from, which is evaluated first. From here on run.json is of this run.

    Raises:
        CheckpointError: There is no good checkpoint to resume from.
        ValueError: What to start from does not fit.
    """
    segment, about = training.updates, begun.about
    if not begun.continues:
        loop.saver.note(about)
        loop.rows.update = segment.first
        for sentence in getattr(training.config, "warnings", list)():
            loop.tell("config", sentence)
        if names := loop.programs.unread:
            loop.tell("config", f"metrics.jsonl leaves out {', '.join(names)}: put what it should have into losses.")
        state, said = (segment.state, None) if segment.state is not None else training.start.first(loop.programs)
        if said:
            loop.tell("start", said)
        loop.evaluate(state)
        return state
    # Restored: the checkpoint and the rows before it.
    state = loop.restore(loop.programs.state_shape)
    if loop.rows.update > segment.last:
        raise CheckpointError(f"The checkpoint is of update {loop.rows.update}, but the run has only {segment.last}.")
    evaluations = begun.folder.evaluations.read()[-1:] if begun.folder else []
    [last] = hosts.main_says(evaluations) or [{"timesteps": 0}]
    if begun.longer_than is not None:
        about["lengthened"][-1]["timesteps"] = loop.rows.timesteps
    loop.saver.note(about)  # not earlier: a run that cannot be restored keeps what its run.json says
    # Words about what is no longer as it was.
    if begun.changed:
        loop.tell(
            "changed", f"The numbers from here on may not be those of an undisturbed run. {' '.join(begun.changed)}"
        )
    if begun.longer_than is not None:
        for sentence in _said_of_length(training, begun.longer_than, loop.rows.update):
            loop.tell("config", sentence)
        if last["timesteps"] < loop.rows.timesteps:
            loop.evaluate(state)  # as at the end of the shorter run
    # The last evaluation may be of this very state, and may have reached the goal.
    if last["timesteps"] and last["timesteps"] == loop.rows.timesteps:
        loop.evaluated_before({name: value for name, value in last.items() if name not in ("timesteps", "seconds")})
    if goal.evaluation(last):
        loop.stopped = goal.reason
    return state


def _said_of_length(training: Training, before: int, update: int) -> list[str]:
    """The sentences of the configs, for all members, about making a run of `before` steps longer after `update`."""
    if not hasattr(training.config, "lengthened"):
        return []
    said: dict[str, None] = {}
    for own in training.own or [{}]:
        now: Any = dataclasses.replace(training.config, **own)  # pyright: ignore[reportArgumentType]
        said |= dict.fromkeys(now.lengthened(dataclasses.replace(now, total_timesteps=before), update))
    return list(said)
