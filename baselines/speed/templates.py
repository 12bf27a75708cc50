"""The scripts of `jaxrl new` beside the library's algorithms, with the same hyperparameters, in one process.

    python baselines/speed/templates.py                       # steps per second
    python baselines/speed/templates.py --learning            # what five seeds of each have learned

Both sides of a measurement run the same number of updates in turns, after one turn that does not count; compiling is
timed apart. Both run on one device, as `python my_ppo.py` does on a CPU. Seconds of the clock depend on what else the
machine does, CPU seconds less so; each ratio is the median over neighbouring turns. Writes its numbers to
results/templates_*.json.
"""

from __future__ import annotations

import argparse
import dataclasses
import datetime
import importlib
import json
import os
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import jaxrl
from jaxrl import algos
from jaxrl.cli.new import scripts
from jaxrl.train.folder.provenance import versions

RESULTS = Path(__file__).parent / "results"

# What the library does by default, or only if told, and the script does or leaves out.
_ON_POLICY = {"optimizer": "adam", "normalise_reward": False, "anneal_lr": True}
_REPLAY = _ON_POLICY | {"n_step": 1}
ALIKE: dict[str, tuple[str, dict[str, Any]]] = {
    "ppo": ("ppo", _ON_POLICY),
    "ppo_rnn": ("ppo", _ON_POLICY | {"memory": "gru", "share_torso": True}),
    "ippo": ("ippo", _ON_POLICY | {"sharing": "all", "share_torso": True, "clip_value": True}),
    "mappo": ("mappo", _ON_POLICY | {"sharing": "all", "clip_value": True}),
    "pqn": ("pqn", _ON_POLICY | {"optimizer": "radam", "layer_norm": True, "activation": "relu"}),
    "dqn": ("dqn", _REPLAY | {"layer_norm": True, "activation": "relu"}),
    "qmix": ("qmix", _REPLAY | {"sharing": "all", "layer_norm": True, "activation": "relu"}),
    "sac": ("sac", _REPLAY),
}
"""For each script, the library's algorithm, and the fields that make it the same."""

TASKS: dict[str, dict[str, Any]] = {
    "ppo": {"total_timesteps": 50_000},
    "ppo_rnn": {"total_timesteps": 200_000},
    "ippo": {"env": "mpe/simple_spread", "gamma": 0.95, "total_timesteps": 200_000},
    "mappo": {"env": "mpe/simple_spread", "gamma": 0.95, "total_timesteps": 200_000},
    "pqn": {"total_timesteps": 100_000},
    "dqn": {"total_timesteps": 60_000},
    "qmix": {"env": "mpe/simple_spread", "gamma": 0.9, "total_timesteps": 60_000, "learning_starts": 2000},
    "sac": {"total_timesteps": 12_000},
}
"""Of each script, a task that is learned in a minute: changes of its `Config`."""


def library(name: str, config: Any) -> tuple[Any, Any]:
    """The library's algorithm, and its configuration with the hyperparameters of a script's."""
    algorithm, fields = ALIKE[name]
    module = algos.load(algorithm)
    known = {field.name for field in dataclasses.fields(module.Config)}
    same = {field.name: getattr(config, field.name) for field in dataclasses.fields(config) if field.name in known}
    if name == "mappo":
        fields = fields | {"critic_hidden": config.hidden}
    return module, module.Config(**same | fields | {"lr": config.lr[0]})


def compiled_updates(make: Callable[[], tuple[Any, Any]], count: int) -> tuple[Any, Any, float]:
    """So many updates as one program, the state before them and the seconds of compiling.

    Args:
        make: `make() -> (update, state)`.
        count: The number of updates.
    """
    update, state = make()
    began = time.perf_counter()
    chunk = jax.jit(lambda s: jax.lax.scan(lambda s, _: update(s), s, length=count), donate_argnums=0)
    return chunk.lower(state).compile(), state, time.perf_counter() - began


def measure(name: str, seconds: float, repeats: int) -> dict[str, Any]:
    """Steps per second of a script and of the library's algorithm, at the script's default configuration.

    Args:
        name: The script's.
        seconds: How long a turn takes, about.
        repeats: Turns of each side that count.
    """
    script = importlib.import_module(f"jaxrl.templates.{name}")
    config = script.Config(learning_starts=1) if hasattr(script.Config, "learning_starts") else script.Config()
    module, ours = library(name, config)

    # Of the script, the one member that it trains by default.
    def of_script() -> tuple[Any, Any]:
        parts = script.make(config)
        state = jax.jit(lambda key: script.init(parts, key, jnp.float32(config.lr[0])))(jax.random.key(0))
        return lambda state: script.update(parts, state), state

    def of_library() -> tuple[Any, Any]:
        algo = module.make(ours)
        return algo.update, jax.jit(algo.init)(jax.random.key(0))

    # One update tells how many fill a turn.
    sides = {"script": of_script, "library": of_library}
    one, state, _ = compiled_updates(of_library, 1)
    state, _ = jax.block_until_ready(one(state))
    _, (clock, _) = timed(one, state)
    count = max(1, min(config.num_updates, round(seconds / clock)))
    programs, states, compiling = {}, {}, {}
    for side, make in sides.items():
        programs[side], states[side], compiling[side] = compiled_updates(make, count)
    took: dict[str, list[tuple[float, float]]] = {side: [] for side in sides}
    for turn in range(repeats + 1):
        for side in sides:
            (states[side], _), spent = timed(programs[side], states[side])
            took[side] += [spent] if turn else []

    # A ratio above 1 says that the script is faster.
    steps = count * config.num_envs * config.num_steps
    pairs = list(zip(took["script"], took["library"], strict=True))
    ratios = [statistics.median(library[kind] / script[kind] for script, library in pairs) for kind in (0, 1)]
    return {
        "env": config.env,
        "steps": steps,
        "ratio": [round(ratio, 3) for ratio in ratios],
        "steps_per_second": {side: round(steps / statistics.median(c for c, _ in took[side])) for side in sides},
        "compile_seconds": {side: round(spent, 2) for side, spent in compiling.items()},
        "seconds": {side: [[round(x, 4) for x in each] for each in took[side]] for side in sides},
    }


def timed(program: Any, state: Any) -> tuple[Any, tuple[float, float]]:
    """What a program returns, and its seconds of the clock and of the CPU."""
    clock, cpu = time.perf_counter(), time.process_time()
    result = jax.block_until_ready(program(state))
    return result, (time.perf_counter() - clock, time.process_time() - cpu)


def learned(name: str, num_seeds: int = 5, **fields: Any) -> tuple[np.ndarray, np.ndarray]:
    """Mean returns `[num_seeds]` of a script and of the library's algorithm in the last tenth of the updates.

    Args:
        name: The script's.
        num_seeds: Seeds of each side.
        **fields: Changes of the script's configuration.
    """
    script = importlib.import_module(f"jaxrl.templates.{name}")
    config = script.Config(**{"num_seeds": num_seeds, "num_lines": 10, "plot": ""} | fields)
    module, ours = library(name, config)
    with jax.debug_key_reuse(False):  # it takes keys that pass a scan under vmap for consumed
        _, curves = script.train(config)
        keys = jax.vmap(jax.random.key)(jnp.arange(num_seeds) + config.seed)
        _, metrics = jax.jit(jax.vmap(module.make_train(ours)))(keys)
    last = config.num_updates // 10
    returns, episodes = (np.asarray(metrics[each])[:, -last:].sum(1) for each in ("return_sum", "episodes"))
    return curves["return"][-1], returns / episodes


def interval(values: np.ndarray) -> tuple[float, float]:
    """The 95 % confidence interval of the mean of five values, by Student's t."""
    assert values.size == 5
    half = 2.776 * float(values.std(ddof=1)) / 5**0.5
    return float(values.mean()) - half, float(values.mean()) + half


def main() -> None:
    """Read the command line, measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scripts", nargs="+", default=list(scripts()), help="those to measure; all by default")
    parser.add_argument("--seconds", type=float, default=2.0, help="of a turn")
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--learning", action="store_true", help="what five seeds learn, instead of the speed")
    options = parser.parse_args()
    stamp = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H%M")
    path = RESULTS / f"templates_{'learning' if options.learning else 'speed'}_{stamp}.json"
    about: dict[str, Any] = {"date": stamp, "cores": os.cpu_count(), "versions": versions(), "scripts": {}}
    for name in options.scripts:
        load = os.getloadavg()[0]
        if options.learning:
            sides = dict(zip(("script", "library"), learned(name, **TASKS[name]), strict=True))
            row: dict[str, Any] = {"task": TASKS[name]} | {side: each.tolist() for side, each in sides.items()}
            row["interval"] = {side: [round(x, 3) for x in interval(each)] for side, each in sides.items()}
            print(f"{name}: {row['interval']}", flush=True)
        else:
            row = measure(name, options.seconds, options.repeats)
            print(f"{name}: {row['ratio']} (clock, CPU) of the library's speed, {row['steps_per_second']}", flush=True)
        about["scripts"][name] = row | {"load": load}
        path.write_text(json.dumps(about, indent=1) + "\n")
    print(f"jaxrl {jaxrl.__version__}; raw numbers: {path}")


if __name__ == "__main__":
    main()
