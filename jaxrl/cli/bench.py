"""`jaxrl bench`: environment steps per second."""

from __future__ import annotations

import dataclasses
from typing import Literal

import tyro

from jaxrl.cli.numbers import WHOLE

__all__ = ["main"]


@dataclasses.dataclass(frozen=True)
class BenchFlags:
    """Measure environment steps per second with random actions."""

    env: tyro.conf.Positional[str]
    """Environment; `jaxrl envs` lists them."""
    num_envs: int = 1024
    """Environments in parallel."""
    against: Literal["jaxmarl", "gymnax", "envpool"] | None = None
    """Also measure this library's version of the environment, and print the ratio."""
    steps: int = 100
    """Steps of each environment per repeat."""
    repeats: int = 7
    """Number of measurements; the median counts."""
    reset: Literal["fresh", "pool"] = "fresh"
    """Start of new episodes; see `VectorEnv`."""
    as_json: bool = False
    """Print all measurements as JSON."""


def main(argv: list[str]) -> int:
    """`jaxrl bench ENV`; returns the exit code."""
    flags = tyro.cli(BenchFlags, args=argv, prog="jaxrl bench", registry=WHOLE)
    from jaxrl.bench import compare
    from jaxrl.train.folder.json_file import to_json

    found = compare(
        flags.env,
        flags.num_envs,
        against=flags.against,
        steps=flags.steps,
        repeats=flags.repeats,
        reset=flags.reset,
    )
    if flags.as_json:
        print(to_json(dataclasses.asdict(found), indent=2))
        return 0
    print(f"{found.env}, {found.num_envs} environments, random actions, on {found.device}")
    for measured in filter(None, (found.ours, found.peer)):
        compiled = f"   compiled in {measured.compile_seconds:.1f} s" if measured.compile_seconds else ""
        print(f"  {measured.library:<8} {measured.steps_per_second:>13,.0f} steps/s{compiled}")
    if found.peer is not None:
        print(f"  jaxrl makes {found.ratio:.1f} times the steps per second of {found.peer.library}")
    return 0
