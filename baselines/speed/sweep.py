"""64 PPO agents on CartPole in one program against as many separate runs: `python baselines/speed/sweep.py`.

Both ways are commands that start from nothing, compile without a cache and evaluate at the end: `jaxrl sweep` with 8
learning rates and 8 seeds, and `jaxrl train` for a few of the 64 combinations, of which the mean time counts 64 times.
What the few have learned is compared with the same members of the sweep. Writes results/sweep_<date>.json.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from jaxrl.train.folder.provenance import versions

RESULTS = Path(__file__).parent / "results"
RATES = [3e-4, 5e-4, 8e-4, 1.2e-3, 2e-3, 3e-3, 5e-3, 8e-3]
SEEDS = 8
CLOSE = 0.02


def timed(*words: str) -> float:
    """Seconds that a `jaxrl` command takes."""
    began = time.perf_counter()
    command = [sys.executable, "-c", "from jaxrl.cli import main; main()", *words, "--env", "CartPole-v1", "--quiet"]
    subprocess.run(command, check=True, env={**os.environ, "JAXRL_CACHE": "0"})
    return time.perf_counter() - began


def curve(run: Path) -> np.ndarray:
    """The return while training, `[R]` or `[R, M]`."""
    rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    return np.array([row["return_mean"] for row in rows], np.float64)


def compared(together: np.ndarray, alone: np.ndarray) -> dict[str, Any]:
    """The distance of a member's curve from that of its own run. Rounding differs, and learning amplifies it."""
    apart = np.abs(together - alone) / np.abs(alone)
    late = np.flatnonzero(~(apart < CLOSE))
    return {
        "largest_in_first_10_updates": float(np.nanmax(apart[:10])),
        f"updates_within_{CLOSE:.0%}": int(late[0]) if len(late) else len(apart),
        "updates": len(apart),
    }


def measure(runs: int, folder: Path) -> dict[str, Any]:
    """Both ways, the separate runs before and after the sweep."""
    rates = [f"{rate:g}" for rate in RATES]
    picked = [(i * len(RATES) // runs, (3 * i) % SEEDS) for i in range(runs)]
    alone: list[dict[str, Any]] = []

    def train(lr: int, seed: int) -> None:
        run = folder / f"{lr}-{seed}"
        words = ["--lr", rates[lr], "--seed", str(seed), "--no-pictures", "--run-dir", str(run)]
        alone.append({"lr": RATES[lr], "seed": seed, "seconds": timed("train", "ppo", *words), "run": run})
        print(f"lr {rates[lr]}, seed {seed} alone: {alone[-1]['seconds']:.1f} s", flush=True)

    for lr, seed in picked[: runs // 2]:
        train(lr, seed)
    sweep = folder / "sweep"
    seconds = timed("sweep", "ppo", "--lr", *rates, "--num-seeds", str(SEEDS), "--run-dir", str(sweep))
    print(f"all 64 together: {seconds:.1f} s", flush=True)
    for lr, seed in picked[runs // 2 :]:
        train(lr, seed)

    [group] = sweep.glob("group-*")
    together = curve(group)
    for row in alone:
        member = RATES.index(row["lr"]) * SEEDS + row["seed"]
        row.update(compared(together[:, member], curve(row.pop("run"))))
    separate = float(np.mean([row["seconds"] for row in alone]) * len(RATES) * SEEDS)
    about = json.loads((group / "run.json").read_text())
    return {
        "members": len(RATES) * SEEDS,
        "sweep_seconds": seconds,
        "sweep_compile_seconds": about["compile_seconds"],
        "sweep_steps_per_second": about["steps_per_second"],
        "separate_seconds": separate,
        "separate_runs_measured": alone,
        "ratio": separate / seconds,
        "devices": about["devices"],
        "load_average": os.getloadavg(),
        "versions": versions(),
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=4, help="separate runs to measure; 64 for all")
    with tempfile.TemporaryDirectory() as temporary:
        found = measure(parser.parse_args().runs, Path(temporary))
    file = RESULTS / f"sweep_{datetime.datetime.now():%Y-%m-%dT%H%M}.json"
    file.write_text(json.dumps(found, indent=2) + "\n")
    print(f"ratio {found['ratio']:.1f}; wrote {file}")
