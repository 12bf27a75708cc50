"""The pictures of docs/what_works_on_smax.md, from the kept curves: `python baselines/smax_curves.py`."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

from jaxrl.train.pictures import new_figure

ROOT = Path(__file__).resolve().parent
CURVES = ROOT / "results" / "smax_10m"
ENTITIES = ROOT / "results" / "smax_entities"
IMAGES = ROOT.parent / "docs" / "images"
WINDOW = 5
"""Points of a curve that are averaged: each is the share of the battles won since the one before."""


def main() -> None:
    """Draw both pictures."""
    for name, figure in (("curves_smax_10m", all_battles()), ("curves_smax_entities", entities())):
        figure.savefig(IMAGES / f"{name}.png", dpi=110)
        print(f"Wrote {IMAGES / name}.png")


def all_battles() -> Any:
    """The win rate of sampled actions over steps and over seconds, one line a battle."""
    figure = new_figure("The picture of the curves", 9.0, 3.4)
    by_steps, by_seconds = figure.subplots(1, 2, sharey=True)
    for path in sorted(CURVES.glob("ippo_*.csv")):
        steps, seconds, won = curve(path)
        by_steps.plot([step / 1e6 for step in steps], won, label=path.stem.removeprefix("ippo_"), linewidth=1.4)
        if seconds[-1] < 1000:  # the others shared the machine with several programs
            by_seconds.plot(seconds, won, linewidth=1.4)
        else:
            by_seconds.plot([], [])
    by_steps.set(xlabel="environment steps (millions)", ylabel="battles won, actions drawn", ylim=(0, 1))
    by_seconds.set(xlabel="seconds of training on two CPU cores")
    by_steps.legend(frameon=False, fontsize=8, ncols=2)
    for axes in (by_steps, by_seconds):
        axes.grid(alpha=0.25)
    return figure


def entities() -> Any:
    """The win rate of sampled actions over steps with networks of entities and with flat ones, a panel a battle."""
    figure = new_figure("The picture of the curves", 9.0, 2.9)
    battles = ("5m_vs_6m", "10m_vs_11m", "smacv2_5")
    panels = figure.subplots(1, 3, sharey=True)
    for axes, battle in zip(panels, battles, strict=True):
        for path in sorted(CURVES.glob(f"ippo_{battle}*.csv")):
            steps, _, won = curve(path)
            axes.plot([step / 1e6 for step in steps], won, "--", color="#888888", label="flat", linewidth=1.4)
        for number, path in enumerate(sorted(ENTITIES.glob(f"ippo_{battle}-*.csv"))):
            steps, _, won = curve(path)
            label = "" if number else "entities"
            axes.plot([step / 1e6 for step in steps], won, color="#3b6fb6", label=label, linewidth=1.4)
        axes.set(title=battle, xlabel="environment steps (millions)", ylim=(0, 1))
        axes.legend(frameon=False, fontsize=8)
        axes.grid(alpha=0.25)
    panels[0].set(ylabel="battles won, actions drawn")
    return figure


def curve(path: Path) -> tuple[list[float], list[float], list[float]]:
    """Steps, seconds and the smoothed share of the battles won."""
    rows = list(csv.reader(path.read_text(encoding="utf-8").splitlines()))[1:]
    steps, seconds, won = (list(map(float, column)) for column in zip(*rows, strict=True))
    smooth = [sum(won[max(0, i - WINDOW + 1) : i + 1]) / min(i + 1, WINDOW) for i in range(len(won))]
    return steps, seconds, smooth


if __name__ == "__main__":
    main()
