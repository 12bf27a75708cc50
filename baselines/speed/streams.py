"""Thousands of learners with a stream each, in one program: `python baselines/speed/streams.py`.

Stream Q(lambda) on CartPole with the default network, all learners at once by `vmap`, and in batches of 1,024, one
after another, which need less of the memory's bandwidth. Counts the steps of all learners, each with its gradient step,
in a second; compiling is not counted. Writes results/streams_<date>.json.
"""

from __future__ import annotations

import datetime
import json
import os
import time
from pathlib import Path
from typing import Any

import jax

from jaxrl.algos import stream_q
from jaxrl.train.folder.provenance import versions
from jaxrl.train.programs import compiler_options

RESULTS = Path(__file__).parent / "results"
CASES = ((1, 1), (64, 64), (1024, 1024), (10_240, 10_240), (10_240, 1024))  # learners, at once
STEPS = 1_000_000  # of all learners together
REPEATS = 3


def measure(learners: int, at_once: int) -> dict[str, Any]:
    """Steps per second, of the fastest of several runs."""
    num_steps = min(STEPS // learners, 10_000)
    algo = stream_q.make(stream_q.Config(num_steps=num_steps, total_timesteps=num_steps))
    states = jax.jit(jax.vmap(algo.init))(jax.random.split(jax.random.key(0), learners))

    def update(states: Any) -> Any:
        batches = at_once < learners
        return jax.lax.map(algo.update, states, batch_size=at_once) if batches else jax.vmap(algo.update)(states)

    compiled = jax.jit(update).lower(states).compile(compiler_options())
    jax.block_until_ready(compiled(states))
    seconds = []
    for _ in range(REPEATS):
        began = time.perf_counter()
        jax.block_until_ready(compiled(states))
        seconds.append(time.perf_counter() - began)
    speed = learners * num_steps / min(seconds)
    print(f"{learners:,} learners, {at_once:,} at once: {speed:,.0f} steps/s", flush=True)
    return {"learners": learners, "at_once": at_once, "steps_per_second": round(speed)}


if __name__ == "__main__":
    rows = [measure(*case) for case in CASES]
    devices = [str(device) for device in jax.devices()]
    found = {"rows": rows, "devices": devices, "load_average": os.getloadavg(), "versions": versions()}
    file = RESULTS / f"streams_{datetime.datetime.now():%Y-%m-%dT%H%M}.json"
    file.write_text(json.dumps(found, indent=2) + "\n")
    print(f"wrote {file}")
