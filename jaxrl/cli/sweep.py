"""`jaxrl sweep`."""

from __future__ import annotations

import dataclasses
import re
import shlex
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from jaxrl import algos
from jaxrl.cli import EXIT_STOPPED, last_words
from jaxrl.cli.algorithm import named_algorithm
from jaxrl.cli.cache import use_cache
from jaxrl.cli.cores import use_cores
from jaxrl.cli.flags import LoggerFlags, MeshFlags, RecordFlags, StartFlags
from jaxrl.cli.numbers import apart
from jaxrl.cli.train import new_run_dir, parse_flags
from jaxrl.display import right_aligned
from jaxrl.train.folder.typable import typable

__all__ = ["MANY_VALUES", "main", "read_space", "value_text"]

MANY_VALUES = """\
Flags of the algorithm take several values:
  --lr 1e-4 3e-4 1e-3         values
  --ent-coef 1e-4:1e-1:log    a range (without :log its numbers are uniform, not their logarithms)
  --hidden 64,64 128,128      values that are lists are written with commas, lists of one as 64, 128,
  --anneal-lr True False      switches can be tried both ways"""

_USAGE = f"""\
usage: jaxrl sweep ALGO --env ID [flags]

ALGO is {{names}}, or a file such as ./my_ppo.py.
All combinations are trained, with --samples draws from each range.
{MANY_VALUES}
`jaxrl sweep ALGO --help` lists all flags.
"""

_TEXTS = ("env", "params", "network", "policies", "policy_hyperparams")  # in which a comma separates nothing
_RANGE = re.compile(r"([-+\d.e]+):([-+\d.e]+)(:log)?", re.IGNORECASE)


@dataclasses.dataclass(frozen=True)
class SweepFlags(RecordFlags, StartFlags, LoggerFlags):
    """How to run the sweep."""

    preset: str | None = None
    """Named defaults of the algorithm, which the other flags override; left out, those that suit --env best."""
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


def main(argv: list[str]) -> int:
    """`jaxrl sweep ALGO …`; returns the exit code."""
    name = named_algorithm(argv, "sweep", _USAGE)
    if name is None:
        return 0
    module = algos.load(name)
    config, flags, space = read_space(name, module, argv[1:], SweepFlags(), "sweep")
    if not space and flags.num_seeds == 1:
        print("Nothing varies: give a flag several values, such as --lr 1e-4 3e-4, or --num-seeds.", file=sys.stderr)
    run_dir = flags.run_dir or new_run_dir(f"sweep-{Path(name).stem}", config.env)
    apart = ("preset", "num_seeds", "run_dir", "logger_names", "logger_per_seed", "trust")
    options = {k: v for k, v in vars(flags).items() if k not in apart and not k.startswith("init_")}
    options["init_from"] = flags.chosen_start()
    options["logger"] = flags.chosen_logger()
    options["mesh"] = (flags.mesh.member, flags.mesh.data)
    use_cache()
    use_cores()
    from jaxrl.tuning.sweep import sweep

    result = sweep(module, config, run_dir, seeds=flags.num_seeds, **options, **space)
    if result.stopped:
        given = argv if flags.run_dir else [*argv, "--run-dir", str(run_dir)]
        last_words(f"Stopped by {result.stopped}; continue with: jaxrl sweep {shlex.join(given)}", sys.stderr)
        return EXIT_STOPPED
    if not flags.quiet:
        last_words(summary(result.table, list(space)))
        last_words(f"\nIn {run_dir}: sweep.json, group-*/\nNext:\n  jaxrl report {typable(run_dir)}")
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
        cells = [value_text(rows[0][name]) for name in names]
        cells += [f"{np.mean(scores):.4g}", f"{min(scores):.4g} to {max(scores):.4g}"] if scores else ["–", "–"]
        cells += [str(len(rows)), str(sum(row["diverged"] for row in rows) or "–")]
        lines.append((envs.index(env), -np.mean(scores) if scores else np.inf, cells))
    ranked = [cells for *_, cells in sorted(lines, key=lambda line: line[:2])]
    known = [name for name, some in (("win rate", winners), ("return", set(envs) - winners)) if some]
    rows = [[*names, " or ".join(known), "of seeds", "seeds", "diverged"], *ranked]
    return "\n".join(right_aligned(rows))


def value_text(value: Any) -> str:
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
