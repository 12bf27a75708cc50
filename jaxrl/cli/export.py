"""`jaxrl export`: a run's metrics for other tools, or its policy for another program."""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path
from typing import Any, Literal

import tyro

from jaxrl.deploy.policy import FORMATS
from jaxrl.train.folder.disk import refuse_link, why, writing
from jaxrl.train.folder.json_lines import check_members
from jaxrl.train.folder.run_folder import RunFolder, latest_run
from jaxrl.train.folder.trust import known_class, load_code
from jaxrl.train.loggers import Logger, Names, make_logger

__all__ = ["export"]


@dataclasses.dataclass(frozen=True)
class ExportFlags:
    """Export a run's metrics to other tools (CSV files, TensorBoard or wandb, with CleanRL's names or ours), or with
    --out F.stablehlo, F.py or F.safetensors its policy to another program.
    """

    run: tyro.conf.Positional[Path | None] = None
    """The run folder; the latest one in runs/ if left out."""
    to: Literal["csv", "tensorboard", "wandb"] = "csv"
    """Output format. wandb stays offline unless you are logged in."""
    format: Names = "cleanrl"
    """Names of the metrics; the tools of Open RL Benchmark read cleanrl."""
    per_seed: bool = True
    """One file, folder or wandb run for each seed, instead of one with the mean over all of them."""
    out: Path | None = None
    """Output folder; RUN/export if left out. For the policy, a file: .stablehlo for JAX, .py for NumPy alone,
    .safetensors for the parameters."""
    member: int | None = None
    """Of a policy: index of the seed in a run with several; the best one if left out."""
    best: bool = False
    """Of a policy: use the best checkpoint of a run with --eval-every, instead of the last."""
    trust: bool = False
    """Execute the module that the run names, although it is not part of jaxrl and the run was not made here; of the
    metrics, only the learning rate needs it."""


def export(argv: list[str]) -> int:
    """`jaxrl export [RUN]`; returns the exit code."""
    flags = tyro.cli(ExportFlags, args=argv, prog="jaxrl export")
    if flags.out is not None and flags.out.suffix in FORMATS:
        _refuse(flags, ("to", "format", "per_seed"), f"a policy, as the suffix of {flags.out} says")
        return _export_policy(flags, flags.out)
    if flags.out is not None and flags.out.suffix and not flags.out.is_dir():
        raise ValueError(
            f"--out must be a folder, or end in {', '.join(FORMATS[:-1])} or {FORMATS[-1]}, got {flags.out}; if "
            f"that is to be a folder, make it first."
        )
    _refuse(
        flags, ("member", "best"), f"metrics; for the policy, give --out a file with the suffix {' or '.join(FORMATS)}"
    )
    return _export_metrics(flags)


def _export_policy(flags: ExportFlags, out: Path) -> int:
    """Write the policy into a file."""
    from jaxrl.train.folder.load import load

    policy = load(flags.run, best=flags.best, trust=flags.trust).member(flags.member).policy
    with writing(out):
        policy.export(out)
    print(f"Wrote {out}: {policy}")
    return 0


def _refuse(flags: ExportFlags, names: tuple[str, ...], what: str) -> None:
    """Raise ValueError if one of these flags was given."""
    for field in dataclasses.fields(flags):
        if field.name in names and getattr(flags, field.name) != field.default:
            raise ValueError(f"--{field.name.replace('_', '-')} has no effect on {what}.")


def _export_metrics(flags: ExportFlags) -> int:
    """Write the metrics into a folder."""
    folder = RunFolder.open(flags.run or latest_run())
    rows = folder.metrics.read()
    if not rows:
        raise ValueError(f"{folder.path} has no metrics yet.")
    out = flags.out or refuse_link(folder.path / "export")
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise FileExistsError(f"{out} has something in it already; name another place with --out.")
    about, evaluations = folder.read(), folder.evaluations.read()
    check_members(folder.metrics.path, rows, about["num_seeds"])
    check_members(folder.evaluations.path, evaluations, about["num_seeds"])
    if flags.format == "cleanrl":
        _load_config(about, folder.path, flags.trust)
    logger = _logger(flags)
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OSError(f"{out} cannot be made: {why(error, out)}. Name another place with --out.") from error
    logger.open(about, out, print)
    events = [(row["timesteps"], 0, row) for row in rows]
    events += [(row["timesteps"], 1, row) for row in evaluations]
    for _, is_evaluation, row in sorted(events, key=lambda event: event[:2]):
        (logger.evaluation if is_evaluation else logger.row)(row)
    logger.close(about)
    print(f"Wrote {out}: " + ", ".join(sorted(str(path.relative_to(out)) for path in out.iterdir())))
    return 0


def _load_config(about: dict[str, Any], path: Path, trust: bool) -> None:
    """Load the config that computes the learning rate, which a run folder does not hold."""
    try:
        if known_class(about["config_class"]) is None:
            load_code(about, path, trust)
    except (ValueError, ImportError) as error:
        print(f"charts/learning_rate is left out. {error}", file=sys.stderr)


def _logger(flags: ExportFlags) -> Logger:
    if flags.to == "csv":
        from jaxrl.train.loggers.tracks import CsvLogger

        return CsvLogger(flags.format, flags.per_seed)
    return make_logger({"kind": flags.to, "names": flags.format, "per_seed": flags.per_seed})[0]
