"""`jaxrl sweep` and `jaxrl search`: many points of a configuration, and the best of them."""

from __future__ import annotations

import dataclasses
import re
import shlex
import sys
from pathlib import Path
from types import ModuleType
from typing import Any, Literal

import numpy as np

from jaxrl import algos
from jaxrl.cli import EXIT_STOPPED, last_words
from jaxrl.cli.common import apart, named_algorithm, new_run_dir, use_cache, use_cores
from jaxrl.cli.flags import BaseFlags, LoggerFlags, MeshFlags, RecordFlags, StartFlags, TrustFlags, parse_flags
from jaxrl.display import right_aligned
from jaxrl.errors import shell_path

__all__ = ["SearchFlags", "SweepFlags", "outcome", "read_space", "search", "summary", "sweep"]

_MANY_VALUES = """\
Flags of the algorithm take several values:
  --lr 1e-4 3e-4 1e-3         values
  --ent-coef 1e-4:1e-1:log    a range (without :log its numbers are uniform, not their logarithms)
  --hidden 64,64 128,128      values that are lists are written with commas, lists of one as 64, 128,
  --anneal-lr True False      switches can be tried both ways"""

_SWEEP_USAGE = f"""\
usage: jaxrl sweep ALGO --env ID [flags]

ALGO is {{names}}, or a file such as ./my_ppo.py.
All combinations are trained, with --samples draws from each range.
{_MANY_VALUES}
`jaxrl sweep ALGO --help` lists all flags.
"""

_TEXTS = (
    "env",
    "params",
    "network",
    "memory",
    "optimizer",
    "policies",
    "policy_hyperparams",
)  # in which a comma separates nothing
_RANGE = re.compile(r"([-+\d.e]+):([-+\d.e]+)(:log)?", re.IGNORECASE)


@dataclasses.dataclass(frozen=True)
class SweepFlags(RecordFlags, StartFlags, LoggerFlags, BaseFlags):
    """The sweep: seeds, samples, devices and folder."""

    num_seeds: int = 1
    """Seeds per combination; the m-th has seed + m."""
    samples: int = 8
    """Points to draw from ranges such as --ent-coef 1e-4:1e-1:log."""
    max_members: int | None = None
    """Members to train at the same time; left out, all that share a program."""
    mesh: MeshFlags = dataclasses.field(default_factory=MeshFlags)
    """Devices to use; left out, as many of the visible ones as possible."""
    run_dir: Path | None = None
    """Output folder; a new one under runs/ if left out. A folder with this sweep, unfinished, is continued."""
    eval_every: int | None = None
    """Updates between greedy evaluations; left out, there is one at the start and one at the end."""


def sweep(argv: list[str]) -> int:
    """`jaxrl sweep ALGO …`; returns the exit code."""
    name = named_algorithm(argv, "sweep", _SWEEP_USAGE)
    if name is None:
        return 0
    module = algos.load(name)
    config, flags, space = read_space(name, module, argv[1:], SweepFlags(), "sweep")
    if not space and flags.num_seeds == 1:
        print("Nothing varies: give a flag several values, such as --lr 1e-4 3e-4, or --num-seeds.", file=sys.stderr)
    run_dir = flags.run_dir or new_run_dir(f"sweep-{Path(name).stem}", config.env)
    apart = ("preset", "config", "num_seeds", "run_dir", "logger_names", "logger_per_seed", "trust")
    options = {k: v for k, v in vars(flags).items() if k not in apart and not k.startswith("init_")}
    options["init_from"] = flags.chosen_start()
    options["logger"] = flags.chosen_logger()
    options["mesh"] = (flags.mesh.member, flags.mesh.data)
    use_cache()
    use_cores()
    from jaxrl.tuning.sweep import sweep as train_all

    result = train_all(module, config, run_dir, seeds=flags.num_seeds, **options, **space)
    if result.stopped:
        given = argv if flags.run_dir else [*argv, "--run-dir", str(run_dir)]
        last_words(f"Stopped by {result.stopped}; continue with: jaxrl sweep {shlex.join(given)}", sys.stderr)
        return EXIT_STOPPED
    if not flags.quiet:
        last_words(summary(result.table, list(space)))
        last_words(f"\nIn {run_dir}: sweep.json, group-*/\nNext:\n  jaxrl report {shell_path(run_dir)}")
    return 0


def summary(table: list[dict[str, Any]], names: list[str]) -> str:
    """A line per combination, the best first: the mean over its seeds, their range, and how many diverged.

    With several environments they come one after the other, each with the win rate if it has one, else the return.
    """
    envs = list(dict.fromkeys(row.get("env") for row in table))
    winners = {row.get("env") for row in table if row.get("win_rate") is not None}
    points: dict[str, list[dict[str, Any]]] = {}
    for row in table:
        points.setdefault(repr([row[name] for name in names]), []).append(row)
    lines = []
    for rows in points.values():
        env = rows[0].get("env")
        metric = "win_rate" if env in winners else "return_mean"
        scores = [row[metric] for row in rows if row.get(metric) is not None]
        cells = [_value_text(rows[0][name]) for name in names]
        cells += [f"{np.mean(scores):.4g}", f"{min(scores):.4g} to {max(scores):.4g}"] if scores else ["–", "–"]
        cells += [str(len(rows)), str(sum(row["diverged"] for row in rows) or "–")]
        lines.append((envs.index(env), -np.mean(scores) if scores else np.inf, cells))
    ranked = [cells for *_, cells in sorted(lines, key=lambda line: line[:2])]
    known = [name for name, some in (("win rate", winners), ("return", set(envs) - winners)) if some]
    rows = [[*names, " or ".join(known), "range", "seeds", "diverged"], *ranked]
    return "\n".join(right_aligned(rows))


def _value_text(value: Any) -> str:
    """The value of a hyperparameter, floats with four digits."""
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def read_space(
    name: str, module: ModuleType, argv: list[str], default: Any, command: str
) -> tuple[Any, Any, dict[str, Any]]:
    """Parse the config, the command's own flags, and the hyperparameters given as several values or a range.

    Args:
        name: The name of the algorithm.
        module: The module of the algorithm.
        argv: The flags, as typed.
        default: The command's own flags with their defaults, a dataclass.
        command: The name of the command, for help.
    """
    defaults = {field.name: getattr(module.Config(), field.name) for field in dataclasses.fields(module.Config)}
    flags = _flags(argv)
    choices: dict[int, list[list[str]]] = {}  # by the position of the flag
    space: dict[str, Any] = {}
    for i, (flag, values) in enumerate(flags):
        field = flag.lstrip("-").replace("-", "_")
        span = _RANGE.fullmatch(values[0]) if len(values) == 1 else None
        if field not in defaults or not values:
            continue
        if span:
            space[field] = (_number(field, span[1]), _number(field, span[2]), *(["log"] if span[3] else []))
            choices[i] = [[]]
        elif isinstance(defaults[field], int | float) and any("," in value for value in values):
            raise apart(flag, *values)
        elif field not in _TEXTS and any("," in value for value in values):
            choices[i] = [[flag, *filter(None, value.split(","))] for value in values]
        elif len(values) > 1 and not isinstance(defaults[field], tuple):
            choices[i] = [_one(flag, value, defaults[field]) for value in values]
        if len(choices.get(i, ())) > 1:
            space[field] = i
    plain = [choices[i][0] if i in choices else [flag, *values] for i, (flag, values) in enumerate(flags)]

    def parse(words: list[list[str]]) -> tuple[Any, Any]:
        return parse_flags(name, module, [word for each in words for word in each], default, command, space)

    config, run = parse(plain)
    for field, i in space.items():
        if isinstance(i, int):
            tried = [parse([*plain[:i], words, *plain[i + 1 :]])[0] for words in choices[i]]
            space[field] = [getattr(each, field) for each in tried]
    return config, run, space


def _flags(argv: list[str]) -> list[tuple[str, list[str]]]:
    """The words of a command line, grouped into flags with their values."""
    flags: list[tuple[str, list[str]]] = []
    for word in argv:
        if word.startswith("--"):
            flag, equals, value = word.partition("=")
            flags.append((flag, [value] if equals else []))
        elif flags:
            flags[-1][1].append(word)
        else:
            flags.append((word, []))
    return flags


def _one(flag: str, value: str, default: Any) -> list[str]:
    """The words that set a flag to one value."""
    if isinstance(default, bool) and value.lower() in ("true", "false"):
        return [flag if value.lower() == "true" else f"--no-{flag.removeprefix('--')}"]
    return [flag, value]


def _number(field: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ValueError(f"--{field.replace('_', '-')} has a range from {text!r}, which is not a number.") from None


_SEARCH_USAGE = f"""\
usage: jaxrl search ALGO --env ID [--method METHOD] [--budget RUNS] [flags]

ALGO is {{names}}, or a file such as ./my_ppo.py.
METHOD is random (the default), grid, halving or pbt. The best point is retrained on other seeds at the end.
{_MANY_VALUES}
`jaxrl search ALGO --help` lists all flags.
"""


@dataclasses.dataclass(frozen=True)
class SearchFlags(RecordFlags, TrustFlags, BaseFlags):
    """The search: its method, budget, seeds and folder."""

    method: Literal["random", "grid", "halving", "pbt"] = "random"
    """Search method; pbt adapts as it goes, halving ends bad points early."""
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


def search(argv: list[str]) -> int:
    """`jaxrl search ALGO …`; returns the exit code."""
    name = named_algorithm(argv, "search", _SEARCH_USAGE)
    if name is None:
        return 0
    module = algos.load(name)
    config, flags, space = read_space(name, module, argv[1:], SearchFlags(), "search")
    if not space:
        raise ValueError("Say what to search: give a flag a range or several values, e.g. --lr 1e-5:1e-1:log.")
    run_dir = flags.run_dir or new_run_dir(f"search-{Path(name).stem}", config.env)
    options = {k: v for k, v in vars(flags).items() if k not in ("preset", "config", "run_dir", "trust")}
    use_cache()
    use_cores()
    from jaxrl.tuning.search import search as find

    result = find(module, config, run_dir, **options, **space)
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
    best = ", ".join(f"{name}={_value_text(value)}" for name, value in result.best.items())
    changing = ", the last of a lineage" if result.lineage else ""
    return (
        f"Best: {best}{changing}\n"
        f"On {len(scores)} test seeds{without}: {name} {stats.iqm(scores):.4g} (IQM), "
        f"{min(scores):.4g} to {max(scores):.4g}\n\n"
        f"In {run_dir}: checklist.json, tuning/, test/\nNext:\n  jaxrl report {shell_path(run_dir)}"
    )
