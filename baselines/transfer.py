"""How policies play battles that they were not trained for: `python baselines/transfer.py RUN… --envs smax/25m …`.

512 greedy battles for each run, which has one seed and networks of entities. The numbers are added to
results/smax_transfer.json.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np
from record import RESULTS

import jaxrl
from jaxrl.cli.runs import play
from jaxrl.train.transfer import in_env


def main() -> None:
    """Play, and keep a row for each run and battle."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("runs", nargs="+", type=Path)
    parser.add_argument("--envs", nargs="+", required=True)
    arguments = parser.parse_args()
    path = RESULTS / "smax_transfer.json"
    rows = json.loads(path.read_text()) if path.exists() else []
    for folder in arguments.runs:
        run = jaxrl.load(folder)
        for env in arguments.envs:
            wins = float(np.mean(play(in_env(run, env)).won))
            row = {"trained_on": run.config.env, "steps": run.config.total_timesteps, "seed": run.config.seed}
            rows.append({**row, "env": env, "win_rate": round(wins, 4), "git": run.about["git"]})
            print(rows[-1])
    path.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
