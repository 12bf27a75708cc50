"""`fit`: train an algorithm, from the first update to the pictures of the result."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from jaxrl.algorithm import Algorithm, RunConfig, check_algorithm, made_from
from jaxrl.config import as_whole
from jaxrl.source_file import algorithm_name, check_not_loading
from jaxrl.train.callbacks import Callback, OnRow
from jaxrl.train.devices.mesh import MeshShape, choose_mesh
from jaxrl.train.folder.continuation import Resume
from jaxrl.train.folder.sources import own_make
from jaxrl.train.health.nan_guard import OnNan, handle_nan
from jaxrl.train.intervals import Intervals
from jaxrl.train.loggers import Logger
from jaxrl.train.members import Members, follow_lineage
from jaxrl.train.result import Result
from jaxrl.train.run import KEEP_CHECKPOINTS, Recording, SearchRun, Training, run
from jaxrl.train.start import InitFrom, Start

__all__ = ["fit"]


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
    stop_at: float | None = None,
    checkpoint_every_updates: int | None = None,
    checkpoint_every_minutes: float | None = None,
    keep_checkpoints: int = KEEP_CHECKPOINTS,
    on_nan: OnNan = "stop",
    pictures: bool = True,
    time_split: bool = False,
    quiet: bool = False,
    resume: Resume = False,
    init_from: str | Path | InitFrom | None = None,
    initial_state: Any = None,
    callbacks: Sequence[Callback | OnRow] = (),
    logger: str | Mapping[str, Any] | Logger | None = None,
    search: SearchRun | None = None,
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
        stop_at: End training when an evaluation reaches this, see `score`; `eval_every=None` then makes 20 of them.
        checkpoint_every_updates: Updates between checkpoints; one is always saved at the end.
        checkpoint_every_minutes: Minutes between checkpoints, 5 for None; can be combined with the option above.
        keep_checkpoints: How many of the newest checkpoints to keep.
        on_nan: When losses or parameters are not finite, "stop" ends training and "skip" discards that update.
        pictures: Whether to make curve.png and the replays.
        time_split: Whether to first measure how much of an update is rollout; see `rollout_share`.
        quiet: Show no progress.
        resume: Continue the run in `run_dir`, also with more `total_timesteps`; "auto" begins it if there is none.
        init_from: A run whose parameters to start from, or an `InitFrom` that says what else.
        initial_state: A train state to start from, such as `result.state`, without its updates and hyperparameters.
        callbacks: `Callback` objects, or functions of each row of metrics; if one returns True, training ends there.
        logger: Also receives all metrics: "wandb", "tensorboard", the fields of `LoggerOptions`, or your own `Logger`.
        search: What searches and reruns set, see `SearchRun`.

    Returns:
        The trained state with its metrics and evaluation. SIGTERM, Ctrl-C and SIGHUP end training after the running
        chunk, with everything saved and the signal's name in `Result.stopped`; a second signal stops at once.

    Raises:
        ValueError: A count is not positive, an option has no effect, `algo` was made from another config, or what to
            start from has other shapes.
        FileExistsError: `run_dir` holds something else (the message names the differences), or is in use.
        OSError: `run_dir` is not writable.
        DivergedError: Losses or parameters are no longer finite.
        CheckpointError: There is no good checkpoint to resume from; or an `UnsavedError`, which holds the result.
    """
    start, times = (init_from, initial_state), (checkpoint_every_updates, checkpoint_every_minutes)
    training = _training(algo, config, num_seeds, members, mesh, search, on_nan, start, eval_episodes, time_split)
    intervals = Intervals(training.updates.last, log_every, eval_every, *times, stop_at)
    recording = Recording(run_dir, resume, keep_checkpoints, pictures, logger, quiet, callbacks)
    return run(training, intervals, recording)


def _training(
    algo: Algorithm,
    config: RunConfig,
    num_seeds: int,
    members: Sequence[Mapping[str, Any]] | None,
    mesh: MeshShape | None,
    search: SearchRun | None,
    on_nan: OnNan,
    start: tuple[str | Path | InitFrom | None, Any],
    eval_episodes: int,
    time_split: bool,
) -> Training:
    """The arguments of `fit` that say what to train, checked and put together; `start` has the two ways to start."""
    _check_what(algo, config)
    search = search or SearchRun()
    who = Members.of(config, _members(num_seeds, members))
    algo = handle_nan(follow_lineage(algo, search.lineage) if search.lineage else algo, on_nan)
    episodes = as_whole("eval_episodes", eval_episodes)
    begin = Start(algo, config, who, *start, alike=members is None)
    devices = choose_mesh(config, len(who), mesh)
    return Training(algo, config, who, members, devices, search, begin, on_nan, episodes, time_split)


def _check_what(algo: Any, config: Any) -> None:
    """Raise unless these are an algorithm and the configuration that it was made from, and no script is being loaded.

    Raises:
        TypeError: One is something else.
        ValueError: The algorithm was made from another configuration: it would train by that one and record this one.
    """
    check_not_loading()
    check_algorithm(algo, "fit")
    if isinstance(config, type):
        raise TypeError(f"fit takes a configuration, not the class {config.__name__}; give {config.__name__}().")
    own = getattr(made_from(algo), "config", None)
    if type(own) is not type(config):
        _check_same_kind(own, config)
        return
    for field in dataclasses.fields(config):
        there, here = getattr(own, field.name), getattr(config, field.name)
        if field.name != "seed" and there != here:
            raise ValueError(
                f"The algorithm was made from another configuration: {field.name} is {there!r} there and {here!r} "
                f"here. Give what make(config) returns for this one."
            )


def _check_same_kind(own: Any, config: Any) -> None:
    """Raise ValueError if an algorithm, made from `own`, is not of the kind that the configuration's `make` returns.

    A `make` of one's own may take its own class and train by another one, so it is asked.
    """
    make = own_make(config)
    if own is None or make is None:
        return
    usual = getattr(made_from(make(config)), "config", None)
    if usual is not None and type(own) is not type(usual):
        there, here = algorithm_name(type(own)), algorithm_name(type(config))
        raise ValueError(
            f"The algorithm was made from the configuration of {there}, and this is one of {here}. Give "
            f"{here}.make(config), or the {there}.{type(own).__name__} that the algorithm was made from."
        )


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
