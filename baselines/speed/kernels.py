"""What accelerators would launch and move, ours and others', compiled for them on a machine that has none.

    python baselines/speed/kernels.py [--target h100] [--envs NAME …] [--updates ALGO:ENV[:PRESET] …]

Environments play 100 steps with random actions, 1,024 copies at once, by the programs that `jaxrl.bench` measures;
updates are whole ones, with their default or that preset. Kernels are those of one step or one update, loops multiplied
out; bytes are those that kernels read and write. Writes a table and raw numbers to results/kernels_TARGET_*.
"""

from __future__ import annotations

import argparse
import dataclasses
import datetime
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax
from peers import PEERS

from jaxrl import algos
from jaxrl.bench import ours, versions
from jaxrl.train.accelerators import compile_for, count_work, named
from jaxrl.train.cost import estimate_cost

NUM_ENVS, STEPS = 1024, 100
ENVS = {
    "smax/3m": "jaxmarl",
    "smax/2s3z": "jaxmarl",
    "smax/8m": "jaxmarl",
    "smax/25m": "jaxmarl",
    "smax/27m_vs_30m": "jaxmarl",
    "smax/smacv2_5_units": "jaxmarl",
    "smax/smacv2_10_units": "jaxmarl",
    "mpe/simple_spread": "jaxmarl",
    "mpe/simple_tag": "jaxmarl",
    "overcooked/cramped_room": "jaxmarl",
    "overcooked_v2/cramped_room": "jaxmarl",
    "hanabi/2p": "jaxmarl",
    "coin_game": "jaxmarl",
    "switch_riddle": "jaxmarl",
    "storm": "jaxmarl",
    "jaxnav": "jaxmarl",
    "CartPole-v1": "gymnax",
    "Acrobot-v1": "gymnax",
    "Pendulum-v1": "gymnax",
    "Asterix-MinAtar": "gymnax",
    "Breakout-MinAtar": "gymnax",
    "Freeway-MinAtar": "gymnax",
    "Seaquest-MinAtar": "gymnax",
    "SpaceInvaders-MinAtar": "gymnax",
    "quadrotor": "",
    "hide_and_seek": "",
    "memory/repeat_previous": "",
}
UPDATES = ("ppo:CartPole-v1", "ippo:smax/3m", "mappo:smax/3m", "pqn:CartPole-v1", "pqn_vdn:smax/3m", "qmix:smax/3m")
UPDATES += ("dqn:CartPole-v1", "sac:Pendulum-v1", "td3:Pendulum-v1", "ippo:smax/3m:jaxmarl")
RESULTS = Path(__file__).parent / "results"


def played(library: str, name: str, target: str) -> dict[str, float]:
    """Work of a step of all copies of an environment."""
    program = PEERS[library](name, NUM_ENVS, STEPS) if library else ours(name, NUM_ENVS, STEPS)
    assert program.function
    compiled = compile_for(target, program.function, jax.eval_shape(lambda: jax.random.key(0)))
    work, _ = count_work(compiled.as_text(), named(target)[1].platform)
    return {name: value / STEPS for name, value in work._asdict().items()}


def updated(what: str, target: str) -> dict[str, Any]:
    """Work of an update of an algorithm."""
    name, env, *preset = what.split(":")
    module = algos.load(name)
    chosen = preset[0] if preset else algos.preset_for(module.PRESETS, env)
    config = dataclasses.replace(module.PRESETS.get(chosen, module.Config()), env=env)
    plan = estimate_cost(module.make(config), config, target=target)
    assert plan.work
    return {**plan.work._asdict(), "loops": plan.loops, "memory": plan.memory, "limits": plan.limits}


def row(name: str, own: dict[str, Any], other: dict[str, Any] | None) -> str:
    """A row of the table."""
    cells = [f"{own['kernels']:,.0f}", size(own)]
    cells += [f"{other['kernels']:,.0f}", size(other)] if other else ["", ""]
    return f"| {name} | {' | '.join(cells)} |"


def size(work: dict[str, Any]) -> str:
    """Megabytes read and written."""
    return f"{(work['read'] + work['written']) / 1e6:,.2f}"


def main(argv: Sequence[str] | None = None) -> None:
    """Compile, count, print, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--target", default="h100")
    parser.add_argument("--envs", nargs="*", default=list(ENVS))
    parser.add_argument("--updates", nargs="*", default=UPDATES)
    flags = parser.parse_args(argv)
    jax.config.update("jax_platforms", "cpu")  # nothing runs on an accelerator
    found: dict[str, Any] = {"envs": {}, "updates": {}}
    lines = ["| a step of 1,024 | kernels | MB | peer's kernels | MB |", "| --- | --- | --- | --- | --- |"]
    print("\n".join(lines), flush=True)
    for name in flags.envs:
        own = played("", name, flags.target)
        other = played(ENVS[name], name, flags.target) if ENVS.get(name) else None
        found["envs"][name] = {"jaxrl": own, ENVS.get(name) or "peer": other}
        lines.append(row(name, own, other))
        print(lines[-1], flush=True)
    for what in flags.updates:
        found["updates"][what] = own = updated(what, flags.target)
        lines.append(row(what, own, None))
        print(lines[-1], flush=True)
    stamp = f"{datetime.datetime.now():%Y-%m-%dT%H%M}"
    head = {"target": flags.target, "num_envs": NUM_ENVS, "steps": STEPS, "versions": versions(), "date": stamp}
    command = f"python baselines/speed/kernels.py --target {flags.target}"
    path = RESULTS / f"kernels_{flags.target.replace(':', '_')}_{stamp}.json"
    path.write_text(json.dumps({"command": command, **head, **found}, indent=1) + "\n")
    print(f"Raw numbers: {path}")


if __name__ == "__main__":
    main()
