"""`jaxrl record` and `jaxrl data`: write down what a policy does, look at it, and give it to other libraries."""

from __future__ import annotations

import dataclasses
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import jax
import numpy as np
import tyro

from jaxrl.cli.common import WHOLE, check_folder, use_cache
from jaxrl.config import as_seed, as_whole
from jaxrl.errors import printable, shell_path
from jaxrl.train.folder.disk import writing

if TYPE_CHECKING:
    from jaxrl.data import Dataset

__all__ = ["data", "record_run"]

_BARS = "▁▂▃▄▅▆▇█"
_BINS = 24


@dataclasses.dataclass(frozen=True)
class RecordFlags:
    """Write the steps of a run's policy to a folder, to learn from: jaxrl train bc, or --prior-data."""

    run: tyro.conf.Positional[Path | None] = None
    """The run folder; the latest one in runs/ if left out."""
    steps: int = 100_000
    """Environment steps."""
    out: Path | None = None
    """The folder to write to; data/NAME for a run NAME if left out. Steps are added to those that are there."""
    greedy: bool = False
    """Take the most likely action, instead of one that the policy draws."""
    num_envs: int = 16
    """Environments played at once: as many episodes are cut at the end."""
    seed: int = 2_000_000
    """Seed of the episodes."""
    member: int | None = None
    """Index of the seed in a run with several; the best one if left out."""
    best: bool = False
    """Use the best checkpoint of a run with --eval-every, instead of the last."""
    trust: bool = False
    """Execute the module that the run names, although it is not part of jaxrl and the run was not made here."""


def record_run(argv: list[str]) -> int:
    """`jaxrl record [RUN] --steps N`; returns the exit code."""
    flags = tyro.cli(RecordFlags, args=argv, prog="jaxrl record", registry=WHOLE)
    as_seed("--seed", flags.seed)
    for name in ("steps", "num_envs"):
        as_whole(f"--{name.replace('_', '-')}", getattr(flags, name))
    from jaxrl.data import record
    from jaxrl.train.folder.load import load

    run = load(flags.run, best=flags.best, trust=flags.trust).member(flags.member)
    out = flags.out or Path("data") / run.folder.path.resolve().name
    check_folder(out)
    use_cache()
    origin = {
        "run": str(flags.run or run.folder.path),
        "algorithm": run.about["algorithm"],
        "trained_with_seed": run.config.seed,
        "greedy": flags.greedy,
        "seed": flags.seed,
    }

    def progress(steps: int) -> None:
        print(f"{steps:,} steps", file=sys.stderr, flush=True)

    with writing(out):
        count = record(
            run.algo,
            run.env,
            run.state,
            jax.random.key(flags.seed),
            out,
            flags.steps,
            num_envs=flags.num_envs,
            greedy=flags.greedy,
            origin=origin,
            progress=progress,
        )
    print(f"Wrote {count:,} steps to {out}. Look at them: jaxrl data {shell_path(str(out))}")
    return 0


@dataclasses.dataclass(frozen=True)
class DataFlags:
    """Say what a folder of recorded steps holds, and check that it is whole."""

    path: tyro.conf.Positional[Path]
    """The folder."""
    to: Literal["minari", "vault", "parquet"] | None = None
    """Convert it: minari for single agents, vault (of flashbax, as in OG-MARL) for teams, or parquet, a table of steps
    with a row for each agent."""
    out: str | None = None
    """With --to: the name of the Minari dataset, such as cartpole/demo-v0, a folder .vlt, or a file .parquet."""


def data(argv: list[str]) -> int:
    """`jaxrl data D`; returns the exit code."""
    flags = tyro.cli(DataFlags, args=argv, prog="jaxrl data", registry=WHOLE)
    if (flags.to is None) != (flags.out is None):
        raise ValueError("--to and --out go together, such as --to parquet --out steps.parquet.")
    from jaxrl.data import load

    found = load(flags.path)
    print("\n".join(map(printable, _described(found))))
    if flags.to and flags.out:
        from jaxrl.data.convert import CONVERTERS

        with writing(Path(flags.out)):
            print(CONVERTERS[flags.to](found, flags.out))
    return 0


def _described(found: Dataset) -> list[str]:
    """Lines about a dataset: where it comes from, what is in it, and how its episodes went."""
    shards, episodes = len(found.about["shards"]), list(found.episodes())
    size = sum(leaf.nbytes for leaf in found.steps.values()) / 1e6
    lines = [
        f"{found.path}: {found.num_steps:,} steps of {found.env} in {found.num_envs} environments, {shards} shards, "
        f"{size:.1f} MB in memory"
    ]
    lines += [f"  from {json.dumps(origin)}" for origin in found.about["origins"]]
    lines += [f"  {name} {leaf.dtype} {list(leaf.shape[2:])}" for name, leaf in found.steps.items()]

    # Of episodes that were cut, nobody knows the return.
    finished = [episode for episode in episodes if episode.finished]
    lines.append(f"  {len(finished):,} episodes, and {len(episodes) - len(finished)} that were cut")
    if finished:
        returns = np.array([episode.episode_return for episode in finished])
        lengths = np.array([len(episode.steps["reward"]) for episode in finished])
        lines.append(
            f"  return {returns.mean():.4g} ± {returns.std():.4g}, from {returns.min():.4g} {_histogram(returns)} to "
            f"{returns.max():.4g}; length {lengths.mean():.1f}"
        )
        if "won" in found.steps:
            won = np.mean([episode.steps["won"][-1] for episode in finished])
            lines.append(f"  won {won:.3f}")
    return lines


def _histogram(values: Any) -> str:
    """How often values occur, from the smallest to the largest, as a line of bars."""
    counts = np.histogram(values, _BINS)[0]
    heights = np.ceil((len(_BARS) - 1) * counts / counts.max()).astype(int)  # what occurs is seen
    return "".join(_BARS[height] for height in heights)
