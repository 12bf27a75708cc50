"""How soon runs win nine of ten battles, beside JaxMARL's script: the numbers of results/seconds_to_090.

    git clone https://github.com/FLAIROx/JaxMARL
    python baselines/race.py runs/3m-10 runs/3m-11 runs/2s3z-10 --jaxmarl JaxMARL

The runs are ours, each with the machine for itself. Of `ippo_rnn_smax.py` this measures the speed alone on the same
machine, compiling apart; when it wins how many battles is in `results/seconds_to_090/*_jaxmarl.csv`, whose curves took
hours. Replaces `about.json` and our curves there.
"""

from __future__ import annotations

import argparse
import csv
import json
import sys
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import jax
from reached import WINDOW, reached
from record import RESULTS

sys.path.append(str(Path(__file__).parent / "speed"))
from training_peers import jaxmarl_ippo
from values import compiled, timed

from jaxrl.train.folder.provenance import versions

FOLDER = RESULTS / "seconds_to_090"
UPDATES, TURNS = 8, 3


def of_run(run: Path) -> dict[str, Any]:
    """What counts of one of our runs, and when it won nine of ten."""
    about = json.loads((run / "run.json").read_text())
    names = (
        "command",
        "seed",
        "git",
        "compile_seconds",
        "compile_cached",
        "train_seconds",
        "steps_per_second",
        "config",
    )
    first = reached(run, 0.9, WINDOW)[0]
    if first is None:
        raise ValueError(f"{run} never wins nine of ten battles; train it for longer.")
    return {**{name: about[name] for name in names}, "win_rate": about["evaluation"]["win_rate"], "reached": first}


def keep_curves(name: str, runs: list[Path]) -> None:
    """Write steps, seconds and win rates of a map's runs, at each fourth row."""
    curves = [[json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()] for run in runs]
    seeds = [json.loads((run / "run.json").read_text())["seed"] for run in runs]
    with (FOLDER / f"{name}_jaxrl.csv").open("w", newline="") as file:
        table = csv.writer(file)
        table.writerow(["timesteps", *(f"{what}_seed_{seed}" for seed in seeds for what in ("seconds", "win_rate"))])
        for rows in list(zip(*curves, strict=True))[::4]:
            shown = [f"{value:.4g}" for row in rows for value in (row["seconds"], row["win_rate"] or 0)]
            table.writerow([rows[0]["timesteps"], *shown])


def speed_of_script(checkout: Path, name: str) -> dict[str, float]:
    """The environment steps a second of JaxMARL's script, and how long it compiles."""
    train, steps = jaxmarl_ippo(checkout, name, UPDATES)
    run, (compiling, _) = compiled(train)
    turns = [timed(partial(run, jax.random.key(seed)))[1] for seed in range(TURNS)]
    seconds = median(clock for clock, _ in turns)
    return {"steps_per_second": round(steps / seconds), "compile_seconds": round(compiling, 2)}


def main() -> None:
    """Write the curves and `about.json`."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="+", type=Path, help="folders of runs of one seed each")
    parser.add_argument("--jaxmarl", type=Path, required=True, help="a checkout of JaxMARL's repository")
    arguments = parser.parse_args()
    maps: dict[str, list[Path]] = {}
    for run in arguments.runs:
        maps.setdefault(json.loads((run / "run.json").read_text())["env"].removeprefix("smax/"), []).append(run)
    measured = {}
    for name, runs in maps.items():
        keep_curves(name, runs)
        measured[name] = {"jaxrl": [of_run(run) for run in runs], "jaxmarl": speed_of_script(arguments.jaxmarl, name)}
        print(name, measured[name]["jaxmarl"], [run["reached"] for run in measured[name]["jaxrl"]])
    about = {
        "measure": f"win rate of sampled actions over the last {WINDOW:,} environment steps",
        "jaxmarl": "ippo_rnn_smax.py, its configuration, learning rate annealed over 10 M steps, HeuristicEnemySMAX",
        "versions": versions(),
        "maps": measured,
    }
    (FOLDER / "about.json").write_text(json.dumps(about, indent=2) + "\n")


if __name__ == "__main__":
    main()
