"""Do searches recover from a bad learning rate? `python baselines/recover.py` (minutes); writes results/recovery.json.

The learning rate of the configuration is 1e-6, with which nothing is learned. Halving and population-based training get
the range from 1e-6 to 0.1; every member of the population begins with 1e-6. For each of five seeds the search is run
from nothing and what it has found is trained with five other seeds. It has recovered if their mean return reaches the
goal; how many of the five reach it by themselves is counted as well.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import time
from pathlib import Path
from typing import Any

import jaxrl
from jaxrl.algos import ppo
from jaxrl.cli.common import use_cache, use_cores
from jaxrl.train.folder.run_folder import describe_run
from jaxrl.tuning import PBT, Halving

RESULT = Path(__file__).parent / "results" / "recovery.json"
BAD = 1e-6
PROBE = ppo.Config(
    env="probe/observation_action",
    lr=BAD,
    num_envs=32,
    num_steps=8,
    total_timesteps=32 * 8 * 120,
    num_minibatches=2,
    ent_coef=0.02,
    hidden=(32,),
    activation="relu",
    normalise_reward=False,
)
TASKS = {"cartpole": (ppo.Config(env="CartPole-v1", lr=BAD), 475.0), "probe": (PROBE, 0.95)}
METHODS = {"halving": Halving(), "pbt": PBT(draw=False)}


def recover(task: str, method: str, seed: int) -> dict[str, Any]:
    """One search and its test."""
    config, goal = TASKS[task]
    config = dataclasses.replace(config, seed=seed)
    began = time.perf_counter()
    found = jaxrl.search(ppo, config, method=METHODS[method], lr=(BAD, 1e-1, "log"), eval_episodes=128, quiet=True)
    scores = returns(found.test, found.stopped)
    return {
        "task": task,
        "method": method,
        "seed": seed,
        "best": found.best,
        "lineage": found.lineage,
        "test": scores,
        "recovered": sum(scores) / len(scores) >= goal,
        "test_seeds_at_goal": sum(score >= goal for score in scores),
        "seconds": round(time.perf_counter() - began, 1),
    }


def without(task: str, seeds: int = 5) -> list[float]:
    """What each of some seeds reaches with the bad learning rate."""
    config, _ = TASKS[task]
    result = jaxrl.fit(ppo.make(config), config, num_seeds=seeds, eval_episodes=128, quiet=True)
    return returns(result.evaluation, result.interrupted)


def returns(evaluation: dict[str, Any] | None, stopped: str | None) -> list[float]:
    """The mean return of each seed; ends the program if a signal has ended what was to be evaluated."""
    if evaluation is None:
        raise SystemExit(f"{stopped} ended the training; nothing has failed. Run it again.")
    return evaluation["return_mean"]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tasks", nargs="+", choices=TASKS, default=list(TASKS))
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS))
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--out", type=Path, default=RESULT)
    arguments = parser.parse_args()
    use_cache()
    use_cores()
    report = {**describe_run(TASKS["cartpole"][0], 5), "status": "finished", "without": {}, "searches": []}
    for name in arguments.tasks:
        report["without"][name] = without(name)
        print(f"{name}: with lr={BAD} {report['without'][name]}")
        for how in arguments.methods:
            for number in range(arguments.seeds):
                row = recover(name, how, number)
                report["searches"].append(row)
                print(f"{name} {how} seed {number}: {row['best']} {row['test']} {row['seconds']} s", flush=True)
                arguments.out.write_text(json.dumps(report, indent=2) + "\n")
