"""Training on pictures with our convolution and with XLA's, which is Flax's: `python baselines/speed/pictures.py`.

Both train in one process and in turns, with the defaults of `jaxrl train`; each core is a device. XLA's convolution is
so slow on a CPU that it gets one update a turn. Seconds on the clock need a quiet machine; CPU seconds, which are
measured as well, depend less on other work. Writes its numbers to results/pictures_*.json.

    python baselines/speed/pictures.py --algo ippo --env jaxmarl:overcooked --ours-only
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import time
from datetime import datetime
from pathlib import Path
from typing import Any
from unittest import mock

import jax

from jaxrl.algos import ippo, ppo
from jaxrl.cli.common import use_cores
from jaxrl.nn import layers
from jaxrl.train.devices.mesh import choose_mesh
from jaxrl.train.folder.provenance import versions
from jaxrl.train.programs import compile_programs

ALGOS: dict[str, Any] = {"ppo": ppo, "ippo": ippo}


class Runner:
    """A training that goes on whenever it is asked to."""

    def __init__(self, algo: Any, config: Any, updates: int) -> None:
        self.programs = compile_programs(algo.make(config), config, episodes=1, mesh=choose_mesh(config, 1))
        self.state, self.updates, self.steps = self.programs.init(), updates, updates * config.steps_per_update
        self.turns: list[dict[str, float]] = []
        self.turn()
        self.turns.clear()  # the first one also warms up

    def turn(self) -> None:
        """Do the updates, and note the seconds and the CPU seconds that they take."""
        clock, cpu = time.perf_counter(), time.process_time()
        self.state, metrics = self.programs.chunk(self.state, self.updates)
        jax.block_until_ready((self.state, metrics))
        self.turns.append({"seconds": time.perf_counter() - clock, "cpu_seconds": time.process_time() - cpu})

    def summary(self) -> dict[str, Any]:
        """Medians over the turns, and the turns themselves."""
        seconds, cpu = ([turn[kind] for turn in self.turns] for kind in ("seconds", "cpu_seconds"))
        return {
            "steps_per_second": round(self.steps / statistics.median(seconds)),
            "steps_per_cpu_second": round(self.steps / statistics.median(cpu)),
            "compile_seconds": round(self.programs.seconds, 1),
            "steps_a_turn": self.steps,
            "turns": [{kind: round(value, 4) for kind, value in turn.items()} for turn in self.turns],
        }


def main() -> None:
    """Read the command line, measure in turns, print, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--algo", choices=list(ALGOS), default="ppo")
    parser.add_argument("--env", default="gymnax:Breakout-MinAtar")
    parser.add_argument("--turns", type=int, default=7)
    parser.add_argument("--updates", type=int, default=5, help="of ours in a turn")
    parser.add_argument("--ours-only", action="store_true", help="don't wait for XLA's convolution")
    options = parser.parse_args()
    use_cores()
    algo = ALGOS[options.algo]
    config = algo.Config(env=options.env)
    load = os.getloadavg()[0]
    runners = {"ours": Runner(algo, config, options.updates)}
    if not options.ours_only:
        with mock.patch.object(layers, "patch_product", layers.convolution):
            jax.clear_caches()
            runners["xla"] = Runner(algo, config, 1)
    for turn in range(options.turns):
        for name, runner in runners.items():
            runner.turn()
            last = runner.turns[-1]
            print(f"turn {turn}, {name}: {runner.steps / last['seconds']:,.0f} steps a second", flush=True)
    report: dict[str, Any] = {
        "algo": options.algo,
        "env": options.env,
        "device": f"{len(jax.devices())} {jax.default_backend()} devices",
        "versions": versions(),
        "load_before": load,
        "load_after": os.getloadavg()[0],
    }
    report |= {name: runner.summary() for name, runner in runners.items()}
    for kind in ("steps_per_second", "steps_per_cpu_second"):
        ratio = report["ours"][kind] / report["xla"][kind] if "xla" in report else None
        told = f", {ratio:.1f} times as many as with XLA's convolution" if ratio else ""
        print(f"{kind}: {report['ours'][kind]:,}{told}")
        report[f"ratio_of_{kind}"] = ratio and round(ratio, 1)
    name = f"pictures_{options.algo}_{options.env.split(':')[-1]}_{datetime.now():%Y-%m-%dT%H%M}.json"
    path = Path(__file__).parent / "results" / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(report, indent=1) + "\n")
    print(f"Raw numbers: {path}")


if __name__ == "__main__":
    main()
