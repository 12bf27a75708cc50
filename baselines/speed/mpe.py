"""MPE against jaxmarl, both in this process: `python baselines/speed/mpe.py`. Needs `pip install "jaxrl[peers]"`.

Prints a table and writes all raw numbers to `baselines/speed/results/`. On a GPU add, say,
`--num-envs 1024 16384 65536`.
"""

from __future__ import annotations

import argparse
import dataclasses
import datetime
import json
from pathlib import Path

from jaxrl.bench import Comparison, compare

SCENARIOS = ["simple_spread", "simple_tag", "simple_world_comm", "simple_reference", "simple_facmac_6a"]
HEADER = (
    "| scenario | environments | jaxrl steps/s | jaxmarl steps/s | ratio | compile s | state + temporary KB an env |"
)


def row(result: Comparison) -> str:
    """One line of the table; the pairs are ours and jaxmarl's."""
    assert result.peer is not None
    ours, peer = result.ours, result.peer
    memory = " / ".join(f"{m.state_bytes / 1e3:.2f} + {m.temporary_bytes / 1e3:.2f}" for m in (ours, peer))
    return (
        f"| {result.env} | {result.num_envs} | {ours.steps_per_second:,.0f} | {peer.steps_per_second:,.0f} "
        f"| {result.ratio:.1f} | {ours.compile_seconds:.1f} / {peer.compile_seconds:.1f} | {memory} |"
    )


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scenarios", nargs="+", default=SCENARIOS, help="scenarios to measure")
    parser.add_argument("--num-envs", nargs="+", type=int, default=[1024])
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--reset", choices=("fresh", "pool"), default="fresh")
    arguments = parser.parse_args()
    results = []
    print(f"{HEADER}\n{'| --- ' * 7}|")
    for scenario in arguments.scenarios:
        for num_envs in arguments.num_envs:
            result = compare(
                f"mpe/{scenario}",
                num_envs,
                against="jaxmarl",
                steps=arguments.steps,
                repeats=arguments.repeats,
                reset=arguments.reset,
            )
            print(row(result), flush=True)
            results.append(dataclasses.asdict(result))
    print(f"\n{results[-1]['device']}, {results[-1]['versions']}")
    stamp = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H%M")
    path = Path(__file__).parent / "results" / f"mpe_{arguments.reset}_{stamp}.json"
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps({"date": stamp, "results": results}, indent=1) + "\n")
    print(f"Raw numbers: {path}")


if __name__ == "__main__":
    main()
