"""What single factors of a recipe are worth: `python baselines/ablation.py runs/recipe runs/adam runs/flat …`.

The recipe is IPPO's preset `smax`. Each run has that or differs from it in one thing; those of a battle have the same
seeds and steps. For every seed: the environment steps until a share of the battles were won with sampled actions (see
`reached.py`), and the greedy win rate at the end. The numbers go to results/smax_ablation.json, in the place of a run
with the same change and beside all others.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from reached import WINDOW, reached
from record import RESULTS

from jaxrl.algos import ippo
from jaxrl.train.folder.run_folder import config_to_json

SAME = ("env", "seed", "num_seeds", "timesteps")
OF_THE_BATTLE = {"env", "seed", "total_timesteps"}


def main() -> None:
    """Keep a row for each run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("runs", nargs="+", type=Path)
    parser.add_argument("--won", type=float, default=0.9, help="the share of the battles (default: 0.9)")
    arguments = parser.parse_args()
    path = RESULTS / "smax_ablation.json"
    kept = json.loads(path.read_text())["runs"] if path.exists() else []
    for run in arguments.runs:
        kept = added(kept, row(run, arguments.won))
    path.write_text(json.dumps({"window": WINDOW, "runs": kept}, indent=1) + "\n")


def added(kept: list[dict[str, Any]], new: dict[str, Any]) -> list[dict[str, Any]]:
    """The rows with a new one.

    Raises:
        ValueError: It has other seeds or steps than those of its battle, or a single seed.
    """
    others = [each for each in kept if (each["env"], each["changes"]) != (new["env"], new["changes"])]
    for each in others:
        if each["env"] == new["env"] and any(each[name] != new[name] for name in (*SAME, "won")):
            raise ValueError(f"{new['command']} needs the same {', '.join(SAME)} as {each['command']}, and --won.")
    if new["num_seeds"] == 1:
        raise ValueError(f"{new['command']} has a single seed.")
    return [*others, new]


def row(run: Path, won: float) -> dict[str, Any]:
    """What a run changes of the recipe, and what came of it."""
    about, recipe = json.loads((run / "run.json").read_text()), config_to_json(ippo.PRESETS["smax"])
    told = {name: value for name, value in about["config"].items() if name not in OF_THE_BATTLE}
    changes = {name: value for name, value in told.items() if value != recipe.get(name, value)}
    if about["algorithm"] != "ippo":
        changes = {"algorithm": about["algorithm"], **changes}
    steps = [None if when is None else when[0] for when in reached(run, won, WINDOW)]
    facts = {name: about[name] for name in (*SAME, "command", "versions", "git")}
    return {**facts, "changes": changes, "won": won, "steps_to_won": steps, "win_rate": about["evaluation"]["win_rate"]}


if __name__ == "__main__":
    main()
