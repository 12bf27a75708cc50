"""When runs first won so many of their battles: `python baselines/reached.py runs/a runs/b --win-rate 0.9`.

A line a seed: the environment steps and the seconds of training after which the win rate of sampled actions over the
last `--window` steps was that high. The default window is ten updates of JaxMARL's `ippo_rnn_smax`.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np

WINDOW = 163_840


def reached(run: Path, win_rate: float, window: int) -> list[tuple[int, float] | None]:
    """For each seed `(steps, seconds)`, or None where it was never that high."""
    rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    steps = np.array([row["timesteps"] for row in rows])
    episodes = np.array([np.atleast_1d(row["episodes"]) for row in rows], float)  # [rows, seeds]
    won = np.nan_to_num(np.array([np.atleast_1d(row["win_rate"]) for row in rows], float)) * episodes
    recent = (steps <= steps[:, None]) & (steps > steps[:, None] - window)
    high = recent @ won >= win_rate * np.maximum(recent @ episodes, 1)
    high &= (steps >= window)[:, None]
    first = high.argmax(0)
    return [
        (rows[row]["timesteps"], rows[row]["seconds"]) if high[row, seed] else None for seed, row in enumerate(first)
    ]


def main() -> None:
    """Print a line a seed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("runs", nargs="+", type=Path)
    parser.add_argument("--win-rate", type=float, default=0.9)
    parser.add_argument("--window", type=int, default=WINDOW)
    arguments = parser.parse_args()
    for run in arguments.runs:
        first_seed = json.loads((run / "run.json").read_text())["seed"]
        for seed, when in enumerate(reached(run, arguments.win_rate, arguments.window), first_seed):
            shown = "not reached" if when is None else f"{when[0]:,} steps, {when[1]:.1f} s"
            print(f"{run.name}, seed {seed}: {shown}")


if __name__ == "__main__":
    main()
