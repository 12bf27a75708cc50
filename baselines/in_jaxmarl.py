"""What policies trained here win in JaxMARL's own SMAX: `python baselines/in_jaxmarl.py RUN… --out FILE`.

Each run's policy plays 512 greedy battles against the script of `HeuristicEnemySMAX` in jaxmarl 0.2.0, with the
observations, masks and dynamics of that package, and as many here. The win rates go to a JSON file, in the place of
those of the same run and beside all others.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import jax
import jaxmarl
import numpy as np
from jaxmarl.environments.smax import map_name_to_scenario

import jaxrl
from jaxrl.environment import Environment, Step
from jaxrl.interop.jaxmarl import from_jaxmarl
from jaxrl.wrappers import Wrapper

BONUS = 1.0
"""JaxMARL pays it for a won battle in its last step, and less than it for everything else in a step."""


class Won(Wrapper):
    """Adds `info["won"]`, as JaxMARL's own log does: at the end, the reward has the bonus."""

    def __init__(self, env: Environment) -> None:
        super().__init__(env)

    def step_env(self, key: jax.Array, state: Any, action: Any, params: Any) -> Step:
        obs, after, reward, terminated, truncated, info = self.env.step_env(key, state, action, params)
        won = (terminated | truncated) & (reward[0] >= BONUS)
        return obs, after, reward, terminated, truncated, {**info, "won": won}


def main() -> None:
    """Play the battles of one run after another."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("runs", nargs="+", type=Path)
    parser.add_argument("--out", type=Path, default=Path("in_jaxmarl.json"))
    parser.add_argument("--episodes", type=int, default=512)
    flags = parser.parse_args()
    rows = []
    for folder in flags.runs:
        run = jaxrl.load(folder)
        name = run.config.env
        theirs: Any = jaxmarl.make("HeuristicEnemySMAX", scenario=map_name_to_scenario(name.removeprefix("smax/")))
        env = Won(from_jaxmarl(theirs, time_limit=theirs.max_steps))
        wins = {where: won(run, each, flags.episodes) for where, each in (("jaxrl", run.env), ("jaxmarl", env))}
        about = {"env": name, "algorithm": run.about["algorithm"], "torso": run.config.torso}
        for i, (here, there) in enumerate(zip(wins["jaxrl"], wins["jaxmarl"], strict=True)):
            seed, steps = run.config.seed + i, run.about["timesteps"]
            rows.append({**about, "seed": seed, "timesteps": steps, "jaxrl": here, "jaxmarl": there})
            print(json.dumps(rows[-1]), flush=True)

    def run_of(row: dict[str, Any]) -> tuple[Any, ...]:
        return row["env"], row["algorithm"], row["torso"], row["seed"]

    kept = json.loads(flags.out.read_text(encoding="utf-8"))["runs"] if flags.out.exists() else []
    new = {run_of(row) for row in rows}
    rows = sorted([*(row for row in kept if run_of(row) not in new), *rows], key=run_of)
    head = {"episodes": flags.episodes, "jaxmarl": jaxmarl.__version__, "jax": jax.__version__}
    flags.out.write_text(json.dumps({**head, "runs": rows}, indent=1) + "\n", encoding="utf-8")


def won(run: Any, env: Environment, episodes: int) -> list[float]:
    """The share of greedy battles that a run's policy wins, for each of its seeds."""
    play = jax.jit(lambda state, key: jaxrl.evaluate(run.algo, env, state, key, episodes).won)
    states = [run.member(i).state for i in range(run.num_members)]
    return [float(np.mean(play(state, jax.random.key(7)))) for state in states]


if __name__ == "__main__":
    main()
