"""A run from the first update to the pictures of the result: the work behind `fit`'s many keywords."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from jax.sharding import Mesh

from jaxrl.algorithm import Algorithm, RunConfig
from jaxrl.deploy.policy import Policy
from jaxrl.display import as_html
from jaxrl.errors import CheckpointError, DivergedError
from jaxrl.train.cost.time_split import rollout_share
from jaxrl.train.devices import hosts
from jaxrl.train.folder.continuation import Resume, entered
from jaxrl.train.folder.provenance import on_devices
from jaxrl.train.folder.run_folder import algorithm_name, describe_run
from jaxrl.train.folder.same_run import wanted
from jaxrl.train.folder.sources import not_loadable
from jaxrl.train.hooks import Hook, OnRow, RowHook
from jaxrl.train.intervals import Intervals
from jaxrl.train.lineage import Lineage
from jaxrl.train.live.progress import make_progress
from jaxrl.train.loggers import Logger, follow, make_logger
from jaxrl.train.loop import Loop
from jaxrl.train.members import Members, best_member, member_of
from jaxrl.train.metrics import RowMaker, columns
from jaxrl.train.pictures.artifacts import save_pictures
from jaxrl.train.programs import Programs, compile_programs
from jaxrl.train.summary import evaluation_lines

__all__ = ["Recording", "Result", "Segment", "Training", "UnsavedError", "run"]


class Segment(NamedTuple):
    """A range of a run's updates."""

    first: int
    """Updates done before the segment."""
    last: int
    """Updates done after it."""
    state: Any = None
    """The train state to start from, with a leading members axis for M > 1; None for a fresh one."""


@dataclasses.dataclass(frozen=True, repr=False)
class Result:
    """The result of a run."""

    state: Any
    """The train state; with several seeds, every leaf has a leading members axis `[M, …]`. With several processes,
    each one has the whole state."""
    metrics: dict[str, np.ndarray]
    """The columns of metrics.jsonl, `[R]` or, with several seeds, `[R, M]`: timesteps, win_rate, losses/policy …"""
    evaluation: dict[str, Any] | None
    """The final greedy evaluation: episodes, return_mean, return_std, length_mean, win_rate (lists with several seeds).
    None if the run was stopped early."""
    diverged: list[int]
    """Members whose losses or parameters are no longer finite."""
    run_dir: Path | None
    """The folder of the run."""
    compile_seconds: float
    """Time spent compiling."""
    compile_cached: bool
    """Whether the training program came from JAX's persistent compilation cache."""
    train_seconds: float
    """Time spent training, excluding compilation and evaluation."""
    steps_per_second: float
    """Environment steps of all members, divided by `train_seconds`."""
    programs: Programs
    """The compiled programs, for another `fit`."""
    stopped: str | None
    """Why training ended early: the name of a signal, or `"on_row"`; None if it ran to its end."""
    algo: Algorithm = dataclasses.field(repr=False)
    """The algorithm that `state` belongs to."""
    config: RunConfig = dataclasses.field(repr=False)
    """The configuration."""

    @functools.cached_property
    def policy(self) -> Policy:
        """The policy that was learned, of a run with one seed.

        Raises:
            ValueError: There are several seeds: `jaxrl.load(run_dir).member(0).policy` is that of the first one.
        """
        return Policy(self.algo, self.config.make_env(), self.state)

    def __repr__(self) -> str:
        return "\n".join([f"Result: {self._headline}", *evaluation_lines(self.evaluation)])

    def _repr_html_(self) -> str:
        lines = (line.strip().partition("  ") for line in evaluation_lines(self.evaluation))
        return as_html(f"Result: {self._headline}", {name: value.strip() for name, _, value in lines})

    @property
    def _headline(self) -> str:
        steps = int(self.metrics["timesteps"][-1]) if len(self.metrics.get("timesteps", ())) else 0
        ended = f", stopped by {self.stopped}" if self.stopped else ""
        place = f", in {self.run_dir}" if self.run_dir else ""
        return f"{steps:,} steps in {self.train_seconds:.1f} s at {self.steps_per_second:,.0f} steps/s{ended}{place}"


class UnsavedError(CheckpointError):
    """Training finished, but not everything could be written; `result` has everything nevertheless.

    Args:
        text: What could not be written, and why.
        result: The result that `fit` would have returned.
    """

    def __init__(self, text: str, result: Result) -> None:
        super().__init__(text)
        self.result = result


@dataclasses.dataclass(frozen=True)
class Training:
    """What to train."""

    algo: Algorithm
    config: RunConfig
    members: Members
    own: Sequence[Mapping[str, Any]] | None
    """The fields in which each member differs from the config, if given."""
    mesh: Mesh | None
    segment: Segment | None
    """Only some of the updates; None for all of them."""
    lineage: Lineage | None
    on_nan: str
    eval_episodes: int
    programs: Programs | None
    time_split: bool

    @property
    def updates(self) -> Segment:
        """The updates to make."""
        return self.segment or Segment(0, self.config.num_updates)

    @property
    def title(self) -> str:
        """A title such as `ippo on smax/3m, 4 seeds`."""
        count, what = len(self.members), "seeds" if self.own is None else "members"
        return f"{algorithm_name(type(self.config))} on {self.config.env}" + (f", {count} {what}" if count > 1 else "")


@dataclasses.dataclass(frozen=True)
class Recording:
    """What to write and show of a run."""

    run_dir: str | Path | None
    resume: Resume
    keep_checkpoints: int
    pictures: bool
    logger: str | Mapping[str, Any] | Logger | None
    notes: Mapping[str, Any] | None
    quiet: bool
    on_row: OnRow | None


def run(training: Training, intervals: Intervals, recording: Recording) -> Result:
    """Train, log, evaluate, save; see `fit`.

    Raises:
        FileExistsError: The folder holds something else, or another process is training in it.
        DivergedError: Losses or parameters are no longer finite.
        UnsavedError: The last state or rows could not be saved.
        Exception: Whatever `on_row` raised.
    """
    config, updates = training.config, training.updates
    logger, logger_options = make_logger(recording.logger if hosts.is_main() else None)
    about = _description(training, intervals, recording, logger_options)
    first, last = (update * config.steps_per_update for update in (updates.first, updates.last))
    on_row = RowHook(recording.on_row or (lambda row: None))
    with (
        entered(recording.run_dir, config, about, recording.resume) as begun,
        make_progress(training.title, last, recording.quiet, begun.path, on_devices(about), first) as progress,
        follow(logger, begun.about, begun.path, progress.say),
    ):
        if training.programs is None:
            progress.phase("compiling…")
        hooks: list[Hook] = [progress, logger, on_row]
        loop = Loop(
            _programs(training),
            intervals,
            RowMaker(intervals.updates_in_row, updates.last, config.steps_per_update, len(training.members)),
            members=training.members,
            say=progress.say,
            hooks=hooks,
            folder=begun.folder,
            keep_checkpoints=recording.keep_checkpoints,
        )
        for text in not_loadable(config) if begun.folder else ():
            loop.tell("not_loadable", text)
        if training.time_split:
            share = rollout_share(training.algo, loop.programs, len(training.members), training.mesh)
            begun.about["rollout_share"] = progress.measured(share)
        result = _train(loop, training, begun.path, begun.about, begun.continues, on_row)
        if begun.folder is not None and recording.pictures and result.evaluation is not None and hosts.is_main():
            progress.phase("drawing…")
            state = result.state
            if len(training.members) > 1:
                state = member_of(state, best_member(result.evaluation))
            save_pictures(begun.folder, training.algo, config.make_env(), state, training.title, progress.say)
        loop.saver.finish()
        progress.phase(f"stopped by {result.stopped}" if result.stopped else "done")
    if loop.saver.error is not None:
        raise UnsavedError(str(loop.saver.error), result)
    return result


def _programs(training: Training) -> Programs:
    """The programs of an earlier run, or newly compiled ones."""
    if training.programs is not None:
        return training.programs.bind(training.config, training.members)
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
    }
    notes, count = recording.notes, len(training.members)
    span = training.segment and (training.segment.first, training.segment.last)
    about = describe_run(training.config, count) | ({**notes, "notes": list(notes)} if notes else {})
    about |= wanted(training.config, training.own or count, options, span, training.lineage)
    about["mesh"] = dict(training.mesh.shape) if training.mesh else {"member": 1, "data": 1}
    return about


def _train(
    loop: Loop, training: Training, path: Path | None, about: dict[str, Any], resume: bool, on_row: RowHook
) -> Result:
    """Train from the first or the restored state to the final evaluation, and keep run.json up to date."""

    def note(**facts: Any) -> None:
        about.update(facts)
        loop.saver.note(about)

    programs, segment = loop.programs, training.updates
    note(compile_seconds=round(programs.seconds, 3), compile_cached=programs.cached)
    state = _first_state(loop, resume, segment)
    try:
        state = loop.run(state)
    except DivergedError as error:
        loop.saver.finish()
        everyone = list(range(about["num_seeds"]))
        note(status="diverged", error=str(error), diverged=everyone, timesteps=loop.rows.timesteps)
        raise
    if on_row.error is not None:
        raise on_row.error
    seconds = loop.clock.seconds
    own = 1 - segment.first / max(loop.rows.update, 1)  # the share of all updates that were made here
    steps_per_second = own * loop.rows.timesteps * about["num_seeds"] / max(seconds, 1e-9)
    note(train_seconds=round(seconds, 3), steps_per_second=round(steps_per_second, 1), timesteps=loop.rows.timesteps)
    interrupted = (loop.stopped or "").startswith("SIG")
    evaluation = None if interrupted else loop.evaluate(state)
    diverged = loop.watch.divergence.found(loop.table, state)
    state = hosts.gather(state)
    status = "unsaved" if loop.saver.error else "stopped" if interrupted else "finished"
    note(status=status, evaluation=evaluation, diverged=diverged)
    return Result(
        state=state,
        metrics=columns(loop.table),
        evaluation=evaluation,
        diverged=diverged,
        run_dir=path,
        compile_seconds=programs.seconds,
        compile_cached=programs.cached,
        train_seconds=seconds,
        steps_per_second=steps_per_second,
        programs=programs,
        stopped=loop.stopped,
        algo=training.algo,
        config=training.config,
    )


def _first_state(loop: Loop, resume: bool, segment: Segment) -> Any:
    """The restored state, or a fresh one, which is evaluated first.

    Raises:
        CheckpointError: There is no good checkpoint to resume from.
    """
    if resume:
        state = loop.restore(loop.programs.state_shape)
        if loop.rows.update > segment.last:
            raise CheckpointError(
                f"The checkpoint is of update {loop.rows.update}, but the run has only {segment.last}."
            )
        return state
    loop.rows.update = segment.first
    state = loop.programs.init() if segment.state is None else segment.state
    loop.evaluate(state)
    return state
