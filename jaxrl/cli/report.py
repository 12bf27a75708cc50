"""`jaxrl report`: compare runs."""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path
from typing import Literal

import tyro

from jaxrl.cli import EXIT_WRONG_INPUT
from jaxrl.cli.cache import use_cache
from jaxrl.cli.cores import use_cores
from jaxrl.cli.out import check_folder

__all__ = ["main"]


@dataclasses.dataclass(frozen=True)
class ReportFlags:
    """Compare runs: curves, tables and one HTML page, with intervals over seeds."""

    runs: tyro.conf.Positional[tuple[Path, ...]] = ()
    """Folders of runs (with one or several seeds), sweeps or searches; the latest run in runs/ if left out."""
    out: Path = Path("report")
    """Where to write report.html, curves.png, profiles.png, effects.png, table.md and table.csv."""
    metric: Literal["win_rate", "return_mean", "length_mean"] | None = None
    """Metric to compare; left out, the win rate if all runs on an environment have one, otherwise the return."""
    arena: bool = False
    """Let the runs play each other in the environment of the first one, and show who beats whom; see jaxrl arena."""
    trust: bool = False
    """For the arena, execute the modules that the runs name, although they are not part of jaxrl and not made here."""
    check: bool = False
    """Write nothing and fail if a group has fewer than 5 seeds, a seed counts twice or was tuned on, the best of more
    than 3 configurations is judged on the seeds it was chosen by, a run has no final score or was made with uncommitted
    changes, a sweep has not ended, or runs on an environment differ in seeds, steps, --eval-episodes, --on-nan,
    versions or git commit."""


def main(argv: list[str]) -> int:
    """`jaxrl report [RUN…]`; returns the exit code."""
    flags = tyro.cli(ReportFlags, args=argv, prog="jaxrl report")
    check_folder(flags.out)
    from jaxrl.report import collect, markdown, problems, summarise, write_report
    from jaxrl.train.folder.disk import writing
    from jaxrl.train.folder.run_folder import latest_run

    groups = collect(flags.runs or [latest_run()], flags.metric)
    found = problems(groups)
    for sentence in found:
        print(f"jaxrl: {sentence}" if flags.check else f"! {sentence}", file=sys.stderr)
    if flags.check and found:
        return EXIT_WRONG_INPUT
    arena = None
    if flags.arena:
        use_cores()
        use_cache()
        from jaxrl.report.arena import between_runs

        folders = list(dict.fromkeys(path for group in groups for path in group.runs))
        arena = between_runs(folders, trust=flags.trust, told=lambda line: print(line, flush=True))
    with writing(flags.out):
        page, *others = write_report(groups, flags.out, arena)
    print(markdown(summarise(groups)))
    print(f"Wrote {page}, {', '.join(path.name for path in others)}")
    return 0
