"""`jaxrl rerun`: train a run again and compare the curves."""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path

import tyro

from jaxrl.cli import EXIT_FAILED
from jaxrl.cli.cache import use_cache
from jaxrl.cli.cores import use_cores
from jaxrl.cli.train import new_run_dir, stopped_by
from jaxrl.errors import DivergedError

__all__ = ["rerun_run"]


@dataclasses.dataclass(frozen=True)
class RerunFlags:
    """Train a run again from its run.json: the same curve, bit for bit, on the same devices and versions."""

    run: tyro.conf.Positional[Path | None] = None
    """The run folder; the latest one in runs/ if left out."""
    run_dir: Path | None = None
    """Output folder; a new one under runs/ if left out."""
    quiet: bool = False
    """Show nothing during training."""
    trust: bool = False
    """Execute the module that the run names, although it is not part of jaxrl and the run was not made here."""


def rerun_run(argv: list[str]) -> int:
    """`jaxrl rerun [RUN]`; returns the exit code: 1 if the numbers differ."""
    flags = tyro.cli(RerunFlags, args=argv, prog="jaxrl rerun")
    use_cache()
    use_cores()
    from jaxrl.train.folder.load import load
    from jaxrl.train.rerun import compare_rows, rerun, warnings_for

    run = load(flags.run, trust=flags.trust)
    run_dir = flags.run_dir or new_run_dir(f"rerun-{run.about['algorithm']}", run.config.env)
    for sentence in warnings_for(run.about):
        print(f"Not the same as then: {sentence}", file=sys.stderr)
    try:
        interrupted = rerun(run, run_dir, flags.quiet).interrupted
    except DivergedError as error:
        if run.about["status"] != "diverged":
            raise
        print(f"It diverges again: {error}", file=sys.stderr)
        interrupted = None
    if interrupted:
        return stopped_by(interrupted, run_dir)
    before, after = run.folder.metrics.read(), type(run.folder)(run_dir).metrics.read()
    found = compare_rows(before, after)
    if found.first is not None:
        print(f"Not reproduced: the curves differ from step {found.first:,} on, in {', '.join(found.fields)}.")
        return EXIT_FAILED
    if not found.same:
        print(f"There is nothing to compare: {run.folder.path} has no row of metrics.")
        return EXIT_FAILED
    rest = (
        f"; the other {abs(len(before) - len(after))} are in one of the runs only" if len(before) != len(after) else ""
    )
    print(f"Reproduced: {found.rows} rows of metrics are the same, bit for bit{rest}.")
    return 0
