"""Keep what matters of runs under baselines/results: `python baselines/record.py runs/a runs/b --out NAME`.

For each run `<run>.json` (run.json: command, config, versions, devices, evaluation) and `<run>.csv`, its learning curve
at up to 60 points; with several seeds there is one column a seed, and the interquartile mean of their final evaluations
with its 95 % interval goes under `iqm` in the json. Where agents are of several kinds, each kind has its columns, and
so has each number of `--log-info`. With `--sampled`, the policies play once more, with sampled actions instead of the
most likely ones; it goes under `sampled`.
"""

from __future__ import annotations

import argparse
import csv
import json
from pathlib import Path
from typing import Any

from jaxrl import stats
from jaxrl.cli.runs import play
from jaxrl.train.folder.load import load

RESULTS = Path(__file__).parent / "results"
POINTS = 60


def record(run: Path, out: Path, sampled: bool = False) -> None:
    """Write the two files of one run."""
    about = json.loads((run / "run.json").read_text())
    if sampled:
        about["sampled"] = play(load(run), greedy=False).summary()
    if about["num_seeds"] > 1:
        about["iqm"] = {name: iqm_of(seeds) for name, seeds in scores(about["evaluation"]).items()}
    (out / f"{run.name}.json").write_text(json.dumps(about, indent=2) + "\n")
    rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    step = -(-len(rows) // POINTS)
    names = list(curves(rows[-1]))
    seeds = range(about["seed"], about["seed"] + about["num_seeds"])
    with (out / f"{run.name}.csv").open("w", newline="") as file:
        table = csv.writer(file)
        table.writerow(["timesteps", "seconds", *(f"{name}_seed_{seed}" for name in names for seed in seeds)])
        for row in rows[step - 1 :: step]:
            values = [
                value for seeds in curves(row).values() for value in (seeds if isinstance(seeds, list) else [seeds])
            ]
            shown = ["" if value is None else f"{value:.4g}" for value in values]
            table.writerow([row["timesteps"], f"{row['seconds']:.2f}", *shown])


def scores(row: dict[str, Any]) -> dict[str, Any]:
    """What counts in a row or an evaluation: the win rate, or the return and that of each kind of agents."""
    if "win_rate" in row:
        return {"win_rate": row["win_rate"]}
    return {"return_mean": row["return_mean"], **{f"return_{kind}": v for kind, v in row.get("returns", {}).items()}}


def curves(row: dict[str, Any]) -> dict[str, Any]:
    """What is kept of a row: its scores, and what was logged of the environment's info."""
    return {**scores(row), **row.get("info", {})}


def iqm_of(seeds: list[float]) -> dict[str, float]:
    """The interquartile mean over seeds, with its interval."""
    estimate, low, high = stats.interval(stats.iqm, seeds, expand=True)
    return {"estimate": round(float(estimate), 4), "low": round(float(low), 4), "high": round(float(high), 4)}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("runs", nargs="+", type=Path)
    parser.add_argument("--out", required=True, help="the folder's name under baselines/results")
    parser.add_argument("--sampled", action="store_true", help="also play with sampled actions")
    arguments = parser.parse_args()
    folder = RESULTS / arguments.out
    folder.mkdir(parents=True, exist_ok=True)
    for run in arguments.runs:
        record(run, folder, arguments.sampled)
