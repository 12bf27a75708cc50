"""What single factors of a recipe are worth: `python baselines/ablation.py runs/recipe runs/adam runs/flat …`.

The first run has the recipe, the others differ from it in one thing each; all have the same battle, seeds and steps.
For every seed: the environment steps until a share of the battles were won with sampled actions (see `reached.py`), and
the greedy win rate at the end. The numbers go to results/smax_ablation.json, beside those of other battles.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from reached import WINDOW, reached
from record import RESULTS


def main() -> None:
    """Keep a row for each run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("runs", nargs="+", type=Path)
    parser.add_argument("--won", type=float, default=0.9, help="the share of the battles (default: 0.9)")
    arguments = parser.parse_args()
    path = RESULTS / "smax_ablation.json"
    kept = json.loads(path.read_text())["runs"] if path.exists() else []
    abouts = [json.loads((run / "run.json").read_text()) for run in arguments.runs]
    recipe = abouts[0]
    new = [row(recipe, about, run, arguments.won) for run, about in zip(arguments.runs, abouts, strict=True)]
    others = [each for each in kept if each["env"] != recipe["env"]]
    path.write_text(json.dumps({"window": WINDOW, "runs": others + new}, indent=1) + "\n")


def row(recipe: dict[str, Any], about: dict[str, Any], run: Path, won: float) -> dict[str, Any]:
    """What a run changes of the recipe, and what came of it.

    Raises:
        ValueError: It has another battle, other seeds or other steps, or a single seed.
    """
    same = ("env", "seed", "num_seeds", "timesteps")
    if any(about[name] != recipe[name] for name in same) or recipe["num_seeds"] == 1:
        raise ValueError(f"{run} and the recipe's run need the same {', '.join(same)}, and several seeds.")
    told = {name: value for name, value in about["config"].items() if value != recipe["config"].get(name, value)}
    changes = {"algorithm": about["algorithm"], **told} if about["algorithm"] != recipe["algorithm"] else told
    steps = [None if when is None else when[0] for when in reached(run, won, WINDOW)]
    facts = {name: about[name] for name in (*same, "command", "versions", "git")}
    return {**facts, "changes": changes, "won": won, "steps_to_won": steps, "win_rate": about["evaluation"]["win_rate"]}


if __name__ == "__main__":
    main()
