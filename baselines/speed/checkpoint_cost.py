"""The costs of checkpoints: `python baselines/speed/checkpoint_cost.py`, about five minutes.

One save a minute is too rare to be seen in the noise of a machine, so training of smax/3m with IPPO's defaults is done
with about a save a second and with none, in turn, in one process with the same compiled programs. The difference
divided by the number of saves is what one of them costs, the waiting of the device included. Then states of growing
size are saved. Prints a table and writes all numbers to `baselines/speed/results/`.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import jax
import numpy as np

from jaxrl.algos import ippo
from jaxrl.cli.common import use_cache, use_cores
from jaxrl.train.fit import fit
from jaxrl.train.folder.checkpoint import Checkpoints
from jaxrl.train.result import Result


def train(
    config: ippo.Config, folder: Path, every: int | None = None, programs: Any = None
) -> tuple[Result, list[float]]:
    """One run with a save `every` so many updates, and how long each of its saves took."""
    seconds: list[float] = []
    original = Checkpoints.save

    def timed(self: Checkpoints, *args: Any) -> Path:
        began = time.perf_counter()
        saved = original(self, *args)
        seconds.append(time.perf_counter() - began)
        return saved

    Checkpoints.save = timed
    try:
        options: dict[str, Any] = {"eval_episodes": 8, "quiet": True, "pictures": False, "programs": programs}
        return fit(ippo.make(config), config, folder, checkpoint_every_updates=every, **options), seconds
    finally:
        Checkpoints.save = original


def measure_training(config: ippo.Config, repeats: int, folder: Path) -> dict[str, Any]:
    """Both ways in turn."""
    result, _ = train(config, folder / "warm")
    every = max(1, round(result.steps_per_second / config.steps_per_update))  # updates in a second
    turns = []
    for turn in range(repeats):
        without, _ = train(config, folder / f"without-{turn}", None, result.programs)
        with_saves, seconds = train(config, folder / f"with-{turn}", every, result.programs)
        saves = len(seconds) - 1  # both end with one
        each = (with_saves.train_seconds - without.train_seconds) / max(saves, 1)
        turns.append(
            {
                "seconds_without": without.train_seconds,
                "seconds_with": with_saves.train_seconds,
                "saves": saves,
                "save_seconds_median": statistics.median(seconds),
                "seconds_lost_a_save": each,
            }
        )
        print(f"| {turn} | {without.train_seconds:.1f} | {with_saves.train_seconds:.1f} | {saves} | {each:.3f} |")
    leaves = [leaf for leaf in jax.tree.leaves(result.state) if hasattr(leaf, "nbytes")]
    lost = statistics.median(turn["seconds_lost_a_save"] for turn in turns)
    inside = statistics.median(turn["save_seconds_median"] for turn in turns)
    return {
        "state_bytes": sum(leaf.nbytes for leaf in leaves),
        "turns": turns,
        "seconds_lost_a_save": lost,
        "percent_at_one_a_minute": 100 * lost / 60,
        "percent_at_one_a_minute_by_save_time": 100 * inside / 60,
    }


def measure_sizes(megabytes: list[float], repeats: int, folder: Path) -> list[dict[str, float]]:
    """Seconds to save random numbers, which do not compress, in 20 arrays."""
    results = []
    for size in megabytes:
        rng = np.random.default_rng(0)
        state = {f"leaf_{i}": jax.numpy.asarray(rng.random(int(size * 1e6 / 20 / 4), np.float32)) for i in range(20)}
        with Checkpoints(folder / f"size-{size}", keep=1) as checkpoints:
            seconds = []
            for update in range(1, repeats + 1):
                began = time.perf_counter()
                checkpoints.save(update, state)
                seconds.append(time.perf_counter() - began)
        results.append({"megabytes": size, "seconds": statistics.median(seconds)})
        print(f"| {size:g} MB | {statistics.median(seconds):.2f} s | {100 * statistics.median(seconds) / 60:.2f} % |")
    return results


def main() -> None:
    """Read the command line, measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--env", default="smax/3m")
    parser.add_argument("--timesteps", type=int, default=400_000, help="of each run")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--megabytes", type=float, nargs="*", default=[0.3, 3, 30, 300])
    arguments = parser.parse_args()
    use_cache()
    use_cores()
    config = ippo.Config(env=arguments.env, total_timesteps=arguments.timesteps)
    with tempfile.TemporaryDirectory() as place:
        print("| turn | s without | s with a save a second | saves | s lost a save |\n| --- | --- | --- | --- | --- |")
        training = measure_training(config, arguments.repeats, Path(place))
        print(
            f"\nOne a minute costs {training['percent_at_one_a_minute']:.2f} % of the throughput on {arguments.env}.\n"
        )
        print("| state | one save | one a minute |\n| --- | --- | --- |")
        sizes = measure_sizes(arguments.megabytes, arguments.repeats, Path(place))
    report = {
        "env": arguments.env,
        "timesteps": arguments.timesteps,
        "jax": jax.__version__,
        "devices": [str(device) for device in jax.devices()],
        "cores": os.cpu_count(),
        "load": os.getloadavg()[0],
        "training": training,
        "sizes": sizes,
    }
    results = Path(__file__).parent / "results"
    results.mkdir(exist_ok=True)
    out = results / f"checkpoint_cost_{datetime.datetime.now():%Y-%m-%dT%H%M}.json"
    out.write_text(json.dumps(report, indent=1) + "\n")
    print(f"\nRaw numbers: {out}")


if __name__ == "__main__":
    main()
