"""SMAX against jaxmarl, both in this process: `python baselines/speed/smax.py`. Needs `pip install "jaxrl[peers]"`.

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

SETTINGS = {"3m": 1024, "8m": 256, "2s3z": 256, "25m": 128, "smacv2_10_units": 256}
HEADER = "| battle | environments | jaxrl steps/s | jaxmarl steps/s | ratio | compile s | state + temporary KB an env |"


def row(result: Comparison) -> str:
    """One line of the table; the pairs are ours and jaxmarl's."""
    assert result.peer is not None
    ours, peer = result.ours, result.peer
    memory = " / ".join(f"{m.state_bytes / 1e3:.1f} + {m.temporary_bytes / 1e3:.1f}" for m in (ours, peer))
    return (
        f"| {result.env} | {result.num_envs} | {ours.steps_per_second:,.0f} | {peer.steps_per_second:,.0f} "
        f"| {result.ratio:.1f} | {ours.compile_seconds:.1f} / {peer.compile_seconds:.1f} | {memory} |"
    )


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--battles", nargs="+", default=list(SETTINGS), help="scenarios to measure")
    parser.add_argument("--num-envs", nargs="+", type=int, help="instead of each scenario's own number")
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--reset", choices=("fresh", "pool"), default="fresh")
    arguments = parser.parse_args()
    results = []
    print(f"{HEADER}\n{'| --- ' * 7}|")
    for battle in arguments.battles:
        for num_envs in arguments.num_envs or [SETTINGS.get(battle, 256)]:
            result = compare(
                f"smax/{battle}",
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
    path = Path(__file__).parent / "results" / f"smax_{arguments.reset}_{stamp}.json"
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps({"date": stamp, "results": results}, indent=1) + "\n")
    print(f"Raw numbers: {path}")


if __name__ == "__main__":
    main()
