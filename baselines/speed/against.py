"""What the speed measurements share: ours against peers in one process, a table, and the raw numbers."""

from __future__ import annotations

import argparse
import dataclasses
import datetime
import itertools
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from jaxrl.bench import Comparison, compare

Peer = Literal["jaxmarl", "gymnax", "envpool"]
COLUMNS = "environments | peer | jaxrl steps/s | peer steps/s | ratio | compile s | state + temporary KB an env"


def measure(
    description: str,
    family: str,
    kind: str,
    settings: Mapping[str, int],
    digits: int,
    peers: tuple[Peer, ...],
    prefix: str | None = None,
) -> None:
    """Read the command line, measure, print, write.

    Args:
        description: For `--help`.
        family: Of environments, such as `"smax"`.
        kind: What one of them is called: a battle, a scenario. The flag `--<kind>s` chooses.
        settings: Number of environments for each one that is measured by default; others get the last one's.
        digits: Of the kilobytes.
        peers: Each is measured against ours in turn.
        prefix: What stands before a scenario's name in the environment's; None for the family and a slash.
    """
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        f"--{kind}s", dest="names", metavar=kind.upper(), nargs="+", default=list(settings), help="scenarios to measure"
    )
    parser.add_argument("--num-envs", nargs="+", type=int, help="instead of each scenario's own number")
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--reset", choices=("fresh", "pool"), default="fresh")
    arguments = parser.parse_args()
    results = []
    print(f"| {kind} | {COLUMNS} |\n{'| --- ' * 8}|")
    for name in arguments.names:
        sizes = arguments.num_envs or [settings.get(name, list(settings.values())[-1])]
        for num_envs, peer in itertools.product(sizes, peers):
            result = compare(
                f"{family}/{name}" if prefix is None else prefix + name,
                num_envs,
                against=peer,
                steps=arguments.steps,
                repeats=arguments.repeats,
                reset=arguments.reset,
            )
            print(_row(result, digits), flush=True)
            results.append(dataclasses.asdict(result))
    print(f"\n{results[-1]['device']}, {results[-1]['versions']}")
    stamp = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H%M")
    path = Path(__file__).parent / "results" / f"{family}_{arguments.reset}_{stamp}.json"
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps({"date": stamp, "results": results}, indent=1) + "\n")
    print(f"Raw numbers: {path}")


def _row(result: Comparison, digits: int) -> str:
    """One line of the table; the pairs are ours and the peer's."""
    assert result.peer is not None
    ours, peer = result.ours, result.peer
    pairs = ((m.state_bytes or 0, m.temporary_bytes or 0) for m in (ours, peer))  # 0: Python steps them
    memory = " / ".join(f"{state / 1e3:.{digits}f} + {temporary / 1e3:.{digits}f}" for state, temporary in pairs)
    return (
        f"| {result.env} | {result.num_envs} | {peer.library} | {ours.steps_per_second:,.0f} "
        f"| {peer.steps_per_second:,.0f} | {result.ratio:.1f} "
        f"| {ours.compile_seconds:.1f} / {peer.compile_seconds:.1f} | {memory} |"
    )
