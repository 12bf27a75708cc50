"""`jaxrl train`, `resume` and `rerun`: train, go on with a run or make it longer, and train one again to compare."""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path
from types import ModuleType
from typing import Annotated, Any, Literal

import tyro

from jaxrl import algos
from jaxrl.cli import EXIT_FAILED, EXIT_STOPPED, last_words
from jaxrl.cli.common import WHOLE, named_algorithm, new_run_dir, stopped_by, use_cache, use_cores
from jaxrl.cli.config_file import read_flag_file
from jaxrl.cli.flags import given_fields, parse_flags, preset_chosen, value_in
from jaxrl.cli.hosts import HostFlags, joined
from jaxrl.errors import DivergedError, shell_path
from jaxrl.train.folder.load import Run, load

__all__ = ["main", "rerun_run", "resume", "train"]


_USAGE = """\
usage: jaxrl train ALGO --env ID [flags]
       jaxrl train [ALGO] --config FILE [flags]

ALGO is {names}, or a file such as ./my_ppo.py.
FILE holds flags in YAML or JSON, perhaps with a line `algorithm: ALGO`; it may be the folder of a run.
`jaxrl train ALGO --help` lists its flags.
"""


def main(argv: list[str]) -> int:
    """`jaxrl train ALGO …`; returns the exit code."""
    given = given_fields(argv)
    file = read_flag_file(value_in(argv, "--config"), given)
    if file.algorithm and argv[0].startswith("-"):
        argv = [file.algorithm, *argv]
    name = named_algorithm(argv, "train", _USAGE)
    if name is None:
        return 0
    # Everything that can be wrong is said before JAX compiles, or other processes are joined.
    module = algos.load(name)
    config, flags = parse_flags(name, module, argv[1:])
    if flags.run_dir is None:
        flags = dataclasses.replace(flags, run_dir=new_run_dir(Path(name).stem, config.env))
    options = flags.options()
    config.make_env()  # reports an unknown name before anything is compiled
    given |= file.values.keys()
    left = {field.name for field in dataclasses.fields(config)} - given
    if left and "preset" not in given and flags.preset not in (None, "default") and not flags.quiet:
        print(preset_chosen(flags.preset, module.PRESETS[flags.preset], config, given))

    # A scheduler may repeat a command that has done its work.
    use_cache()
    use_cores()
    with joined(flags.hosts):
        if not _left_to_do(config, flags.run_dir, options):
            return _finished(flags.run_dir, flags.pictures)
        return train(module, config, flags.run_dir, {**options, "resume": "auto"})


def _left_to_do(config: Any, run_dir: Path, options: dict[str, Any]) -> bool:
    """True unless this command has trained to its end before."""
    from jaxrl.train.devices import hosts
    from jaxrl.train.folder.continuation import left_to_do
    from jaxrl.train.folder.same_run import wanted

    about = wanted(config, options["num_seeds"], {k: v for k, v in options.items() if k != "num_seeds"})
    return bool(hosts.main_says(hosts.on_main(lambda: left_to_do(run_dir, config, about), OSError)))


def _finished(run_dir: Path, pictures: bool) -> int:
    """Draw what is missing of a finished run's pictures, and say that it is finished; returns the exit code.

    A scheduler may repeat a command whose process has died at the very end.
    """
    from jaxrl.train.devices.hosts import is_main
    from jaxrl.train.folder.continuation import finished_message
    from jaxrl.train.folder.load import load
    from jaxrl.train.folder.run_folder import RunFolder
    from jaxrl.train.pictures import PICTURES, save_pictures, title_of

    if not is_main():
        return 0
    missing = [name for name in PICTURES if pictures and not (run_dir / name).exists()]
    if missing:
        run = load(run_dir)
        save_pictures(run.folder, run.algo, run.env, run.member().state, title_of(run.about), print, missing)
    print(f"{finished_message(RunFolder(run_dir))} To train again name another folder with --run-dir.")
    return 0


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
    from jaxrl.train.result import evaluation_lines

    folder, place = result.run_dir, shell_path(result.run_dir)
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


@dataclasses.dataclass(frozen=True)
class ResumeFlags:
    """Continue a run that was stopped, exactly where its newest good checkpoint was saved, or make a run longer."""

    run: tyro.conf.Positional[Path | None] = None
    """The run folder; the latest one in runs/ if left out."""
    total_timesteps: int | None = None
    """Environment steps in total, to make the run longer. A goal that it has reached no longer ends it."""
    stop_at: float | None = None
    """Another goal, see `jaxrl train`; unchanged if left out."""
    on_nan: Literal["stop", "skip"] | None = None
    """When losses or parameters are not finite: end training, or skip that update; unchanged if left out."""
    quiet: bool = False
    """Show nothing during training."""
    trust: bool = False
    """Execute the module that the run names, although it is not part of jaxrl and the run was not made here."""
    hosts: Annotated[HostFlags, tyro.conf.arg(name="")] = dataclasses.field(default_factory=HostFlags)
    """Other processes of the same run."""


def resume(argv: list[str]) -> int:
    """`jaxrl resume [RUN]`; returns the exit code."""
    flags = tyro.cli(ResumeFlags, args=argv, prog="jaxrl resume", registry=WHOLE)
    from jaxrl.train.folder.continuation import finished_message, goal_reached, is_finished
    from jaxrl.train.intervals import checks_of_goal
    from jaxrl.train.rerun import repeated

    run = load(flags.run, trust=flags.trust)
    config = run.config if flags.total_timesteps is None else _longer(run, flags.total_timesteps)
    options = {**repeated(run), "quiet": flags.quiet, "resume": True}
    if flags.total_timesteps is not None and goal_reached(run.about, options):
        options |= {"stop_at": None, "eval_every": options["eval_every"] or checks_of_goal(config.num_updates)}
    given = {"on_nan": flags.on_nan, "stop_at": flags.stop_at}
    options |= {name: value for name, value in given.items() if value is not None}
    if is_finished(run.about, config, options):
        print(finished_message(run.folder))
        return 0
    use_cache()
    use_cores()
    with joined(flags.hosts):
        return train(run.module, config, run.folder.path, options)


def _longer(run: Run, total_timesteps: int) -> Any:
    """The config of a run that is made longer.

    Raises:
        ValueError: It is that long already, or it cannot be made longer.
    """
    before = getattr(run.config, "total_timesteps", None)
    if before is None or "segment" in run.about:
        why = "its configuration has no total_timesteps" if before is None else "it is part of a search"
        raise ValueError(f"The run in {run.folder.path} cannot be made longer: {why}.")
    if total_timesteps < before:
        raise ValueError(
            f"The run in {run.folder.path} has total_timesteps={before} and can only be made longer, got "
            f"--total-timesteps {total_timesteps}."
        )
    return dataclasses.replace(run.config, total_timesteps=total_timesteps)


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
