"""Ours against a peer in one process, and what the speed measurements share: a table, and the raw numbers.

python baselines/speed/against.py smax/3m --against jaxmarl
"""

from __future__ import annotations

import argparse
import dataclasses
import datetime
import itertools
import json
import statistics
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from peers import PEERS

from jaxrl.bench import Measurement, Program, device, measure_in_turn, ours, versions

Peer = Literal["jaxmarl", "gymnax", "envpool"]
COLUMNS = "environments | peer | jaxrl steps/s | peer steps/s | ratio | compile s | state + temporary KB an env"


@dataclasses.dataclass(frozen=True)
class Comparison:
    """The result of `compare`, with everything needed to repeat it."""

    env: str
    num_envs: int
    steps: int
    """Steps of each environment per repeat."""
    reset: str
    ours: Measurement
    peer: Measurement | None
    ratio: float | None
    """Our steps per second over the peer's: the median of the ratios of neighbouring repeats."""
    device: str
    versions: dict[str, str]

    def __str__(self) -> str:
        lines = [f"{self.env}, {self.num_envs} environments, random actions, {self.device}"]
        for m in filter(None, (self.ours, self.peer)):
            line = f"{m.library:>8}: {m.steps_per_second:,.0f} steps/s"
            if m.state_bytes is not None and m.temporary_bytes is not None:
                line += (
                    f" (compiled in {m.compile_seconds:.1f} s; {m.state_bytes / 1e3:.1f} KB of state and "
                    f"{m.temporary_bytes / 1e3:.1f} KB of work an environment)"
                )
            lines.append(line)
        if self.ratio is not None:
            lines.append(f"{'ratio':>8}: {self.ratio:.1f}")
        return "\n".join(lines)


def compare(
    env_id: str,
    num_envs: int,
    against: Peer | None = None,
    *,
    steps: int = 100,
    repeats: int = 7,
    reset: Literal["fresh", "pool"] = "fresh",
) -> Comparison:
    """Measure an environment of ours, as `jaxrl.bench.measure` does, and a peer's version of it alternately.

    Raises:
        ImportError: The peer is not installed; the message has the command that installs it.
        ValueError: The peer has no such environment, or a count is not positive.
    """
    programs: dict[str, Program] = {"jaxrl": ours(env_id, num_envs, steps, reset)}
    if against is not None:
        if against not in PEERS:
            raise ValueError(f"against must be one of {', '.join(PEERS)}, got {against!r}.")
        programs[against] = PEERS[against](env_id, num_envs, steps)
    found = measure_in_turn(programs, num_envs * steps, repeats)
    our, peer = found["jaxrl"], found[against] if against else None
    ratio = statistics.median(a / b for a, b in zip(our.runs, peer.runs, strict=True)) if peer else None
    about = device(), versions(*([against] if against else []))
    return Comparison(env_id, num_envs, steps, reset, our, peer, ratio, *about)


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


def main() -> None:
    """Compare one environment, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("env")
    parser.add_argument("--against", choices=list(PEERS), required=True)
    parser.add_argument("--num-envs", type=int, default=1024)
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--steps", type=int, default=100)
    given = parser.parse_args()
    print(compare(given.env, given.num_envs, given.against, steps=given.steps, repeats=given.repeats))


if __name__ == "__main__":
    main()
