"""What accelerators would launch and move, ours and others', compiled for them on a machine that has none.

    python baselines/speed/kernels.py [--target h100] [--envs NAME …] [--updates ALGO:ENV[:PRESET] …]
                                      [--jaxmarl CHECKOUT]

Environments play 100 steps with random actions, 1,024 copies at once, by the programs that `jaxrl.bench` measures;
updates are whole ones, with their default or that preset. Kernels are those of one step or one update, loops multiplied
out; bytes are those that kernels read and write. With a checkout of JaxMARL's repository, its script of IPPO stands
beside the preset that has its hyperparameters. Writes a table and raw numbers to results/kernels_TARGET_*.
"""

from __future__ import annotations

import argparse
import dataclasses
import datetime
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from unittest import mock

import jax
from peers import PEERS
from training_peers import jaxmarl_ippo

from jaxrl import algos
from jaxrl.bench import ours, scanned, versions
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
    "quadrotor/hover": "",
    "hide_and_seek/room": "",
    "memory/repeat_previous": "",
}
UPDATES = ("ppo:CartPole-v1", "ippo:smax/3m", "mappo:smax/3m", "pqn:CartPole-v1", "pqn_vdn:smax/3m", "qmix:smax/3m")
SAME_AS_JAXMARL = "ippo:smax/3m:jaxmarl"
UPDATES += ("dqn:CartPole-v1", "sac:Pendulum-v1", "td3:Pendulum-v1", SAME_AS_JAXMARL)
RESULTS = Path(__file__).parent / "results"


def played(library: str, name: str, target: str) -> dict[str, float]:
    """Work of a step of all copies of an environment."""

    def uncompiled(reset: Any, step: Any, _: int, steps: int) -> Any:
        return scanned(reset, step, steps)

    with mock.patch("jaxrl.bench.compiled", uncompiled), mock.patch("peers.compiled", uncompiled):
        function: Any = PEERS[library](name, NUM_ENVS, STEPS) if library else ours(name, NUM_ENVS, STEPS)
    compiled = compile_for(target, function, jax.eval_shape(lambda: jax.random.key(0)))
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


def jaxmarl_updated(checkout: Path, target: str) -> dict[str, float]:
    """Work of an update of JaxMARL's `ippo_rnn_smax` on 3m: a run of three without that of two.

    Its calls of the host for logging are left out.
    """
    works = []
    for updates in (2, 3):
        with mock.patch("jax.experimental.io_callback"), mock.patch("jax.debug.callback"):
            train, _ = jaxmarl_ippo(checkout, "3m", updates)
            compiled = compile_for(target, train, jax.eval_shape(lambda: jax.random.key(0)))
        works.append(count_work(compiled.as_text(), named(target)[1].platform)[0])
    return works[1].plus(works[0].times(-1))._asdict()


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
    parser.add_argument("--jaxmarl", type=Path, help="a checkout of JaxMARL's repository")
    flags = parser.parse_args(argv)
    jax.config.update("jax_platforms", "cpu")  # nothing runs on an accelerator
    stamp = f"{datetime.datetime.now():%Y-%m-%dT%H%M}"
    path = RESULTS / f"kernels_{flags.target.replace(':', '_')}_{stamp}.json"
    command = " ".join(["python baselines/speed/kernels.py", *(argv or sys.argv[1:])])
    found: dict[str, Any] = {
        "command": command.replace(str(flags.jaxmarl), "CHECKOUT"),
        "target": flags.target,
        "num_envs": NUM_ENVS,
        "steps": STEPS,
        "versions": versions("jaxmarl", "gymnax"),
        "envs": {},
        "updates": {},
    }

    def note(kind: str, name: str, own: dict[str, Any], peer: str, other: dict[str, Any] | None) -> None:
        found[kind][name] = {"jaxrl": own} | ({peer: other} if other else {})
        path.write_text(json.dumps(found, indent=1) + "\n")
        print(row(name, own, other), flush=True)

    print("| a step of 1,024, or an update | kernels | MB | peer's kernels | MB |\n| --- | --- | --- | --- | --- |")
    for name in flags.envs:
        peer = ENVS.get(name, "")
        own = played("", name, flags.target)
        note("envs", name, own, peer, played(peer, name, flags.target) if peer else None)
    for what in flags.updates:
        both = flags.jaxmarl and what == SAME_AS_JAXMARL
        other = jaxmarl_updated(flags.jaxmarl, flags.target) if both else None
        note("updates", what, updated(what, flags.target), "jaxmarl", other)
    print(f"Raw numbers: {path}")


if __name__ == "__main__":
    main()
