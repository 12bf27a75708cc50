"""`jaxrl search`."""

from __future__ import annotations

import dataclasses
import shlex
import sys
from pathlib import Path
from typing import Any, Literal

from jaxrl import algos
from jaxrl.cli import EXIT_STOPPED, last_words
from jaxrl.cli.algorithm import named_algorithm
from jaxrl.cli.cache import use_cache
from jaxrl.cli.cores import use_cores
from jaxrl.cli.flags import RecordFlags, TrustFlags
from jaxrl.cli.sweep import MANY_VALUES, read_space, value_text
from jaxrl.cli.train import new_run_dir
from jaxrl.train.folder.typable import typable

__all__ = ["main", "outcome"]

_USAGE = f"""\
usage: jaxrl search ALGO --env ID [--method METHOD] [--budget RUNS] [flags]

ALGO is {{names}}, or a file such as ./my_ppo.py.
METHOD is random (the default), grid, halving, pbt or optuna. The best point is retrained on other seeds at the end.
{MANY_VALUES}
`jaxrl search ALGO --help` lists all flags.
"""


@dataclasses.dataclass(frozen=True)
class SearchFlags(RecordFlags, TrustFlags):
    """How to run the search."""

    preset: str | None = None
    """Named defaults of the algorithm, which the other flags override; left out, those that suit --env best."""
    method: Literal["random", "grid", "halving", "pbt", "optuna"] = "random"
    """Search method; pbt and optuna adapt as they go, halving ends bad points early."""
    budget: int = 16
    """Environment steps for the search, in full runs, each with every tuning seed; the same for all methods."""
    tuning_seeds: int = 3
    """Number of seeds to choose by, starting at seed."""
    test_seeds: int = 5
    """Number of seeds to train the best point with at the end, starting after the last tuning seed."""
    max_members: int | None = None
    """Members to train at the same time; left out, all that share a program."""
    run_dir: Path | None = None
    """Output folder; a new one under runs/ if left out. A folder with this search, unfinished, is continued."""


def main(argv: list[str]) -> int:
    """`jaxrl search ALGO …`; returns the exit code."""
    name = named_algorithm(argv, "search", _USAGE)
    if name is None:
        return 0
    module = algos.load(name)
    config, flags, space = read_space(name, module, argv[1:], SearchFlags(), "search")
    if not space:
        raise ValueError("Say what to search: give a flag a range or several values, e.g. --lr 1e-5:1e-1:log.")
    run_dir = flags.run_dir or new_run_dir(f"search-{Path(name).stem}", config.env)
    options = {k: v for k, v in vars(flags).items() if k not in ("preset", "run_dir", "trust")}
    use_cache()
    use_cores()
    from jaxrl.tuning.search import search

    result = search(module, config, run_dir, **options, **space)
    if result.stopped:
        given = argv if flags.run_dir else [*argv, "--run-dir", str(run_dir)]
        last_words(f"Stopped by {result.stopped}; continue with: jaxrl search {shlex.join(given)}", sys.stderr)
        return EXIT_STOPPED
    if not flags.quiet:
        last_words(outcome(result, run_dir))
    return 0


def outcome(result: Any, run_dir: Path) -> str:
    """The best point, its scores on the test seeds, and what to type next."""
    from jaxrl import stats
    from jaxrl.train.metrics import metric_of

    metric = metric_of(result.test)
    scores = result.test[metric]
    scores = scores if isinstance(scores, list) else [scores]
    diverged = result.test.get("diverged", ())
    scores = [score for seed, score in enumerate(scores) if seed not in diverged]
    without = f", without {len(diverged)} that diverged" if diverged else ""
    name = "win rate" if metric == "win_rate" else "return"
    best = ", ".join(f"{name}={value_text(value)}" for name, value in result.best.items())
    changing = ", the last of a lineage" if result.lineage else ""
    return (
        f"Best: {best}{changing}\n"
        f"On {len(scores)} test seeds{without}: {name} {stats.iqm(scores):.4g} (IQM), "
        f"{min(scores):.4g} to {max(scores):.4g}\n\n"
        f"In {run_dir}: checklist.json, tuning/, test/\nNext:\n  jaxrl report {typable(run_dir)}"
    )
