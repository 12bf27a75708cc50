"""The costs of compiling with XLA's default options and with ours, in CPU seconds, and the speed that results.

    python baselines/speed/compile.py --preset jaxmarl

CPU seconds are told rather than seconds on the clock, because they hardly depend on what else the machine does.
"""

from __future__ import annotations

import argparse
import json
import time
from typing import Any

import jax

from jaxrl.algos import ippo
from jaxrl.train.programs import compiler_options


def measure(preset: str, options: dict[str, Any] | None, updates: int) -> dict[str, float]:
    """Seconds to trace and to compile IPPO's update, and seconds of one update (the quickest of several)."""
    jax.clear_caches()
    algo = ippo.make(ippo.PRESETS[preset])
    state = jax.jit(algo.init)(jax.random.key(0))
    began = time.process_time()
    lowered = jax.jit(algo.update).lower(state)
    traced = time.process_time()
    update = lowered.compile(options)
    compiled = time.process_time()
    seconds = []
    for _ in range(updates):
        start = time.process_time()
        jax.block_until_ready(update(state))
        seconds.append(time.process_time() - start)
    return {"trace": traced - began, "compile": compiled - traced, "update": min(seconds)}


def main() -> None:
    """Both in turn, twice; the second round counts."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--preset", default="jaxmarl", choices=list(ippo.PRESETS))
    parser.add_argument("--updates", type=int, default=5)
    args = parser.parse_args()
    for _ in range(2):
        rows = {
            name: measure(args.preset, options, args.updates)
            for name, options in (("default", None), ("jaxrl", compiler_options()))
        }
    print(json.dumps({"preset": args.preset, "jax": jax.__version__, "cpu_seconds": rows}, indent=1))


if __name__ == "__main__":
    main()
