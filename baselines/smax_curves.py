"""The picture of docs/what_works_on_smax.md, from the kept curves: `python baselines/smax_curves.py`."""

from __future__ import annotations

import csv
from pathlib import Path

from jaxrl.train.pictures.curve import new_figure

ROOT = Path(__file__).resolve().parent
CURVES = ROOT / "results" / "smax_10m"
OUT = ROOT.parent / "docs" / "images" / "curves_smax_10m.png"
WINDOW = 5
"""Points of a curve that are averaged: each is the share of the battles won since the one before."""


def main() -> None:
    """Draw the win rate of sampled actions over steps and over seconds, one line a battle."""
    figure = new_figure("The picture of the curves", 9.0, 3.4)
    by_steps, by_seconds = figure.subplots(1, 2, sharey=True)
    for path in sorted(CURVES.glob("ippo_*.csv")):
        rows = list(csv.reader(path.read_text(encoding="utf-8").splitlines()))[1:]
        steps, seconds, won = (list(map(float, column)) for column in zip(*rows, strict=True))
        smooth = [sum(won[max(0, i - WINDOW + 1) : i + 1]) / min(i + 1, WINDOW) for i in range(len(won))]
        label = path.stem.removeprefix("ippo_")
        by_steps.plot([step / 1e6 for step in steps], smooth, label=label, linewidth=1.4)
        if seconds[-1] < 1000:  # the others shared the machine with several programs
            by_seconds.plot(seconds, smooth, label=label, linewidth=1.4)
        else:
            by_seconds.plot([], [])
    by_steps.set(xlabel="environment steps (millions)", ylabel="battles won, actions drawn", ylim=(0, 1))
    by_seconds.set(xlabel="seconds of training on two CPU cores")
    by_steps.legend(frameon=False, fontsize=8, ncols=2)
    for axes in (by_steps, by_seconds):
        axes.grid(alpha=0.25)
    figure.savefig(OUT, dpi=110)
    print(f"Wrote {OUT}")


if __name__ == "__main__":
    main()
