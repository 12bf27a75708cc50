"""What zones, scripts and abilities cost a battle: `python baselines/speed/battles.py`.

Each battle plays random actions in turn with smax/smacv2_10_units, all in this process; the ratio of times is the
median over rounds, and compiling is not counted. Writes results/battles_<date>.json.
"""

from __future__ import annotations

import datetime
import json
import os
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import jax

import jaxrl
from jaxrl.envs.smax import Zone
from jaxrl.spaces import num_actions
from jaxrl.train.folder.provenance import versions

RESULTS = Path(__file__).parent / "results"
BATTLES, STEPS, ROUNDS = 256, 50, 9
KINDS = ("wall", "slow", "cover", "burn")
ZONES = [
    Zone(kind, x, y, 2, 1.5, kind == "slow") for y, kind in zip((6, 12, 20, 26), KINDS, strict=True) for x in (9, 23)
]
CASES = {
    "smacv2_10_units": {},
    "with eight zones": {"zones": ZONES},
    "with mixed scripts": {"script": "mixed"},
    "with both": {"zones": ZONES, "script": "mixed"},
}
OTHERS = ("smax/mmm2", "smax/ribbon", "smax/random?max_units=10&num_zones=8&script=mixed")


def program(env: jaxrl.MultiAgentEnvironment) -> tuple[Callable[[], None], float]:
    """Random play of some steps, and the seconds that compiling it took."""

    @jax.jit
    def play(keys: jax.Array, state: object) -> object:
        def step(state: object, key: jax.Array) -> tuple[object, tuple[jax.Array, jax.Array]]:
            key_act, key_step = jax.random.split(key)
            action = jax.random.randint(key_act, (BATTLES, env.num_agents), 0, num_actions(env.action_space()))
            obs, state, reward, *_ = env.batch_step(jax.random.split(key_step, BATTLES), state, action)
            return state, (obs.sum(), reward.sum())

        return jax.lax.scan(step, state, keys)

    _, state = jax.jit(env.batch_reset)(jax.random.split(jax.random.key(0), BATTLES))
    keys = jax.random.split(jax.random.key(1), STEPS)
    began = time.perf_counter()
    jax.block_until_ready(play(keys, state))
    return lambda: jax.block_until_ready(play(keys, state)), time.perf_counter() - began


def main() -> None:
    """Measure, print and write."""
    envs = {name: jaxrl.make("smax/smacv2_10_units", **options) for name, options in CASES.items()}
    envs |= {name: jaxrl.make(name) for name in OTHERS}
    programs = {name: program(env) for name, env in envs.items()}
    seconds: dict[str, list[float]] = {name: [] for name in programs}
    for _ in range(ROUNDS):
        for name, (run, _) in programs.items():
            began = time.perf_counter()
            run()
            seconds[name].append(time.perf_counter() - began)
    base, rows = seconds["smacv2_10_units"], []
    for name, (_, compiling) in programs.items():
        ratio = statistics.median(own / other for own, other in zip(seconds[name], base, strict=True))
        speed = BATTLES * STEPS / statistics.median(seconds[name])
        rows.append({"battle": name, "steps_per_second": round(speed), "times_as_long": round(ratio, 2)})
        rows[-1] |= {"compile_seconds": round(compiling, 1), "seconds": seconds[name]}
        print(f"{name}: {speed:,.0f} steps/s, {ratio:.2f} times as long, {compiling:.1f} s to compile", flush=True)
    devices = [str(device) for device in jax.devices()]
    found = {"rows": rows, "devices": devices, "load_average": os.getloadavg(), "versions": versions()}
    file = RESULTS / f"battles_{datetime.datetime.now():%Y-%m-%dT%H%M}.json"
    file.write_text(json.dumps(found, indent=1) + "\n")
    print(f"wrote {file}")


if __name__ == "__main__":
    main()
