"""The picture of docs/hide_and_seek.md, from the kept curves: `python baselines/hide_and_seek_curves.py`."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import numpy as np

from jaxrl.train.pictures import new_figure

ROOT = Path(__file__).resolve().parent
CURVES = ROOT / "results" / "hide_and_seek"
OUT = ROOT.parent / "docs" / "images" / "curves_hide_and_seek.png"
WINDOW = 5
"""Points of a curve that are averaged: each is the mean of the 128 latest episodes."""
PANELS = (
    ("chase: hider seen", "seen_fraction", ("chase_seekers", "chase_hiders")),
    ("room: hider seen", "seen_fraction", ("room_seekers", "room_hiders", "room_seekers_2", "room_hiders_2")),
    ("room: door blocked", "doors_blocked", ("room_hiders", "room_hiders_2")),
)
LABELS = {
    "chase_seekers": "seekers learn",
    "chase_hiders": "then hiders learn",
    "room_seekers": "seekers learn",
    "room_hiders": "then hiders learn",
    "room_seekers_2": "then seekers learn on",
    "room_hiders_2": "then new hiders learn",
}
COLOURS = dict(zip(dict.fromkeys(LABELS.values()), ("#c44e52", "#4c72b0", "#dd8452", "#55a868"), strict=True))


def main() -> None:
    """Draw each number over the steps, a thin line for every seed and a thick one for their mean."""
    figure = new_figure("The picture of the curves", 10.0, 3.2)
    for axes, (title, column, names) in zip(figure.subplots(1, len(PANELS)), PANELS, strict=True):
        for name in names:
            steps, seeds = curves(name, column)
            colour = COLOURS[LABELS[name]]
            axes.plot(steps, seeds, color=colour, linewidth=0.6, alpha=0.45)
            axes.plot(steps, seeds.mean(1), color=colour, linewidth=2.0, label=LABELS[name])
        axes.set(title=title, xlabel="steps of a stage (millions)", ylim=(0, 1))
        axes.legend(frameon=False, fontsize=8)
        axes.grid(alpha=0.25)
    figure.savefig(OUT, dpi=110)
    print(f"Wrote {OUT}")


def curves(name: str, column: str) -> tuple[Any, Any]:
    """Millions of steps `[P]`, and the smoothed column of each of M seeds `[P, M]`, from the first that is known."""
    with (CURVES / f"{name}.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    columns = [key for key in rows[0] if key.startswith(f"{column}_seed")]
    rows = [row for row in rows if row[columns[0]]]
    values = np.array([[float(row[key]) for key in columns] for row in rows])
    smooth = np.stack([values[max(0, i - WINDOW + 1) : i + 1].mean(0) for i in range(len(values))])
    return np.array([float(row["timesteps"]) / 1e6 for row in rows]), smooth


if __name__ == "__main__":
    main()
