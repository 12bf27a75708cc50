"""The worst-α curves of a report: from the levels-NAME.json that `jaxrl eval RUN --levels` leaves in run folders."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from jaxrl.errors import printable
from jaxrl.report.collect import SeedGroup
from jaxrl.report.tables import number
from jaxrl.train.level_results import LevelResults, standard_error
from jaxrl.train.pictures import new_figure, verbatim

__all__ = ["Methods", "draw_worst", "mean_text", "methods_on_levels", "worst_tables"]

Methods = Mapping[str, LevelResults]
"""The results `[2, S, L]` of S samples on one set of levels, played alike, of the groups with these labels."""


def methods_on_levels(groups: Sequence[SeedGroup]) -> list[Methods]:
    """The results in the run folders, for each set of levels and each way in which they were played.

    The samples are those of the groups: seeds, or of a league the mean of its members. Raises as `LevelResults.read`.
    """
    found: dict[tuple[Any, ...], dict[str, LevelResults]] = {}
    for group in groups:
        for path in (path for run in group.runs for path in sorted(run.glob("levels-*.json"))):
            new = LevelResults.read(path)
            methods = found.setdefault((new.digest, new.metric, new.tries, new.greedy, new.seed, group.env), {})
            for member in group.members:
                if member.run == path.parent and set(member.numbers) <= set(new.members):
                    own = new.array[:, [new.members.index(index) for index in member.numbers]].mean(1, keepdims=True)
                    old = methods.get(group.label)
                    both = own if old is None else np.concatenate([old.array, own], axis=1)
                    methods[group.label] = dataclasses.replace(new, results=both.tolist())
    return [methods for methods in found.values() if methods]


def draw_worst(sets: Sequence[Methods], looks: Mapping[str, Mapping[str, Any]]) -> Any:
    """A figure with a panel for each set: the worst-α curve of each method, its standard error and its seeds.

    Raises:
        MissingExtraError: matplotlib is not installed.
    """
    figure, handles = new_figure("The picture", 9.0, 4.2 * len(sets)), {}
    for methods, axes in zip(sets, figure.subplots(len(sets), squeeze=False)[:, 0], strict=True):
        for label, results in methods.items():
            _curve(axes, results, label, dict(looks.get(label, {"color": "#9aa5b1"})))
        axes.set_title(verbatim(_title(methods)), loc="left", fontsize=9)
        handles |= dict(zip(*reversed(axes.get_legend_handles_labels()), strict=True))
    figure.legend(handles.values(), handles.keys(), frameon=False, fontsize=9, loc="outside lower left")
    return figure


def _curve(axes: Any, found: LevelResults, label: str, look: dict[str, Any]) -> None:
    levels, rows = found.array.shape[-1], found.curve()
    alphas = np.arange(rows[0]["levels"], levels + 1) / levels
    shares, curves = 100 * alphas, found.by_seed(alphas)
    if len(curves) > 1:
        mean, error = curves.mean(0), standard_error(curves)
        axes.plot(shares, curves.T, color=look["color"], linewidth=0.7, alpha=max(0.1, 0.4 / len(curves) ** 0.5))
        axes.fill_between(shares, mean - error, mean + error, color=look["color"], alpha=0.18, linewidth=0)
    axes.plot(shares, curves.mean(0), linewidth=2.2, label=verbatim(label), **look)
    ticks = [100 * row["alpha"] for row in rows]
    axes.set_xscale("log")
    axes.set_xticks(ticks, [f"{tick:g} %" for tick in ticks])
    axes.set_xticks([], minor=True)
    if found.metric == "win_rate":
        axes.set_ylim(-0.02, 1.02)
    axes.set_xlabel("α, the share of the levels with the worst results")
    axes.set_ylabel(f"{found.measure} on these, played again")
    axes.grid(alpha=0.25, linewidth=0.8)
    axes.spines[["top", "right"]].set_visible(False)


def worst_tables(sets: Sequence[Methods]) -> list[tuple[str, list[tuple[str, ...]]]]:
    """For each set of levels what it is, and a table: a row of head cells, and a row for each method."""
    tables = []
    for methods in sets:
        rows: list[tuple[str, ...]] = []
        for label, results in methods.items():
            curve = results.curve()
            rows = rows or [("algorithm", "seeds", *(f"worst {100 * row['alpha']:g} %" for row in curve))]
            rows.append((label, str(results.array.shape[1]), *map(mean_text, curve)))
        tables.append((f"{_title(methods)}: {next(iter(methods.values())).measure}", rows))
    return tables


def mean_text(row: Mapping[str, Any]) -> str:
    """The mean over seeds in a row of a curve, and its standard error if there are several."""
    error = f" ± {number(row['standard_error'], row['mean'])}" if len(row["by_seed"]) > 1 else ""
    return number(row["mean"]) + error


def _title(methods: Methods) -> str:
    first = next(iter(methods.values()))
    return printable(f"{first.env}: {first.protocol}")
