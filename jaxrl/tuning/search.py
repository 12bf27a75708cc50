"""`search`: look for good hyperparameters on some seeds, then retrain the best ones on other seeds."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from jaxrl.algorithm import check_module
from jaxrl.config import as_whole, settled
from jaxrl.errors import DivergedError, UnknownNameError, nearest
from jaxrl.train.fit import fit
from jaxrl.train.folder.continuation import Stage, decide
from jaxrl.train.folder.run_folder import RunFolder
from jaxrl.train.folder.same_run import wanted
from jaxrl.train.members import Lineage
from jaxrl.train.run import SearchRun
from jaxrl.train.signals import StopRequest
from jaxrl.tuning.member_groups import chosen_seeds
from jaxrl.tuning.methods import Found, Grid, Halving, Incumbent, Method, Random, StoppedError, Task, Trial
from jaxrl.tuning.pbt import PBT
from jaxrl.tuning.plan_file import PlanFile, recorded
from jaxrl.tuning.search_space import Point, describe_space

__all__ = ["METHODS", "SearchResult", "search"]

METHODS: dict[str, type[Method]] = {
    "random": Random,
    "grid": Grid,
    "halving": Halving,
    "pbt": PBT,
}

_ALIKE = {"env": "scores in one environment", "total_timesteps": "runs of one length, which its budget counts"}


@dataclasses.dataclass(frozen=True)
class SearchResult:
    """The result of a search."""

    best: Point | None
    """The best hyperparameters; None if the search was stopped before it found them."""
    lineage: list[Point] | None
    """With PBT, the hyperparameters of each generation of the best lineage."""
    trials: list[Trial]
    """Everything that was tried."""
    incumbents: list[Incumbent]
    """The best point so far at each stage of the budget."""
    test: dict[str, Any] | None
    """The final greedy evaluation on the test seeds: return_mean … are lists with one number per seed. If some of them
    diverged, `diverged` has their places in these lists: their numbers say nothing."""
    run_dir: Path | None
    """The folder with checklist.json, tuning/ and test/."""
    stopped: str | None
    """The signal that ended the search early."""


def search(
    algorithm: ModuleType,
    config: Any,
    run_dir: str | Path | None = None,
    *,
    method: str | Method = "random",
    budget: int = 16,
    tuning_seeds: int | Sequence[int] = 3,
    test_seeds: int | Sequence[int] = 5,
    max_members: int | None = None,
    log_every: int | None = None,
    eval_episodes: int = 512,
    checkpoint_every_updates: int | None = None,
    checkpoint_every_minutes: float | None = None,
    quiet: bool = False,
    **hyperparameters: Any,
) -> SearchResult:
    """Find hyperparameters, e.g. `search(ppo, config, method="halving", lr=(1e-5, 1e-1, "log"))`, and test them.

    A point's score is the final greedy evaluation, averaged over the tuning seeds; in a population of PBT, where every
    member ends with its own point, it is the member's own score. The best point is then retrained with the test seeds,
    which are different ones: report only their scores.

    Args:
        algorithm: The module, e.g. `jaxrl.algos.ppo`.
        config: The algorithm's config, which supplies everything else.
        run_dir: A folder for checklist.json (budget, space, seeds, incumbents over time, trials, the outcome), tuning/
            with the runs that decide, and test/, the run to report. If it holds the same search, unfinished, the search
            continues. None writes nothing.
        method: `"random"`, `"grid"`, `"halving"` or `"pbt"`, or one of their classes in `jaxrl.tuning` with
            options.
        budget: Environment steps for the search, in full runs (each with every tuning seed). It limits every method
            alike: halving starts with more points than that, but ends most of them early.
        tuning_seeds: Their number, starting at `config.seed`, or a list.
        test_seeds: Their number, starting after the largest tuning seed, or a list.
        max_members: Members to train at the same time; no help for halving and PBT, which need all in one program.
        log_every: Updates per row of metrics.
        eval_episodes: Episodes per evaluation.
        checkpoint_every_updates: Updates between checkpoints.
        checkpoint_every_minutes: Minutes between checkpoints.
        quiet: Show no progress.
        **hyperparameters: Fields of the config: a list of values, `(low, high)` or `(low, high, "log")`.

    Returns:
        The best point and its test. SIGTERM, Ctrl-C and SIGHUP end the search after saving; the same call with the same
        `run_dir` continues it.

    Raises:
        ValueError: Wrong input, or some seeds are both tuning and test seeds.
        FileExistsError: `run_dir` holds something else or another search, or another process is training in it.
        DivergedError: Every point that was tried has diverged.
        CheckpointError: checklist.json or the end of a run cannot be saved; the same call saves it later.
    """
    check_module(algorithm, "search")
    chosen, tested = _seeds(config, tuning_seeds, test_seeds)
    intervals: dict[str, Any] = {
        "log_every": log_every,
        "eval_every": None,
        "eval_episodes": eval_episodes,
        "checkpoint_every_updates": checkpoint_every_updates,
        "checkpoint_every_minutes": checkpoint_every_minutes,
    }
    options = {**intervals, "mesh": None, "quiet": quiet}
    folder = None if run_dir is None else Path(run_dir) / "tuning"
    task = Task(algorithm, config, hyperparameters, as_whole("budget", budget), chosen, folder, max_members, options)
    how = _method(method, task)
    plan = {**_plan(task, how), "test_seeds": tested, "max_members": max_members, **intervals}
    if not quiet:
        runs, steps = plan["budget"].values()
        print(f"The budget of {runs} full runs, each with {len(chosen)} seeds, is {steps:,} environment steps.")
    with recorded(run_dir, "search", config, plan, len(chosen)) as record, StopRequest() as stop:
        return _search(task, how, tested, record, stop)


def _seeds(
    config: Any, tuning_seeds: int | Sequence[int], test_seeds: int | Sequence[int]
) -> tuple[list[int], list[int]]:
    """The tuning seeds and the test seeds.

    Raises:
        ValueError: Some seeds are both.
    """
    chosen = chosen_seeds("tuning_seeds", tuning_seeds, config.seed)
    tested = chosen_seeds("test_seeds", test_seeds, max(chosen) + 1)
    both = sorted(set(chosen) & set(tested))
    if both:
        raise ValueError(f"Seeds {both} are for tuning and for testing; scores on tuning seeds flatter, take others.")
    return chosen, tested


def _plan(task: Task, method: Method) -> dict[str, Any]:
    """The facts that determine the outcome, for checklist.json."""
    return {
        "method": _describe(method),
        "budget": {"runs": task.budget, "timesteps": task.budget * len(task.seeds) * _steps(task.config)},
        "space": describe_space(task.dimensions),
        "tuning_seeds": task.seeds,
    }


def _search(task: Task, method: Method, tested: list[int], record: PlanFile, stop: StopRequest) -> SearchResult:
    """Search and test, and record the progress."""
    root = record.path
    try:
        found = method(task)
        if not found.incumbents:
            raise DivergedError("Every point that was tried has diverged; search lower learning rates.")
        content = _content(found)
        if not task.options["quiet"] and len(found.trials) > 1 and len({trial.rank for trial in found.trials}) == 1:
            print(
                f"All {len(found.trials)} trials have the score {found.trials[0].score:.4g}, so nothing speaks for any "
                "of them. A game against oneself, for example, says little: see jaxrl arena."
            )
        record.note("testing", **content)
        test = _test(task, found, tested, None if root is None else root / "test")
        if stop.name:
            raise StoppedError(stop.name)
    except StoppedError as stopped:
        record.note("stopped")
        return SearchResult(None, None, [], [], None, root, str(stopped))
    record.write("finished", **content, test=test)
    return SearchResult(found.best, found.lineage, found.trials, found.incumbents, test, root, None)


def _test(task: Task, found: Found, seeds: list[int], path: Path | None) -> dict[str, Any] | None:
    """The final evaluation of the best point, retrained on the test seeds."""
    config = settled(dataclasses.replace(task.config, **found.best), found.best)
    members = [{"seed": seed} for seed in seeds]
    lineage: Lineage | None = None
    if found.lineage:
        lineage = {"every_updates": config.num_updates // len(found.lineage), "points": found.lineage}
    if path is not None:
        folder = RunFolder(path)
        if decide(folder, config, wanted(config, members, task.options, lineage=lineage)) is Stage.FINISHED:
            about = folder.read()
            return _told(about["evaluation"], about["diverged"])
    if not task.options["quiet"]:
        print(f"The best is {found.best}; now on the test seeds.")
    result = fit(
        task.algorithm.make(config),
        config,
        path,
        members=members,
        resume="auto",
        pictures=False,
        search=SearchRun(lineage=lineage, notes={**task.notes(), "test_seeds": seeds}),
        **task.options,
    )
    if result.stopped:
        raise StoppedError(result.stopped)
    return _told(result.evaluation, result.diverged)


def _told(evaluation: dict[str, Any] | None, diverged: list[int]) -> dict[str, Any] | None:
    """An evaluation that says which of the seeds have diverged, if some have."""
    return {**evaluation, "diverged": diverged} if evaluation and diverged else evaluation


def _content(found: Found) -> dict[str, Any]:
    """The outcome for checklist.json."""
    return {
        "best": found.best,
        **({"lineage": found.lineage} if found.lineage else {}),
        "incumbents": [each._asdict() for each in found.incumbents],
        "trials": [each._asdict() for each in found.trials],
    }


def _steps(config: Any) -> int:
    """The environment steps of one run."""
    return config.num_updates * config.steps_per_update


def _method(method: str | Method, task: Task) -> Method:
    """The method, once it has found no fault with the task."""
    if isinstance(method, str):
        if method not in METHODS:
            raise UnknownNameError(f"There is no search method {method!r}. {nearest(method, list(METHODS))}")
        method = METHODS[method]()
    if not task.space:
        raise ValueError('Say what to search, e.g. lr=(1e-4, 1e-2, "log").')
    for name, alike in _ALIKE.items():
        if name in task.space:
            raise ValueError(f"A search compares {alike}; use jaxrl sweep (jaxrl.sweep) for several values of {name}.")
    method.check(task)
    return method


def _describe(method: Any) -> dict[str, Any]:
    """The name and options of a method."""
    return {"name": type(method).__name__.lower(), **dataclasses.asdict(method)}
