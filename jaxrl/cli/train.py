"""`jaxrl train`."""

from __future__ import annotations

import dataclasses
import datetime
import itertools
import shlex
import sys
from collections.abc import Collection
from pathlib import Path
from types import ModuleType
from typing import Annotated, Any, Literal

import tyro

from jaxrl import algos
from jaxrl.cli import EXIT_STOPPED, last_words
from jaxrl.cli.algorithm import named_algorithm
from jaxrl.cli.cache import use_cache
from jaxrl.cli.cores import has_accelerator, use_cores
from jaxrl.cli.flags import LoggerFlags, MeshFlags, RecordFlags, StartFlags
from jaxrl.cli.hosts import HostFlags, joined
from jaxrl.cli.numbers import WHOLE, apart
from jaxrl.errors import UnknownNameError, nearest
from jaxrl.fields import settled
from jaxrl.synonyms import check_synonyms
from jaxrl.train.folder.run_folder import config_to_json
from jaxrl.train.folder.typable import typable

__all__ = [
    "given_fields",
    "main",
    "new_run_dir",
    "parse_flags",
    "preset_chosen",
    "stopped_by",
    "train",
]


_USAGE = """\
usage: jaxrl train ALGO --env ID [flags]

ALGO is {names}, or a file such as ./my_ppo.py.
`jaxrl train ALGO --help` lists its flags.
"""


@dataclasses.dataclass(frozen=True)
class RunFlags(RecordFlags, StartFlags, LoggerFlags):
    """How to run the training."""

    preset: str | None = None
    """Named defaults of the algorithm, which the other flags override; left out, those that suit --env best."""
    num_seeds: int = 1
    """Seeds to train side by side; the m-th has seed + m."""
    mesh: MeshFlags = dataclasses.field(default_factory=MeshFlags)
    """Devices to use; left out, as many of the visible ones as possible."""
    run_dir: Path | None = None
    """Output folder; a new one under runs/ if left out."""
    eval_every: int | None = None
    """Updates between greedy evaluations; left out, there is one at the start and one at the end."""
    stop_at: float | None = None
    """End training when a greedy evaluation reaches this win rate (or return, where there is no win rate), averaged
    over the seeds. Without --eval-every there are then 20 evaluations."""
    keep_checkpoints: int = 3
    """How many of the newest checkpoints to keep."""
    on_nan: Literal["stop", "skip"] = "stop"
    """When losses or parameters are not finite: end training, or skip that update and continue."""
    time_split: bool = False
    """First measure how much of training is rollout and how much optimisation; compiles one more program."""
    pictures: bool = True
    """Make curve.png, replay.gif and replay.html at the end."""
    hosts: Annotated[HostFlags, tyro.conf.arg(name="")] = dataclasses.field(default_factory=HostFlags)
    """Other processes of the same run."""

    def options(self) -> dict[str, Any]:
        """The options of `fit` that they stand for, except for the folder."""
        apart = ("preset", "run_dir", "logger_names", "logger_per_seed", "hosts", "trust")
        own = {name: value for name, value in vars(self).items() if name not in apart and not name.startswith("init_")}
        mesh = (self.mesh.member, self.mesh.data)
        return {**own, "logger": self.chosen_logger(), "mesh": mesh, "init_from": self.chosen_start()}


def main(argv: list[str]) -> int:
    """`jaxrl train ALGO …`; returns the exit code."""
    name = named_algorithm(argv, "train", _USAGE)
    if name is None:
        return 0
    module = algos.load(name)
    config, flags = parse_flags(name, module, argv[1:])
    if flags.run_dir is None:
        flags = dataclasses.replace(flags, run_dir=new_run_dir(Path(name).stem, config.env))
    options = flags.options()
    config.make_env()  # reports an unknown name before anything is compiled
    if flags.preset not in (None, "default", _value_in(argv, "--preset")) and not flags.quiet:
        print(preset_chosen(flags.preset, module.PRESETS[flags.preset], config, given_fields(argv)))
    use_cache()
    use_cores()
    with joined(flags.hosts):
        _check_unfinished(config, flags.run_dir, options)
        return train(module, config, flags.run_dir, {**options, "resume": "auto"})


def _check_unfinished(config: Any, run_dir: Path, options: dict[str, Any]) -> None:
    """Raise if this command has already run to its end."""
    from jaxrl.train.devices import hosts
    from jaxrl.train.folder.continuation import check_unfinished
    from jaxrl.train.folder.same_run import wanted

    about = wanted(config, options["num_seeds"], {k: v for k, v in options.items() if k != "num_seeds"})
    hosts.on_main(lambda: check_unfinished(run_dir, config, about), OSError)


def stopped_by(cause: str, run_dir: Path | None) -> int:
    """Say how to continue a run that was interrupted, and return the exit code."""
    again = f"jaxrl resume {typable(str(run_dir))}"
    last_words(f"Stopped by {cause}; all is saved. Continue with: {again}", sys.stderr)
    return EXIT_STOPPED


def train(module: ModuleType, config: Any, run_dir: Path | None, options: dict[str, Any]) -> int:
    """Train, print the result, return the exit code."""
    from jaxrl.train.devices.hosts import is_main
    from jaxrl.train.fit import fit

    result = fit(module.make(config), config, run_dir, **options)
    if not is_main():
        return EXIT_STOPPED if result.interrupted else 0
    if result.interrupted:
        return stopped_by(result.interrupted, run_dir)
    if not options["quiet"]:
        last_words(_report(result, options["pictures"]))
    return 0


def _report(result: Any, pictures: bool) -> str:
    """The result, the files, and what to type next: no film where pictures were to be made and there is none."""
    from jaxrl.train.summary import evaluation_lines

    folder, place = result.run_dir, typable(result.run_dir)
    speed = f"{result.steps_per_second:,.0f} steps/s"
    cached = " with the cache's help" if result.compile_cached else ""
    files = ("curve.png", "replay.gif", "replay.html", "metrics.jsonl", "run.json", "checkpoints", "best")
    there = [name for name in files if (folder / name).exists()]
    filmed = not pictures or result.evaluation is None or "replay.gif" in there or "replay.html" in there
    lines = [
        f"Trained in {result.train_seconds:.1f} s at {speed} (compiled in {result.compile_seconds:.1f} s{cached}).",
        *evaluation_lines(result.evaluation),
        "",
        f"In {folder}: {', '.join(there)}",
        "Next:",
        f"  jaxrl eval {place}",
        *([f"  jaxrl render {place} --out team.gif"] if filmed else []),
    ]
    return "\n".join(lines)


def parse_flags(
    name: str,
    module: ModuleType,
    argv: list[str],
    flags: Any = RunFlags(),
    command: str = "train",
    tried: Collection[str] = (),
) -> tuple[Any, Any]:
    """Parse the algorithm's config and the command's own flags (with their defaults) from one flat list of flags.

    Without --preset, it is the one that suits the environment; `preset` of the returned flags says which.
    Values of a preset that have no effect with the other flags go back to their defaults. Flags that are `tried` with
    several values are ignored for this.
    """
    presets: dict[str, Any] = module.PRESETS
    preset = _value_in(argv, "--preset")
    if preset is not None and preset not in presets:
        raise UnknownNameError(f"{name} has no preset {preset!r}. {nearest(preset, list(presets))}")
    if preset is None:  # several environments are compared with the same settings
        env = _value_in(argv, "--env") or module.Config().env
        # A sweep fills an accelerator with its members, and a process that joins others must do so before JAX starts.
        alone = command in ("train", "plan") and "--distributed" not in argv
        preset = "default" if "env" in tried else algos.preset_for(presets, env, lambda: alone and has_accelerator())
    default = presets[preset] if preset in presets else module.Config()
    flags = dataclasses.replace(flags, preset=preset)
    config_type = Annotated[type(default), tyro.conf.arg(name="")]
    run_type = Annotated[type(flags), tyro.conf.arg(name="")]
    _check_values(argv, (default, flags))
    given = given_fields(argv)
    _check_names(name, default, flags, command)
    config_to_json(default)  # or a field that run.json cannot hold would surprise tyro
    check_synonyms(given, {field.name for each in (default, flags) for field in dataclasses.fields(each)})
    arguments = dataclasses.make_dataclass(
        "Arguments", [("config", config_type, default), ("run", run_type, flags)], frozen=True
    )
    known = ", ".join(presets)
    parsed = tyro.cli(
        arguments,
        args=argv,
        prog=f"jaxrl {command} {name}",
        description=f"{(module.__doc__ or name).strip()}\n\nPresets: {known}.",
        registry=WHOLE,
    )
    parsed.run.vouch_for(parsed.config)
    return settled(parsed.config, given - set(tried), given), parsed.run


def _check_names(name: str, config: Any, flags: Any, command: str) -> None:
    """Raise TypeError if a field of an algorithm has the name of one of the command's own flags."""
    # Those of --hosts have no prefix.
    taken = {field.name for part in (flags, HostFlags()) for field in dataclasses.fields(part)}
    for field in dataclasses.fields(config):
        if field.name in taken:
            flag = f"--{field.name.replace('_', '-')}"
            raise TypeError(
                f"{name} has a field {field.name}, and {flag} is a flag of `jaxrl {command}` itself; give the field "
                f"another name."
            )


def _check_values(argv: list[str], parts: tuple[Any, ...]) -> None:
    """Raise ValueError for an environment without its flag, a switch with True or False, and numbers with commas."""
    if argv and not argv[0].startswith("-"):
        raise ValueError(f"{argv[0]} stands without a flag; did you mean --env {shlex.quote(argv[0])}?")
    fields = [(f, getattr(part, f.name)) for part in parts for f in dataclasses.fields(part)]
    switches = {f.name for f, default in fields if isinstance(default, bool)}
    numbers = {f.name for f, _ in fields if str(f.type) in ("tuple[int, ...]", "tuple[float, ...]")}
    for word, value in itertools.pairwise([*argv, ""]):
        flag, _, joined = word.partition("=")
        field = flag.removeprefix("--").replace("-", "_")
        said = (joined or value).lower()
        if flag.startswith("--") and field in switches and said in ("true", "false"):
            meant = flag if said == "true" else f"--no-{flag[2:]}"
            raise ValueError(f"{flag} takes no value; {meant} says it.")
        if flag.startswith("--") and field in numbers and "," in said:
            raise apart(flag, said)


def preset_chosen(name: str, preset: Any, config: Any, given: Collection[str]) -> str:
    """A sentence about the preset that an environment has chosen, and which of its values have no effect there.

    Args:
        name: The name of the preset.
        preset: The preset.
        config: The config that the preset, the flags and the environment give together.
        given: The fields that flags have replaced.
    """
    fields = [field.name for field in dataclasses.fields(preset) if field.name not in {*given, "env"}]
    idle = [f"{each}={getattr(preset, each)}" for each in fields if getattr(preset, each) != getattr(config, each)]
    but = f", without {', '.join(idle)}, which would have no effect here" if idle else ""
    return f"Uses the preset {name}, which suits {config.env}{but}; --preset default takes the general defaults."


def given_fields(argv: list[str]) -> set[str]:
    """The field names of the flags on a command line; `--no-anneal-lr` gives `anneal_lr`."""
    names = [word[2:].partition("=")[0].replace("-", "_") for word in argv if word.startswith("--")]
    return {*names, *(name.removeprefix("no_") for name in names)}


def _value_in(argv: list[str], flag: str) -> str | None:
    """The last value of a flag that is needed before parsing, because the defaults of other flags depend on it."""
    value = None
    for word, following in itertools.pairwise([*argv, ""]):
        if word == flag:
            value = following
        elif word.startswith(f"{flag}="):
            value = word.partition("=")[2]
    return value or None


def new_run_dir(algo: str, env: str) -> Path:
    """A folder under runs/ that does not exist yet."""
    when = datetime.datetime.now().strftime("%Y%m%d-%H%M%S")
    readable = "".join(c if c.isalnum() or c in "-_." else "-" for c in env)
    folder = Path("runs") / f"{algo}-{readable}-{when}"
    number = 2
    while folder.exists():
        folder = folder.with_name(f"{algo}-{readable}-{when}-{number}")
        number += 1
    return folder
