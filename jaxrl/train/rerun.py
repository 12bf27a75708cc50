"""Repeat a run from its run.json, and check whether the numbers are the same."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import jax

from jaxrl.train.fit import fit
from jaxrl.train.folder.load import Run
from jaxrl.train.folder.provenance import differences, surroundings
from jaxrl.train.folder.trust import check_start
from jaxrl.train.result import Result
from jaxrl.train.run import SearchRun, Segment
from jaxrl.train.start import InitFrom

__all__ = ["Comparison", "compare_rows", "repeated", "rerun", "warnings_for"]

_TIMES = ("seconds", "steps_per_second")


class Comparison(NamedTuple):
    """Two curves compared row by row, ignoring times."""

    rows: int
    """The number of rows that both have."""
    first: int | None
    """`timesteps` of the first row that differs; None if none does."""
    fields: tuple[str, ...]
    """The fields that differ in that row."""

    @property
    def same(self) -> bool:
        """True if every number in every row is the same, bit for bit."""
        return self.rows > 0 and self.first is None


def rerun(run: Run, run_dir: str | Path, quiet: bool = False) -> Result:
    """Train from the beginning with everything in run.json: config, options, members, mesh, notes.

    On the same kind of device with the same versions, the curve is the same bit for bit. Loggers other than
    metrics.jsonl are left out.

    Args:
        run: The run to repeat.
        run_dir: A new folder.
        quiet: Show no progress.

    Raises:
        ValueError: The run cannot be trained by itself, because it is part of a search or started with a given state.
    """
    options = {**repeated(run), "logger": None, "quiet": quiet, "mesh": _mesh(run.about)}
    segment = options["search"].segment
    if "initial_state" in run.about:
        raise ValueError(f"The run in {run.folder.path} started with a train state given to fit, which is not kept.")
    if segment is not None and segment.first:
        raise ValueError(
            f"The run in {run.folder.path} began with what others had learned in {segment.first} updates of their "
            f"search; run the whole search again, into another --run-dir, by its command in checklist.json."
        )
    return fit(run.algo, run.config, run_dir, **options)


def repeated(run: Run) -> dict[str, Any]:
    """The arguments, read from run.json, with which `fit` repeats or continues a run.

    Raises:
        ValueError: It is one seed of several, or the population of a search, so only all of them train; or `make` was
            given a loss in Python; or it began with another run that nobody has vouched for.
    """
    about = run.about
    # What cannot be trained by itself.
    if run.index is not None:
        raise ValueError(f"The seeds of {run.folder.path} are trained together; leave out :{run.index}.")
    if "population" in about:
        raise ValueError(
            f"{run.folder.path} holds the population of a search, and only that search trains it: give its command "
            f"again, which checklist.json has."
        )
    if "loss" in about:
        raise ValueError(
            f"{run.folder.path} learns by {about['loss']}, a loss that only Python can pass: call "
            f"fit(make(config, loss=…), config, {str(run.folder.path)!r}, resume=True), or put the loss into a copy of "
            f"the algorithm's file."
        )
    check_start(about, run.folder.path, run.trusted)
    # The arguments as they were.
    segment = Segment(*about["segment"]) if "segment" in about else None
    notes = {name: about[name] for name in about.get("notes", ())}
    source = about["options"].get("init_from")
    return {
        **about["options"],
        "num_seeds": about["num_seeds"],
        "members": about.get("members"),
        "init_from": None if source is None else InitFrom(**source),
        "search": SearchRun(segment=segment, lineage=about.get("lineage"), notes=notes),
    }


def warnings_for(about: dict[str, Any]) -> list[str]:
    """The reasons why the numbers may differ this time, one sentence each."""
    found = differences(about, surroundings())
    if _mesh(about) is None:
        mesh, there = about["mesh"], jax.device_count()
        found.append(
            f"It ran on {mesh['member'] * mesh['data']} devices and {there} are visible, so it is spread differently."
        )
    if about.get("lengthened"):
        found.append("It was made longer on the way; this time it has its full length from the beginning.")
    if about.get("changed"):
        found.append(f"It was continued elsewhere on the way: {' '.join(about['changed'])}")
    return found


def compare_rows(before: list[dict[str, Any]], after: list[dict[str, Any]]) -> Comparison:
    """Compare the rows that two metrics.jsonl have in common."""
    both = min(len(before), len(after))
    for old, new in zip(before[:both], after[:both], strict=True):
        fields = tuple(name for name in {**old, **new} if name not in _TIMES and old.get(name) != new.get(name))
        if fields:
            return Comparison(both, old.get("timesteps"), fields)
    return Comparison(both, None, ())


def _mesh(about: dict[str, Any]) -> Any:
    """The mesh that the run used; None if there are too few devices here."""
    member, data = about["mesh"]["member"], about["mesh"]["data"]
    return (member, data) if member * data <= jax.device_count() else None
