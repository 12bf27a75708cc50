"""Algorithms that learn values, trained beside other libraries' in one process and in turns.

    git clone https://github.com/mttga/purejaxql && git clone https://github.com/FLAIROx/JaxMARL
    pip install "jaxrl[peers]" rejax flashbax gymnax==0.0.9
    python baselines/speed/values.py --purejaxql purejaxql --jaxmarl JaxMARL

Both sides run whole trainings of the same few updates, with the same hyperparameters, from the first step on: init,
waiting for experience, learning. Neither evaluates or logs. Compiling, init included, is measured apart, with XLA's
default options on both sides; ours then runs as `jaxrl train` compiles it, on one device and on one for each core.
Seconds of the clock and CPU seconds are told: the former depend on what else the machine does. Writes its numbers to
results/values_*.json.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
from value_cases import Case, cases

from jaxrl.cli.common import use_cores
from jaxrl.train.devices.mesh import MeshShape, choose_mesh
from jaxrl.train.folder.provenance import versions
from jaxrl.train.programs import compile_programs, compiler_options

RESULTS = Path(__file__).parent / "results"

Seconds = tuple[float, float]
"""Of the clock, and of the CPU."""


def timed(function: Callable[[], Any]) -> tuple[Any, Seconds]:
    """The result of a function, when it is there, and the time that it took."""
    clock, cpu = time.perf_counter(), time.process_time()
    result = jax.block_until_ready(function())
    return result, (time.perf_counter() - clock, time.process_time() - cpu)


def compiled(train: Callable[[jax.Array], Any], options: dict[str, Any] | None = None) -> tuple[Any, Seconds]:
    """A run, compiled, and how long tracing and compiling took."""
    jax.clear_caches()
    return timed(lambda: jax.jit(train).lower(jax.random.key(0)).compile(options))


def on_all_devices(case: Case) -> Callable[[jax.Array], Any] | None:
    """Our run on a device for each core; None if it cannot be spread."""
    mesh = choose_mesh(case.config, 1, MeshShape(1, 0))
    if mesh is None:
        return None
    programs = compile_programs(case.algo.make(case.config), case.config, episodes=1, mesh=mesh)
    return lambda key: programs.chunk(programs.init(), case.config.num_updates)


def compare(case: Case, turns: int) -> dict[str, Any]:
    """Both sides in turns, after one run of each that does not count."""
    peer, peer_compile = compiled(case.train())
    train = case.algo.make_train(case.config)
    _, our_compile = compiled(train)
    runs = {"peer": peer, "ours": compiled(train, compiler_options())[0]}
    spread = on_all_devices(case)
    runs |= {} if spread is None else {"ours, all devices": spread}
    seconds: dict[str, list[Seconds]] = {name: [] for name in runs}
    for turn in range(turns + 1):
        for name, run in runs.items():
            _, took = timed(lambda run=run, turn=turn: run(jax.random.key(turn)))
            seconds[name] += [took] if turn else []
    steps = case.config.num_updates * case.config.steps_per_update
    found: dict[str, Any] = {
        "peer": case.peer,
        "env": case.config.env,
        "wanted": case.wanted,
        "updates": case.config.num_updates,
        "steps": steps,
        "compile_ratio": [round(ours / peer, 3) for ours, peer in zip(our_compile, peer_compile, strict=True)],
        "compile_seconds": {"ours": _rounded([our_compile]), "peer": _rounded([peer_compile])},
        "seconds": {name: _rounded(took) for name, took in seconds.items()},
        "steps_per_second": {
            name: round(steps / statistics.median(clock for clock, _ in took)) for name, took in seconds.items()
        },
    }
    for name in runs.keys() - {"peer"}:
        pairs = list(zip(seconds["peer"], seconds[name], strict=True))
        ratios = [statistics.median(peer[kind] / ours[kind] for peer, ours in pairs) for kind in (0, 1)]
        found[f"ratio of {name}"] = [round(ratio, 3) for ratio in ratios]
    return found


def _rounded(took: list[Seconds]) -> list[list[float]]:
    return [[round(clock, 4), round(cpu, 4)] for clock, cpu in took]


def main() -> None:
    """Read the command line, measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--purejaxql", type=Path, help="a checkout of PureJaxQL")
    parser.add_argument("--jaxmarl", type=Path, help="a checkout of JaxMARL")
    parser.add_argument("--cases", nargs="+", help="those to measure; all by default")
    parser.add_argument("--turns", type=int, default=5)
    options = parser.parse_args()
    use_cores()
    stamp = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H%M")
    path = RESULTS / f"values_{stamp}.json"
    about: dict[str, Any] = {"date": stamp, "cores": os.cpu_count(), "devices": len(jax.devices())}
    about |= {"versions": versions(), "cases": {}}
    for name, case in cases(options.purejaxql, options.jaxmarl).items():
        if options.cases and name not in options.cases:
            continue
        load = os.getloadavg()[0]
        row = {**compare(case, options.turns), "load_before": load, "load_after": os.getloadavg()[0]}
        told = {what: ratio for what, ratio in row.items() if "ratio" in what}
        print(f"{name} against {case.peer} (wanted: {case.wanted}), clock and CPU: {told}", flush=True)
        about["cases"][name] = row
        path.write_text(json.dumps(about, indent=1) + "\n")
    print(f"Raw numbers: {path}")


if __name__ == "__main__":
    main()
