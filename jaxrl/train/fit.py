"""`fit`: train an algorithm, from the first update to the pictures of the result."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from jaxrl.algorithm import Algorithm, RunConfig, check_algorithm
from jaxrl.fields import as_whole
from jaxrl.source_file import check_not_loading
from jaxrl.train.devices.mesh import MeshShape, choose_mesh
from jaxrl.train.folder.continuation import Resume
from jaxrl.train.health.nan_guard import OnNan, handle_nan
from jaxrl.train.hooks import OnRow
from jaxrl.train.intervals import Intervals
from jaxrl.train.lineage import Lineage, follow_lineage
from jaxrl.train.loggers import Logger
from jaxrl.train.members import Members
from jaxrl.train.programs import Programs
from jaxrl.train.run import Recording, Result, Segment, Training, run

__all__ = ["KEPT", "fit"]

KEPT = 3
"""How many checkpoints are kept by default."""


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
        run_dir: A new folder for all output; None writes nothing.
        num_seeds: M, seeds trained side by side by `vmap`; member m has `config.seed + m`.
        members: Instead of `num_seeds`: the fields in which each member differs, e.g. `{"seed": 3, "lr": 1e-3}`.
        mesh: Devices for seeds and for environments; None uses as many of the visible devices as possible.
        log_every: Updates per row of metrics; None picks the smallest number that gives at most 500 rows.
        eval_every: Updates between greedy evaluations; the best state is kept. None evaluates at start and end only.
        eval_episodes: Episodes in an evaluation.
        checkpoint_every_updates: Updates between checkpoints; one is always saved at the end.
        checkpoint_every_minutes: Minutes between checkpoints, 5 for None; can be combined with the option above.
        keep_checkpoints: How many of the newest checkpoints to keep.
        on_nan: When losses or parameters are not finite, "stop" ends training and "skip" discards that update.
        pictures: Whether to make curve.png and the replays.
        time_split: Whether to first measure how much of an update is rollout; see `rollout_share`.
        quiet: Show no progress.
        resume: Continue this run from its newest good checkpoint; "auto" starts from scratch if there is none.
        on_row: Called with each row of metrics; training ends there if it returns True or raises.
        logger: Also receives all metrics: "wandb", "tensorboard", the fields of `LoggerOptions`, or your own `Logger`.
        programs: `Result.programs` of an earlier run of the same shape; None compiles them.
        segment: Only some of the updates; None for all of them.
        lineage: Hyperparameters that change while training.
        notes: Additional facts for run.json.

    Returns:
        The trained state with its metrics and evaluation. SIGTERM and Ctrl-C end training after the running chunk:
        the state is saved and `Result.stopped` names the signal; a second signal stops at once.

    Raises:
        ValueError: A count is not positive, an option has no effect, or a member needs another program.
        FileExistsError: `run_dir` holds something else (the message names the differences), or is in use.
        OSError: `run_dir` is not writable.
        DivergedError: Losses or parameters are no longer finite.
        UnsavedError: Training finished, but not everything could be saved; the error holds the result.
        CheckpointError: There is no good checkpoint to resume from.
    """
    _check_what(algo, config)
    updates = (segment or Segment(0, config.num_updates)).last
    intervals = Intervals(updates, log_every, eval_every, checkpoint_every_updates, checkpoint_every_minutes)
    who = Members.of(config, _members(num_seeds, members))
    algo = handle_nan(follow_lineage(algo, lineage) if lineage else algo, on_nan)
    devices = choose_mesh(config, len(who), mesh)
    episodes = as_whole("eval_episodes", eval_episodes)
    training = Training(algo, config, who, members, devices, segment, lineage, on_nan, episodes, programs, time_split)
    keep = as_whole("keep_checkpoints", keep_checkpoints)
    if run_dir is None and (resume is True or intervals.saves_on_demand or keep != KEPT):
        raise ValueError("Checkpoints need a place: give a run_dir.")
    return run(training, intervals, Recording(run_dir, resume, keep, pictures, logger, notes, quiet, on_row))


def _check_what(algo: Any, config: Any) -> None:
    """Raise TypeError unless these are an algorithm and a configuration, and this is no script being loaded."""
    check_not_loading()
    check_algorithm(algo, "fit")
    if isinstance(config, type):
        raise TypeError(f"fit takes a configuration, not the class {config.__name__}; give {config.__name__}().")


def _members(num_seeds: int, members: Sequence[Mapping[str, Any]] | None) -> int | Sequence[Mapping[str, Any]]:
    """The members in the form that `Members.of` takes.

    Raises:
        ValueError: Their number is not positive, or the two arguments contradict each other.
    """
    num_seeds = as_whole("num_seeds", num_seeds)
    if members is None:
        return num_seeds
    if num_seeds not in (1, len(members)):
        raise ValueError(f"num_seeds={num_seeds} has no effect with {len(members)} members; leave it out.")
    as_whole("the number of members", len(members))
    return members
