"""`jaxrl resume`: go on with a run, or make it longer."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro

from jaxrl.cli.cache import use_cache
from jaxrl.cli.cores import use_cores
from jaxrl.cli.hosts import HostFlags, joined
from jaxrl.cli.numbers import WHOLE
from jaxrl.cli.train import train
from jaxrl.train.folder.load import Run, load

__all__ = ["resume"]


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
    from jaxrl.train.folder.continuation import ended, goal_reached, is_finished
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
        print(ended(run.folder))
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
