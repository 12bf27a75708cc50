"""`jaxrl launch`: writes a script that runs one training on many nodes of a cluster."""

from __future__ import annotations

import dataclasses
import re
import shlex
from pathlib import Path

import tyro

from jaxrl import algos
from jaxrl.cli.common import new_run_dir
from jaxrl.cli.flags import parse_flags
from jaxrl.errors import shell_path
from jaxrl.train.folder.disk import writing

__all__ = ["LaunchFlags", "main", "slurm_script"]

_USAGE = "jaxrl launch --slurm --nodes 2 --gpus-per-node 4 -- train ippo --env smax/3m"
_COMMAND = "What to run comes after `--` and is a training."

_SCRIPT = """\
#!/bin/bash
{directives}
# One training in {processes} processes. Before the time is up each of them is sent SIGTERM: it saves and exits with 75.
# The job then goes back into the queue and continues where it was, as it does after a node has failed.
set -u
export SRUN_CPUS_PER_TASK="${{SLURM_CPUS_PER_TASK:-{cpus}}}"  # srun does not take it over from above
cd "${{SLURM_SUBMIT_DIR:-.}}"
{setup}
srun {command}
code=$?
if [ "$code" -eq 75 ]; then
    scontrol requeue "$SLURM_JOB_ID"
fi
exit "$code"
"""


@dataclasses.dataclass(frozen=True)
class LaunchFlags:
    """Write a script that submits the training after `--` to a cluster, and continues it when its time is up."""

    slurm: bool = False
    """Write the script for SLURM, the only kind so far."""
    nodes: int = 1
    """Number of machines."""
    gpus_per_node: int = 0
    """GPUs per node, with one process per GPU; 0 for one process per node, on its CPU."""
    cpus_per_task: int = 8
    """Cores per process."""
    time: str = "24:00:00"
    """Time until the job is stopped and queued again, in SLURM's form [days-]hours:minutes:seconds."""
    save_seconds: int = 120
    """Seconds before that at which the processes are told to save."""
    partition: str | None = None
    """SLURM partition."""
    account: str | None = None
    """SLURM account."""
    setup: str = ""
    """Shell command to run before training, such as 'source .venv/bin/activate'."""
    out: Path | None = None
    """Path of the script; named after the run if left out."""


def main(argv: list[str]) -> int:
    """`jaxrl launch --slurm … -- train ALGO …`; returns the exit code."""
    own, command = (argv[: argv.index("--")], argv[argv.index("--") + 1 :]) if "--" in argv else (argv, [])
    if "--" not in argv and "train" in argv:  # its flags would be unknown ones of `jaxrl launch`
        raise ValueError(f"{_COMMAND} For example: {_USAGE}")
    about = f"{LaunchFlags.__doc__}\n\nFor example: {_USAGE}"
    flags = tyro.cli(LaunchFlags, args=own, prog="jaxrl launch", description=about)
    _check(flags)
    if command[:1] != ["train"] or len(command) < 2:
        raise ValueError(f"{_COMMAND} For example: {_USAGE}")
    run_dir, command = _checked(command[1:], flags)
    script = flags.out or Path(f"{_label(run_dir.name)}.sbatch")
    text = slurm_script(command, flags, run_dir.name)
    with writing(script):
        script.parent.mkdir(parents=True, exist_ok=True)
        script.write_text(text, encoding="utf-8")
    print(f"Wrote {script}. Submit it with: sbatch {shell_path(script)}\nThe run will be in {run_dir}.")
    return 0


def slurm_script(command: list[str], flags: LaunchFlags, name: str) -> str:
    """The text of the submission script.

    Args:
        command: The command that each process runs.
        flags: The options for SLURM.
        name: The name of the job and its log; characters special to SLURM or a shell become dashes.

    Raises:
        ValueError: SLURM would misread the text of a flag.
    """
    tasks, name = max(flags.gpus_per_node, 1), _label(name)
    options = {
        "job-name": name,
        "nodes": flags.nodes,
        "ntasks-per-node": tasks,
        "gpus-per-node": flags.gpus_per_node or None,
        "cpus-per-task": flags.cpus_per_task,
        "time": flags.time,
        "signal": f"TERM@{flags.save_seconds}",
        "open-mode": "append",
        "output": f"{name}-%j.log",
        "partition": flags.partition,
        "account": flags.account,
    }
    lines = [_directive(option, value) for option, value in options.items() if value is not None]
    return _SCRIPT.format(
        directives="\n".join([*lines, "#SBATCH --requeue"]),
        processes=flags.nodes * tasks,
        setup=flags.setup,
        command=shlex.join(command),
        cpus=flags.cpus_per_task,
    )


def _directive(option: str, value: str | int) -> str:
    """A directive line for sbatch, which splits at spaces, removes quotes and backslashes and stops at a #."""
    text = str(value)
    if not text or not text.isprintable() or set(" \"'\\#") & set(text):
        raise ValueError(
            f"--{option} {text!r} is not what SLURM would read: give a name without spaces, quotes, backslashes or #."
        )
    return f"#SBATCH --{option}={text}"


def _label(name: str) -> str:
    """A name without characters special to a shell, to SLURM or to its pattern for log names, such as %."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip("-.") or "jaxrl"


def _check(flags: LaunchFlags) -> None:
    """Raise ValueError unless the flags make sense to SLURM."""
    if not flags.slurm:
        raise ValueError(f"Say for what: --slurm. Kubernetes is described in docs/hosts.md. For example: {_USAGE}")
    for field, least in (("nodes", 1), ("gpus_per_node", 0), ("cpus_per_task", 1), ("save_seconds", 1)):
        if getattr(flags, field) < least:
            raise ValueError(f"--{field.replace('_', '-')} must be at least {least}, got {getattr(flags, field)}.")
    if not re.fullmatch(r"([0-9]+-)?[0-9]+(:[0-9]+){0,2}", flags.time):
        raise ValueError(f"--time is [days-]hours:minutes:seconds, such as 24:00:00; got {flags.time!r}.")
    if 0 < (seconds := _seconds(flags.time)) <= flags.save_seconds:  # 0 is no limit
        raise ValueError(
            f"--save-seconds {flags.save_seconds} leaves no time to train in --time {flags.time}, which is {seconds} "
            f"seconds; give more time, or save later."
        )


def _seconds(time: str) -> int:
    """The seconds that SLURM reads in a time: after days come hours; alone, a number is minutes, two have seconds."""
    days, dash, clock = time.rpartition("-")
    numbers = [int(number) for number in clock.split(":")]
    units = (3600, 60, 1) if dash or len(numbers) == 3 else (60, 1)
    return int(days or 0) * 86400 + sum(n * unit for n, unit in zip(numbers, units, strict=False))


def _checked(words: list[str], flags: LaunchFlags) -> tuple[Path, list[str]]:
    """The run folder and the whole command, after checking everything in it."""
    name, *argv = words
    module = algos.load(name)
    config, run = parse_flags(name, module, argv)
    config.make_env()
    from jaxrl.train.devices.mesh import MeshShape, choose_shape

    processes = flags.nodes * max(flags.gpus_per_node, 1)
    devices = processes if flags.gpus_per_node else processes * flags.cpus_per_task
    choose_shape(config.shards, run.num_seeds, devices, MeshShape(run.mesh.member, run.mesh.data), processes)
    run_dir = run.run_dir or new_run_dir(Path(name).stem, config.env)
    # The folder is explicit so that a requeued job finds its own run.
    own = [] if run.run_dir else ["--run-dir", str(run_dir)]
    together = [] if run.hosts.distributed else ["--distributed"]
    return run_dir, ["jaxrl", "train", *words, *own, *together]
