"""`jaxrl config`: the configuration of a run, or of an algorithm with some flags, as a file for `--config`."""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path

import tyro

from jaxrl import algos
from jaxrl.cli.config_file import as_text, of_run
from jaxrl.cli.flags import BaseFlags, TrustFlags, parse_flags
from jaxrl.train.folder.run_folder import RunFolder, config_to_json, latest_run
from jaxrl.train.folder.sources import NAMED
from jaxrl.wrappers.players import member_named

__all__ = ["ConfigFlags", "config"]


@dataclasses.dataclass(frozen=True)
class ConfigFlags(TrustFlags, BaseFlags):
    """What is written."""

    num_seeds: int = 1
    """Seeds to train side by side."""
    yaml: bool = False
    """Write YAML instead of JSON."""


@dataclasses.dataclass(frozen=True)
class _RunFlags:
    """Write the configuration of a run as a file for --config, or that of `jaxrl config ALGO --env ID [flags]`."""

    run: tyro.conf.Positional[Path | None] = None
    """The run folder, or RUN:2 for its seed with index 2; the latest run in runs/ if left out."""
    yaml: bool = False
    """Write YAML instead of JSON."""


def config(argv: list[str]) -> int:
    """`jaxrl config RUN` or `jaxrl config ALGO …`; returns the exit code."""
    name = argv[0] if argv else ""
    if name in algos.names() or name.endswith(".py"):
        made, flags = parse_flags(name, algos.load(name), argv[1:], ConfigFlags(), "config")
        made.make_env()  # refuses what training would refuse
        seeds = {"num_seeds": flags.num_seeds} if flags.num_seeds > 1 else {}
        own = {role: getattr(made, role) for role in NAMED if hasattr(made, role)}  # as typed, not as copied
        values = {"algorithm": name, **seeds, **config_to_json(made), **own}
    else:
        flags = tyro.cli(_RunFlags, args=argv, prog="jaxrl config")
        path, index = member_named(flags.run or latest_run())
        values = of_run(RunFolder.open(path).read(), index)
    sys.stdout.write(as_text(values, flags.yaml))
    return 0
