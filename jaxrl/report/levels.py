"""The worst-α curves of a report: from the levels-NAME.json that `jaxrl eval RUN --levels` leaves in run folders."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from jaxrl.errors import printable
from jaxrl.report.collect import SeedGroup
from jaxrl.report.tables import number
from jaxrl.train.level_results import LevelResults, draw_curve, mean_and_error
from jaxrl.train.pictures import new_figure, verbatim

__all__ = ["Methods", "draw_worst", "methods_on_levels", "worst_tables"]

Methods = Mapping[str, list[LevelResults]]
"""The results on one set of levels, played alike, of the groups with these labels: an entry for each sample."""


def methods_on_levels(groups: Sequence[SeedGroup]) -> list[Methods]:
    """The results in the run folders, for each set of levels and each way in which they were played.

    The samples are those of the groups: seeds, or of a league the mean of its members.

    Raises:
        DamagedFileError: A file holds something else.
    """
    found: dict[tuple[Any, ...], dict[str, list[LevelResults]]] = {}
    for group in groups:
        for run in group.runs:
            for path in sorted(run.glob("levels-*.json")):
                results = LevelResults.read(path)
                alike = (results.digest, results.metric, results.tries, results.greedy, results.seed, group.env)
                own = [_of(results, member.numbers) for member in group.members if member.run == run]
                if own := [each for each in own if each is not None]:
                    found.setdefault(alike, {}).setdefault(group.label, []).extend(own)
    return list(found.values())


def draw_worst(sets: Sequence[Methods], looks: Mapping[str, Mapping[str, Any]]) -> Any:
    """A figure with a panel for each set: the worst-α curve of each method, its standard error and its seeds.

    Raises:
        MissingExtraError: matplotlib is not installed.
    """
    wide = min(2, len(sets))
    figure = new_figure("A report", 11.0, 4.2 * -(-len(sets) // wide))
    panels = figure.subplots(-(-len(sets) // wide), wide, squeeze=False).ravel()
    for methods, axes in zip(sets, panels, strict=False):
        for label, results in methods.items():
            draw_curve(axes, results, label, dict(looks.get(label, {"color": "#9aa5b1"})))
        axes.set_title(verbatim(_title(methods)), loc="left", fontsize=9)
        axes.legend(frameon=False, fontsize=9, loc="upper left")
    for axes in panels[len(sets) :]:
        axes.set_visible(False)
    return figure


def worst_tables(sets: Sequence[Methods]) -> list[tuple[str, list[tuple[str, ...]]]]:
    """For each set of levels what it is, and a table: a row of head cells, and a row for each method."""
    tables = []
    for methods in sets:
        first = next(iter(methods.values()))[0]
        rows = [("algorithm", "seeds", *(f"worst {100 * alpha:g} %" for alpha in first.alphas))]
        for label, results in methods.items():
            mean, error = mean_and_error(np.concatenate([each.curves(first.alphas) for each in results]))
            cells = (
                number(m) + (f" ± {number(e, m)}" if np.isfinite(e) else "") for m, e in zip(mean, error, strict=True)
            )
            rows.append((label, str(len(results)), *cells))
        tables.append((f"{_title(methods)}: {first.measure}", rows))
    return tables


def _of(results: LevelResults, members: Sequence[int]) -> LevelResults | None:
    """The mean results of some members of the run, as those of one; None unless all of them have played."""
    if not set(members) <= set(results.members):
        return None
    mean = results.array[:, [results.members.index(member) for member in members]].mean(1)
    whole = tuple((tuple(row),) for row in mean.tolist())
    return dataclasses.replace(results, members=results.members[:1], seeds=results.seeds[:1], results=whole)


def _title(methods: Methods) -> str:
    first = next(iter(methods.values()))[0]
    return printable(f"{first.env}: {first.protocol}")
