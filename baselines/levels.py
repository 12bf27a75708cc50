"""What choosing levels wins: `python baselines/levels.py --runs runs/levels`; it goes on where it was stopped.

Each method trains five seeds of PPO with a GRU on maze/13 (`METHODS`; the hyperparameters are the preset's, which were
chosen with random levels on other seeds). All environment steps count, also those that only judge levels. Then each
plays 500 random mazes that have a way to the goal, and the eight of the literature, ten sampled episodes of each in two
evaluations. The numbers go to results/levels_maze.json, the curves of training to results/levels. `--steps` trains for
longer, `--methods` only some.

`--robots 1` and `--robots 4` compare random levels with SFL on JaxNav's maps with `fill=0.6`, by one seed of IPPO, on
300 other maps; the numbers go to results/levels_jaxnav.json.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import jax
import numpy as np
from record import RESULTS, iqm_of, record

import jaxrl
from jaxrl.envs.maze.env import UNREACHABLE, fewest_steps
from jaxrl.levels.level_set import LevelSet, make_levels, take
from jaxrl.train.level_results import worst_levels

_REPLAY = "size=1000&score=maxmc&temperature=0.3"
METHODS = {
    "dr": "dr",
    "sfl": "sfl?keep=64&candidates=256&steps=500&every=40",
    "plr": f"plr?{_REPLAY}",
    "robust_plr": f"plr?{_REPLAY}&robust=true",
    "accel": f"accel?{_REPLAY}",
}
TRAIN = "train ppo --env maze/13 --preset maze --num-seeds 5 --no-pictures"
TRIES = 10
ROBOTS = "jaxnav/random?num_agents={}&fill=0.6"
TRAIN_ROBOTS = "train ippo --log-info arrived crashed --seed 10 --quiet --no-pictures"
ROBOTS_METHODS = {"dr": "dr", "sfl": "sfl?keep=64&candidates=256&steps=1000&every=160"}


def command(*arguments: str) -> None:
    """Run `jaxrl` with these arguments."""
    subprocess.run([sys.executable, "-m", "jaxrl", *arguments], check=True)


def make_sets(folder: Path) -> dict[str, Path]:
    """The two sets of levels: random mazes with a way to the goal, and the held-out ones."""
    paths = {name: folder / f"{name}.npz" for name in ("solvable", "held_out")}
    if not paths["solvable"].exists():
        env: Any = jaxrl.make("maze/13")
        found = make_levels(env, 600, seed=7)
        open_ones = np.flatnonzero(jax.vmap(fewest_steps)(found.starts[1]) < UNREACHABLE)[:500]
        LevelSet(found.env, take(found.starts, open_ones), found.seed).save(paths["solvable"])
    if not paths["held_out"].exists():
        make_levels(jaxrl.make("maze/held_out"), 8).save(paths["held_out"])
    return paths


def results_of(run: Path, name: str) -> np.ndarray:
    """Win rates `[2, M, L]` of a run on a set that it has played."""
    return np.array(json.loads((run / f"levels-{name}.json").read_text())["results"], np.float64)


def row_of(run: Path) -> dict[str, Any]:
    """The numbers of a method: for each seed the mean and the worst tenth, the mean of each held-out maze."""
    first, second = results_of(run, "solvable")
    worst = [float(worst_levels(a, b, [0.1])[0]) for a, b in zip(first, second, strict=True)]
    held_out = results_of(run, "held_out").mean(0)
    about = json.loads((run / "run.json").read_text())
    by_seed = {"win_rate": second.mean(1).tolist(), "worst_tenth": worst, "held_out": held_out.mean(1).tolist()}
    return {
        "command": about["command"],
        "git": about["git"],
        "seconds": about["train_seconds"],
        "by_seed": by_seed,
        "iqm": {name: iqm_of(values) for name, values in by_seed.items()},
        "mazes": held_out.mean(0).tolist(),
    }


def main() -> None:
    """Train what is missing, play, and keep the numbers."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=Path, required=True)
    parser.add_argument("--steps", type=int, default=3_000_000)
    parser.add_argument("--robots", type=int, choices=(1, 4), help="train in JaxNav instead of mazes")
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS))
    arguments = parser.parse_args()
    folder, steps = arguments.runs, arguments.steps
    folder.mkdir(parents=True, exist_ok=True)
    if arguments.robots:
        compare_robots(folder, arguments.robots, steps)
        return
    sets, rows = make_sets(folder), {}
    curves = RESULTS / "levels"
    curves.mkdir(exist_ok=True)
    for method in arguments.methods:
        name, levels = f"{method}_{steps // 1_000_000}m", METHODS[method]
        run = folder / name
        if not (run / "run.json").exists():
            command(*TRAIN.split(), "--total-timesteps", str(steps), "--levels", levels, "--run-dir", str(run))
        elif "evaluation" not in json.loads((run / "run.json").read_text()):
            command("resume", str(run))
        for own, path in sets.items():
            if not (run / f"levels-{own}.json").exists():
                elsewhere = ("--env", "maze/held_out") if own == "held_out" else ()
                command("eval", str(run), "--levels", str(path), "--tries", str(TRIES), *elsewhere)
        record(run, curves)
        rows[name] = row_of(run)
    mazes = [maze_of(index, sets["held_out"]) for index in range(8)]
    path = RESULTS / "levels_maze.json"
    known = json.loads(path.read_text())["methods"] if path.exists() else {}
    kept = {"levels": {"solvable": 500, "held_out": mazes}, "tries": TRIES, "methods": known | rows}
    path.write_text(json.dumps(kept, indent=1) + "\n")


def compare_robots(folder: Path, robots: int, steps: int) -> None:
    """Train what is missing in JaxNav with so many robots, play, and keep the numbers."""
    word = {1: "one", 4: "four"}[robots]
    env, levels = ROBOTS.format(robots), folder / f"{word}.npz"
    path = RESULTS / "levels_jaxnav.json"
    kept = json.loads(path.read_text()) if path.exists() else {"levels": 300, "tries": TRIES, "methods": {}}
    if not levels.exists():
        command("levels", "make", env, "--count", "300", "--seed", "7", "--out", str(levels))
    for method, words in ROBOTS_METHODS.items():
        run = folder / f"{word}_{method}_s10"
        if not (run / "run.json").exists():
            options = ("--env", env, "--levels", words, "--total-timesteps", str(steps))
            command(*TRAIN_ROBOTS.split(), *options, "--run-dir", str(run))
        if not (run / f"levels-{levels.stem}.json").exists():
            command("eval", str(run), "--levels", str(levels), "--tries", str(TRIES))
        record(run, RESULTS / "levels")
        first, second = results_of(run, levels.stem)
        about = json.loads((run / "run.json").read_text())
        kept["methods"][run.name] = {
            "command": about["command"],
            "git": about["git"],
            "seconds": about["train_seconds"],
            "robots": robots,
            "levels": words,
            "steps": about["config"]["total_timesteps"],
            "win_rate": float(second.mean()),
            "worst": {str(a): float(worst_levels(first[0], second[0], [a])[0]) for a in (0.1, 0.5)},
        }
    path.write_text(json.dumps(kept, indent=1) + "\n")


def maze_of(index: int, path: Path) -> str:
    """The name of a held-out maze, by its walls."""
    _, state = LevelSet.load(path, jaxrl.make("maze/held_out")).starts
    for name in jaxrl.list_envs("maze/*_*") + jaxrl.list_envs("maze/labyrinth*"):
        if name != "maze/held_out":
            _, named = jaxrl.make(name).reset(jax.random.key(0))
            if bool((named.walls == state.walls[index]).all()) and bool((named.goal == state.goal[index]).all()):
                return name
    raise ValueError(f"Level {index} of {path} is none of the named mazes.")


if __name__ == "__main__":
    main()
