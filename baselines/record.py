"""Keep what matters of runs under baselines/results: `python baselines/record.py runs/a runs/b --out NAME`.

For each run `<run>.json` (run.json: command, config, versions, devices, evaluation) and `<run>.csv`, its learning curve
at up to 60 points; with several seeds there is one column a seed.
"""

from __future__ import annotations

import argparse
import csv
import json
from pathlib import Path

RESULTS = Path(__file__).parent / "results"
POINTS = 60


def record(run: Path, out: Path) -> None:
    """Write the two files of one run."""
    about = json.loads((run / "run.json").read_text())
    (out / f"{run.name}.json").write_text(json.dumps(about, indent=2) + "\n")
    rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    step = -(-len(rows) // POINTS)
    score = "win_rate" if "win_rate" in rows[-1] else "return_mean"
    seeds = range(about["seed"], about["seed"] + about["num_seeds"])
    with (out / f"{run.name}.csv").open("w", newline="") as file:
        table = csv.writer(file)
        table.writerow(["timesteps", "seconds", *(f"{score}_seed_{seed}" for seed in seeds)])
        for row in rows[step - 1 :: step]:
            values = row[score] if isinstance(row[score], list) else [row[score]]
            shown = ["" if value is None else f"{value:.4g}" for value in values]
            table.writerow([row["timesteps"], f"{row['seconds']:.2f}", *shown])


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("runs", nargs="+", type=Path)
    parser.add_argument("--out", required=True, help="the folder's name under baselines/results")
    arguments = parser.parse_args()
    folder = RESULTS / arguments.out
    folder.mkdir(parents=True, exist_ok=True)
    for run in arguments.runs:
        record(run, folder)
