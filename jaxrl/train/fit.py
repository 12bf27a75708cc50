"""`fit`: train an algorithm from the first update to the pictures of the result."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from jaxrl.algorithm import Algorithm
from jaxrl.errors import CheckpointError, DivergedError
from jaxrl.fields import as_whole
from jaxrl.train.cost.time_split import rollout_share
from jaxrl.train.devices import hosts
from jaxrl.train.devices.mesh import MeshShape, choose_mesh
from jaxrl.train.folder.checkpoint import Checkpoints
from jaxrl.train.folder.continuation import Resume, entered
from jaxrl.train.folder.provenance import on_devices
from jaxrl.train.folder.run_folder import describe_run
from jaxrl.train.folder.same_run import wanted
from jaxrl.train.health.nan_guard import OnNan, handle_nan
from jaxrl.train.intervals import Intervals
from jaxrl.train.lineage import Lineage, follow_lineage
from jaxrl.train.live.progress import make_progress
from jaxrl.train.loggers import Logger, follow, make_logger
from jaxrl.train.loop import Loop, OnRow
from jaxrl.train.members import Members
from jaxrl.train.metrics import RowMaker, columns
from jaxrl.train.pictures.artifacts import best_member, save_pictures
from jaxrl.train.programs import Programs, RunConfig, compile_programs

__all__ = ["KEPT", "Result", "Segment", "UnsavedError", "fit"]

KEPT = 3
"""Checkpoints that are kept by default."""


class Segment(NamedTuple):
    """Some of a run's updates."""

    first: int
    """Updates done before."""
    last: int
    """Updates done in the end."""
    state: Any = None
    """The train state to go on from, with a leading members axis for M > 1; None for a fresh one."""


@dataclasses.dataclass(frozen=True)
class Result:
    """What a run has brought."""

    state: Any
    """The train state; with several seeds every leaf has a leading members axis `[M, …]`. With several processes each
    has the whole of it."""
    metrics: dict[str, np.ndarray]
    """The columns of metrics.jsonl, `[R]` or, with several seeds, `[R, M]`: timesteps, win_rate, losses/policy …"""
    evaluation: dict[str, Any] | None
    """The final greedy evaluation: episodes, return_mean, return_std, length_mean, win_rate (a list each with several
    seeds). None if the run was stopped early."""
    diverged: list[int]
    """Members whose losses or parameters are no longer finite."""
    run_dir: Path | None
    """Where everything was written."""
    compile_seconds: float
    """Time spent compiling."""
    compile_cached: bool
    """Whether the training program was found in JAX's persistent compilation cache."""
    train_seconds: float
    """Time spent training, without compiling and evaluating."""
    steps_per_second: float
    """Environment steps of all members over `train_seconds`."""
    programs: Programs = dataclasses.field(repr=False)
    """What was compiled, for another `fit`."""
    stopped: str | None
    """Why training ended early: the name of a signal, or `"on_row"`; None if it ran to its end."""


class UnsavedError(CheckpointError):
    """Training has come to its end, but not all of it could be written; `result` has everything nevertheless.

    Args:
        text: What could not be written and why.
        result: What `fit` would have returned.
    """

    def __init__(self, text: str, result: Result) -> None:
        super().__init__(text)
        self.result = result


def fit(
    algo: Algorithm,
    config: RunConfig,
    run_dir: str | Path | None = None,
    *,
    num_seeds: int = 1,
    members: Sequence[Mapping[str, Any]] | None = None,
    mesh: MeshShape | None = None,
    log_every: int | None = None,
    eval_every: int | None = None,
    eval_episodes: int = 512,
    checkpoint_every_updates: int | None = None,
    checkpoint_every_minutes: float | None = None,
    keep_checkpoints: int = KEPT,
    on_nan: OnNan = "stop",
    pictures: bool = True,
    time_split: bool = False,
    quiet: bool = False,
    resume: Resume = False,
    on_row: OnRow | None = None,
    logger: str | Mapping[str, Any] | Logger | None = None,
    programs: Programs | None = None,
    segment: Segment | None = None,
    lineage: Lineage | None = None,
    notes: Mapping[str, Any] | None = None,
) -> Result:
    """Train, log, evaluate, save: a Python loop around compiled chunks of updates.

    Args:
        algo: What `make(config)` returned.
        config: Its config, a dataclass.
        run_dir: A new folder for run.json, metrics.jsonl, evaluations.jsonl, checkpoints, curve.png, replay.gif and
            replay.html; None writes nothing.
        num_seeds: M, seeds trained side by side by `vmap`; member m has `config.seed + m`.
        members: Instead of `num_seeds`, for each member the fields in which its config differs from `config`: the seed
            and what `config.hyperparams` holds, e.g. `{"seed": 3, "lr": 1e-3}`.
        mesh: Devices for seeds and for environments; None uses as many of the visible ones as it can.
        log_every: Updates in a row of metrics; None for as few as give at most 500 rows.
        eval_every: Updates between greedy evaluations, the best of which is kept in best/; None for one at the
            start and one at the end.
        eval_episodes: Episodes in an evaluation.
        checkpoint_every_updates: Updates between checkpoints; one is always saved at the end.
        checkpoint_every_minutes: Minutes between checkpoints, 5 for None; goes together with the former.
        keep_checkpoints: How many of the newest are kept.
        on_nan: When losses or parameters are not finite, "stop" ends training and "skip" leaves out that update.
        pictures: Whether to make curve.png and the replays.
        time_split: Whether to measure first how much of an update is rollout; see `rollout_share`.
        quiet: Show no progress.
        resume: Continue exactly where the newest good checkpoint in `run_dir` was saved. It must be that of the very
            same run; only how often to save, what to show, which devices to use and `on_nan` may have changed. "auto"
            begins where there is nothing to continue. A finished run is restored, with nothing left to train.
        on_row: Called with each row of metrics; return True to end training there. What it raises ends training as
            well: it is raised after the state is saved.
        logger: Also told of all metrics: "wandb", "tensorboard", the fields of `LoggerOptions`, or your own `Logger`.
            One that fails is said and switched off.
        programs: `Result.programs` of an earlier run with the same config, mesh and eval_episodes and as many members,
            which differ in the same fields; None compiles.
        segment: Only some of the updates; None for all of them.
        lineage: Hyperparameters that change while training.
        notes: More facts for run.json.

    Returns:
        The trained state and what there is to know about it. SIGTERM and Ctrl-C end training after the running chunk:
        the state is saved and `Result.stopped` tells; a second signal stops at once.

    Raises:
        ValueError: A count that is not positive, a checkpoint option without `run_dir`, or a member that needs another
            program.
        FileExistsError: `run_dir` holds something already, to resume another run than this one (the message names the
            differences), or another process trains in it.
        OSError: Nothing can be written in `run_dir`.
        DivergedError: Losses or parameters are no longer finite.
        UnsavedError: Training came to its end, but the last state or rows could not be saved; it holds the result.
        CheckpointError: Nothing good was found to resume.
    """
    span = part and (segment.first, segment.last)
    segment = segment or Segment(0, config.num_updates)
    intervals = Intervals(segment.last, log_every, eval_every, checkpoint_every_updates, checkpoint_every_minutes)
    num_seeds, eval_episodes = as_whole("num_seeds", num_seeds), as_whole("eval_episodes", eval_episodes)
    keep_checkpoints = as_whole("keep_checkpoints", keep_checkpoints)
    if members is not None and num_seeds not in (1, len(members)):
        raise ValueError(f"num_seeds={num_seeds} has no effect with {len(members)} members; leave it out.")
    num_seeds = num_seeds if members is None else as_whole("the number of members", len(members))
    kept = keep_checkpoints != KEPT
    if run_dir is None and (resume is True or checkpoint_every_updates or checkpoint_every_minutes or kept):
        raise ValueError("Checkpoints need a place: give a run_dir.")
    algo = handle_nan(follow_lineage(algo, lineage) if lineage else algo, on_nan)
    who = Members.of(config, num_seeds if members is None else members)
    devices = choose_mesh(config, num_seeds, mesh)
    log, logger_options = make_logger(logger if hosts.is_main() else None)
    options = {
        **{name: value for name, value in dataclasses.asdict(intervals).items() if name != "num_updates"},
        "eval_episodes": eval_episodes,
        "keep_checkpoints": keep_checkpoints,
        "on_nan": on_nan,
        "pictures": pictures,
        "logger": logger_options,
    }
    about = describe_run(config, num_seeds) | ({**notes, "notes": list(notes)} if notes else {})
    about |= wanted(config, num_seeds if members is None else members, options, span, lineage)
    about["mesh"] = dict(devices.shape) if devices else {"member": 1, "data": 1}
    what = "seeds" if members is None else "members"
    steps_before, steps_after = (update * config.steps_per_update for update in (segment.first, segment.last))
    title = f"{about['algorithm']} on {config.env}" + (f", {num_seeds} {what}" if num_seeds > 1 else "")
    with (
        entered(run_dir, config, about, resume) as begun,
        make_progress(title, steps_after, quiet, begun.path, on_devices(about), steps_before) as progress,
        follow(log, begun.about, begun.path, progress.say),
    ):
        folder, about = begun.folder, begun.about
        if programs is None:
            progress.phase("compiling…")
        loop = Loop(
            programs.bind(config, who) if programs else compile_programs(algo, config, who, eval_episodes, devices),
            intervals,
            RowMaker(intervals.updates_in_row, segment.last, config.steps_per_update, num_seeds),
            members=who,
            progress=progress,
            folder=folder,
            checkpoints=Checkpoints(folder.checkpoints, keep_checkpoints, progress.say) if folder else None,
            logger=log,
            on_row=on_row,
        )
        if time_split:
            about["rollout_share"] = progress.measured(rollout_share(algo, loop.programs, num_seeds, devices))
        result = _train(loop, begun.path, about, begun.continues, segment)
        if folder is not None and pictures and result.evaluation is not None and hosts.is_main():
            progress.phase("drawing…")
            state = best_member(result.state, result.evaluation, num_seeds)
            save_pictures(folder, algo, config.make_env(), state, title, progress.say)
        loop.finish()
        progress.phase(f"stopped by {result.stopped}" if result.stopped else "done")
    if loop.save_error is not None:
        raise UnsavedError(str(loop.save_error), result)
    return result


def _train(loop: Loop, path: Path | None, about: dict[str, Any], resume: bool, segment: Segment) -> Result:
    """From the first state, or the restored one, to the final evaluation; run.json says at any time how far it is."""

    def note(**facts: Any) -> None:
        about.update(facts)
        loop.note(about)

    programs = loop.programs
    note(compile_seconds=round(programs.seconds, 3), compile_cached=programs.cached)
    if resume:
        state = loop.restore(programs.state_shape)
        if loop.rows.update > segment.last:
            raise CheckpointError(
                f"The checkpoint is of update {loop.rows.update}, but the run has only {segment.last}."
            )
    else:
        loop.rows.update = segment.first
        state = programs.init() if segment.state is None else segment.state
        loop.evaluate(state)
    try:
        state = loop.run(state)
    except DivergedError as error:
        loop.finish()
        everyone = list(range(about["num_seeds"]))
        note(status="diverged", error=str(error), diverged=everyone, timesteps=loop.rows.timesteps)
        raise
    seconds = loop.clock.seconds
    own = 1 - segment.first / max(loop.rows.update, 1)  # the share of all updates that were made here
    steps_per_second = own * loop.rows.timesteps * about["num_seeds"] / max(seconds, 1e-9)
    note(train_seconds=round(seconds, 3), steps_per_second=round(steps_per_second, 1), timesteps=loop.rows.timesteps)
    interrupted = (loop.stopped or "").startswith("SIG")
    evaluation = None if interrupted else loop.evaluate(state)
    diverged = loop.divergence.found(loop.table, state)
    state = hosts.gather(state)
    status = "unsaved" if loop.save_error else "stopped" if interrupted else "finished"
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
    )
