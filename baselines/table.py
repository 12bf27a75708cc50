"""The recorded runs of a folder under baselines/results as a table: `python baselines/table.py smax`."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from record import RESULTS, scores


def line(about: dict[str, Any]) -> str:
    """One run: what was trained, for how long, and each seed's score with their interquartile mean."""
    seeds = f"{about['seed']} to {about['seed'] + about['num_seeds'] - 1}"
    cells = []
    for name, values in scores(about["evaluation"]).items():
        digits = 3 if name == "win_rate" else 1
        shown = " ".join(f"{value:.{digits}f}" for value in values)
        iqm = about["iqm"][name]
        kind = "" if name in ("win_rate", "return_mean") else f"{name.removeprefix('return_')}: "
        low, high = (f"{iqm[end]:.{digits}f}" for end in ("low", "high"))
        cells.append(f"{kind}{iqm['estimate']:.{digits}f} ({low} to {high}) | {shown}")
    # Where agents are of several kinds and want different things, the mean over all says little: a line for each kind.
    differ = len({str(values) for values in scores(about["evaluation"]).values()}) > 1
    cells = cells[1:] if differ else cells[:1]
    head = f"| {about['env']} | {about['algorithm']} | {about['timesteps'] / 1e6:.1f} M | {seeds} | "
    return "\n".join(f"{head}{cell} |" for cell in cells)


def main() -> None:
    """Print the table of one folder."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", help="under baselines/results")
    folder: Path = RESULTS / parser.parse_args().folder
    print(f"| environment | algorithm | steps a seed | seeds | IQM (95 %) | seed by seed |\n{'| --- ' * 6}|")
    kept = [json.loads(path.read_text()) for path in folder.glob("*.json")]
    abouts = [about for about in kept if {"algorithm", "iqm"} <= set(about)]  # several seeds, trained here
    for about in sorted(abouts, key=lambda about: (about["env"], about["algorithm"])):
        print(line(about))


if __name__ == "__main__":
    main()
