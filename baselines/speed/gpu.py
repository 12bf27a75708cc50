"""The speed of this machine's accelerator: environments and training, as tables that are ready to be sent in.

    make bench-gpu                                       # or: python baselines/speed/gpu.py; about a quarter of an hour

Measures random play of 1 to 65,536 environments, and training by the preset `gpu` with more and more environments.
Beside each speed of training stands what docs/accelerators.md predicts for a device that it knows. A size that does not
fit in the device's memory is named as such, and the rest goes on. Writes the tables to
results/accelerator_*.md and the raw numbers to results/accelerator_*.json, named after the device.
"""

from __future__ import annotations

import argparse
import dataclasses
import datetime
import json
import re
import statistics
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import jax

from jaxrl import algos
from jaxrl.bench import measure
from jaxrl.train.accelerators import ACCELERATORS, count_flops, count_work, time_limits
from jaxrl.train.folder.provenance import versions

ENVS = ("smax/3m", "smax/2s3z", "smax/5m_vs_6m", "smax/smacv2_10_units", "mpe/simple_spread", "minatar/breakout")
SIZES = tuple(4**power for power in range(9))
TRAINED = ("smax/3m", "smax/2s3z", "smax/smacv2_10_units")
TRAINED_SIZES = (512, 2048, 8192, 32768)
RESULTS = Path(__file__).parent / "results"


def unless_too_large(measure: Callable[[], float]) -> float | None:
    """The result of `measure`, or None if the device has not enough memory for it."""
    try:
        return measure()
    except jax.errors.JaxRuntimeError as error:
        if "RESOURCE_EXHAUSTED" not in str(error):
            raise
        return None


def play(env: str, num_envs: int, steps: int, repeats: int) -> float:
    """Environment steps a second with random actions: the median over the repeats."""
    return measure(env, num_envs, steps=steps, repeats=repeats).steps_per_second


def train(
    algorithm: str, env: str, num_envs: int, updates: int, repeats: int, predicted: dict[str, Any] | None = None
) -> float:
    """Environment steps a second of whole updates with the preset `gpu`, compiling excluded: the median.

    What docs/accelerators.md predicts for this device goes into `predicted`, by environment and size.
    """
    module = algos.load(algorithm)
    preset = module.PRESETS["gpu"]
    config = dataclasses.replace(preset, env=env, num_envs=num_envs, total_timesteps=num_envs * preset.num_steps)
    algo = module.make(config)
    state = jax.jit(algo.init)(jax.random.key(0))

    def several(state: Any) -> Any:
        return jax.lax.scan(lambda state, _: (algo.update(state)[0], None), state, length=updates)[0]

    traced = jax.jit(several, donate_argnums=0).trace(state)
    step = traced.lower().compile()
    kind = jax.devices()[0].device_kind
    known = next((facts for facts in ACCELERATORS.values() if facts.name.startswith(kind)), None)
    if predicted is not None and known:
        work, _ = count_work(step.as_text() or "", known.platform)
        limits = time_limits(work, count_flops(traced.jaxpr), known)
        speed = updates * config.steps_per_update / max(limits.values())
        predicted.setdefault(env, {})[num_envs] = {"speed": speed, "limits": limits, "work": work._asdict()}
    seconds = []
    for repeat in range(-1, repeats):  # -1 warms up
        began = time.perf_counter()
        state = jax.block_until_ready(step(state))
        if repeat >= 0:
            seconds.append(time.perf_counter() - began)
    return updates * config.steps_per_update / statistics.median(seconds)


def table(title: str, sizes: Sequence[int], rows: dict[str, list[float | None]]) -> str:
    """A Markdown table with a column for each number of environments."""
    lines = [f"| {title} | " + " | ".join(f"{size:,}" for size in sizes) + " |", "| --- " * (len(sizes) + 1) + "|"]
    for name, speeds in rows.items():
        lines.append(f"| {name} | " + " | ".join(cell(speed) for speed in speeds) + " |")
    return "\n".join(lines)


def cell(speed: float | None) -> str:
    """A speed as text."""
    return "does not fit" if speed is None else f"{speed:,.0f}"


def measured(names: Sequence[str], sizes: Sequence[int], measure: Callable[..., float]) -> dict[str, list[Any]]:
    """`measure(name, size)` for each, told as it goes."""
    found: dict[str, list[Any]] = {name: [] for name in names}
    for name in names:
        for size in sizes:
            speed = unless_too_large(lambda name=name, size=size: measure(name, size))
            print(f"  {name}, {size:,} environments: {cell(speed)}", flush=True)
            found[name].append(speed)
    return found


def main(argv: Sequence[str] | None = None) -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--envs", nargs="*", default=ENVS, help="environments that are played at random")
    parser.add_argument("--num-envs", nargs="+", type=int, default=SIZES)
    parser.add_argument("--steps", type=int, default=100, help="steps of each environment per measurement")
    parser.add_argument("--algorithm", choices=("ippo", "mappo"), default="ippo")
    parser.add_argument("--train-envs", nargs="*", default=TRAINED, help="environments that are trained in")
    parser.add_argument("--train-num-envs", nargs="+", type=int, default=TRAINED_SIZES)
    parser.add_argument("--updates", type=int, default=4, help="updates per measurement")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder of the tables and the raw numbers")
    flags = parser.parse_args(argv)
    device = f"{jax.device_count()} x {jax.devices()[0].device_kind}"
    print(f"Steps of environments a second on {device}")
    played = measured(flags.envs, flags.num_envs, lambda env, size: play(env, size, flags.steps, flags.repeats))
    print(f"Steps a second of training by {flags.algorithm}")
    predicted: dict[str, Any] = {}
    trained = measured(
        flags.train_envs,
        flags.train_num_envs,
        lambda env, size: train(flags.algorithm, env, size, flags.updates, flags.repeats, predicted),
    )
    for env, sizes in predicted.items():
        speeds = [sizes[size]["speed"] if size in sizes else None for size in flags.train_num_envs]
        trained[f"{env}, predicted"] = speeds
    tables = [
        table("random play, steps/s", flags.num_envs, played),
        table(f"{flags.algorithm}, preset gpu, steps/s", flags.train_num_envs, trained),
    ]
    text = f"# Speed on {device}\n\n{versions()}\n\n" + "\n\n".join(tables) + "\n"
    stamp = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H%M")
    name = f"accelerator_{re.sub('[^a-z0-9]+', '_', device.lower())}_{stamp}"
    flags.out.mkdir(parents=True, exist_ok=True)
    (flags.out / f"{name}.md").write_text(text, encoding="utf-8")
    raw = {"device": device, "versions": versions(), "flags": vars(flags) | {"out": flags.out.name}}
    raw |= {"play": played, "train": trained, "predicted": predicted}
    (flags.out / f"{name}.json").write_text(json.dumps(raw, indent=1) + "\n", encoding="utf-8")
    print(f"\n{text}\nWrote {flags.out / name}.md and .json")


if __name__ == "__main__":
    main()
