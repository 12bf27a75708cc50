"""Is throughput lost by spreading a run over devices? Updates a second on two devices, one a core, against one.

    python baselines/speed/devices.py            # IPPO on smax/3m, feed-forward and recurrent; a few minutes

The same training, of the same total size, on one device and on two that are made of two cores (XLA's option), in one
process and in turns, so that other work on the machine meets both. Writes its numbers to results/devices_*.json.
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

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--env", default="smax/3m")
parser.add_argument("--turns", type=int, default=7, help="measurements of each")
parser.add_argument("--seconds", type=float, default=3.0, help="of a measurement, about")
OPTIONS = parser.parse_args()
os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count=2"

import jax  # noqa: E402  after the number of devices is set

from jaxrl.algos import ippo  # noqa: E402
from jaxrl.train.devices.mesh import MeshShape, choose_mesh  # noqa: E402
from jaxrl.train.folder.provenance import versions  # noqa: E402
from jaxrl.train.programs import compile_programs  # noqa: E402

CONFIGS = {
    "feed-forward": ippo.Config(env=OPTIONS.env),
    "gru": ippo.Config(env=OPTIONS.env, memory="gru"),
}


class Runner:
    """A training that goes on whenever it is asked to."""

    def __init__(self, config: ippo.Config, data: int) -> None:
        mesh = choose_mesh(config, 1, MeshShape(1, data))
        self.programs = compile_programs(ippo.make(config), config, episodes=1, mesh=mesh)
        self.state = self.programs.init()
        self.time(2)
        self.updates = max(1, round(OPTIONS.seconds / self.time(2) * 2))

    def time(self, updates: int) -> float:
        """Seconds that so many updates take."""
        began = time.perf_counter()
        self.state, metrics = self.programs.chunk(self.state, updates)
        jax.block_until_ready((self.state, metrics))
        return time.perf_counter() - began


def compare(config: ippo.Config) -> dict[str, Any]:
    """Steps a second on one device and on two, and the median ratio of neighbours in time."""
    one, two = Runner(config, 1), Runner(config, 2)
    updates = min(one.updates, two.updates)
    times = [(one.time(updates), two.time(updates)) for _ in range(OPTIONS.turns)]
    ratios = [alone / spread for alone, spread in times]
    steps = updates * config.steps_per_update
    return {
        "steps_per_second_on_1": [round(steps / alone) for alone, _ in times],
        "steps_per_second_on_2": [round(steps / spread) for _, spread in times],
        "ratios": [round(ratio, 3) for ratio in ratios],
        "ratio": round(statistics.median(ratios), 3),
    }


def main() -> None:
    """Measure, print, write."""
    found: dict[str, Any] = {"env": OPTIONS.env, "cores": os.cpu_count(), "versions": versions()}
    found["load_before"] = os.getloadavg()[0]
    for name, config in CONFIGS.items():
        found[name] = compare(config)
        print(f"{name}: two devices {found[name]['ratio']:.2f} x one (wanted: at least 0.9)", flush=True)
    results = Path(__file__).parent / "results"
    name = OPTIONS.env.replace("/", "_")
    path = results / f"devices_{name}_{datetime.now():%Y-%m-%dT%H%M}.json"
    path.write_text(json.dumps(found, indent=1) + "\n")
    print(f"Wrote {path}")


if __name__ == "__main__":
    main()
