"""How policies play battles that they were not trained for: `python baselines/transfer.py RUN… --envs smax/25m …`.

512 greedy battles for each run, which has one seed and networks of entities. The numbers go to
results/smax_transfer.json, beside those of other runs and battles.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np
from record import RESULTS

import jaxrl
from jaxrl.cli.runs import play
from jaxrl.train.start import in_env


def main() -> None:
    """Play, and keep a row for each run and battle."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("runs", nargs="+", type=Path)
    parser.add_argument("--envs", nargs="+", required=True)
    arguments = parser.parse_args()
    path = RESULTS / "smax_transfer.json"
    kept = json.loads(path.read_text())["runs"] if path.exists() else []
    rows = {(row["trained_on"], row["seed"], row["env"]): row for row in kept}
    for folder in arguments.runs:
        run = jaxrl.load(folder)
        if run.num_members > 1:
            raise ValueError(f"{folder} has {run.num_members} seeds; name one of them, such as {folder}:0.")
        for env in arguments.envs:
            wins = float(np.mean(play(in_env(run, env)).won))
            row = {"trained_on": run.config.env, "steps": run.config.total_timesteps, "seed": run.config.seed}
            row |= {"env": env, "win_rate": round(wins, 4), "git": run.about["git"]}
            rows[row["trained_on"], row["seed"], env] = row
            print(row)
    path.write_text(json.dumps({"episodes": 512, "runs": list(rows.values())}, indent=1) + "\n")


if __name__ == "__main__":
    main()
