"""`jaxrl report` and `jaxrl arena`: compare runs, and let them play each other."""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path

import tyro

from jaxrl.cli import EXIT_WRONG_INPUT
from jaxrl.cli.common import WHOLE, check_folder, use_cache, use_cores
from jaxrl.config import as_seed

__all__ = ["arena", "report"]


@dataclasses.dataclass(frozen=True)
class ReportFlags:
    """Compare runs: curves, tables and one HTML page, with intervals over seeds."""

    runs: tyro.conf.Positional[tuple[Path, ...]] = ()
    """Folders of runs (with one or several seeds), sweeps or searches; the latest run in runs/ if left out."""
    out: Path = Path("report")
    """Where to write report.html, curves.png, profiles.png, effects.png, levels.png, table.md and table.csv."""
    metric: str | None = None
    """Metric to compare: win_rate, return_mean, length_mean or a number of --log-info; left out, the win rate if all
    runs on an environment have one, otherwise the return."""
    latex: bool = False
    """Write table.tex, too."""
    arena: bool = False
    """Let the runs play each other in the environment of the first one, and show who beats whom; see jaxrl arena."""
    trust: bool = False
    """For the arena, execute the modules that the runs name, although they are not part of jaxrl and not made here."""
    check: bool = False
    """Write nothing and fail if a group has fewer than 5 seeds, a seed counts twice or was tuned on, the best of more
    than 3 configurations is judged on the seeds it was chosen by, a run has no final score or was made with uncommitted
    changes, a sweep has not ended, or runs on an environment differ in seeds, steps, --eval-episodes, --on-nan,
    versions or git commit."""


def report(argv: list[str]) -> int:
    """`jaxrl report [RUN…]`; returns the exit code."""
    flags = tyro.cli(ReportFlags, args=argv, prog="jaxrl report")
    check_folder(flags.out)
    from jaxrl.errors import printable
    from jaxrl.report import collect, markdown, problems, summarise, write_report
    from jaxrl.train.folder.disk import writing
    from jaxrl.train.folder.run_folder import latest_run

    groups = collect(flags.runs or [latest_run()], flags.metric)
    found = problems(groups)
    for sentence in map(printable, found):
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
        page, *others = write_report(groups, flags.out, arena, tex=flags.latex)
    print(markdown(summarise(groups)))
    print(f"Wrote {page}, {', '.join(path.name for path in others)}")
    return 0


@dataclasses.dataclass(frozen=True)
class ArenaFlags:
    """Let the policies of runs play each other, each pair on both sides: scores, Elo ratings and a picture. In an
    environment with two teams they are opponents; in one with a single team they share it.
    """

    runs: tyro.conf.Positional[tuple[str, ...]]
    """Run folders, each seed of which takes part, and "scripted" for the environment's own script. RUN:2 is the seed
    with index 2."""
    env: str | None = None
    """The environment to play in; left out, the one that the first run was trained in. Battles of SMAX have two teams
    with mode=selfplay, such as --env "smax/3m?mode=selfplay"."""
    games: int = 512
    """Games of each ordered pair."""
    greedy: bool = False
    """Take the most likely actions, instead of drawing them as in training."""
    seed: int = 0
    """Seed of all games."""
    out: Path = Path("arena")
    """Where to write arena.png, arena.md and arena.json."""
    trust: bool = False
    """Execute the modules that the runs name, although they are not part of jaxrl and the runs were not made here."""


def arena(argv: list[str]) -> int:
    """`jaxrl arena RUN…`; returns the exit code."""
    flags = tyro.cli(ArenaFlags, args=argv, prog="jaxrl arena", registry=WHOLE)
    as_seed("--seed", flags.seed)
    if flags.games < 1:
        raise ValueError(f"--games must be at least 1, got {flags.games}.")
    check_folder(flags.out)
    use_cores()
    use_cache()
    from jaxrl.report.arena import as_markdown, between_runs, draw_matrix, facts
    from jaxrl.train.folder.disk import writing
    from jaxrl.train.folder.json_file import to_json
    from jaxrl.wrappers.players import SCRIPTED

    folders = [name for name in flags.runs if name != SCRIPTED]
    if not folders:
        raise ValueError("Name at least one run folder, such as jaxrl arena runs/a runs/b scripted.")
    arena = between_runs(
        folders,
        flags.env,
        scripted=SCRIPTED in flags.runs,
        games=flags.games,
        greedy=flags.greedy,
        seed=flags.seed,
        trust=flags.trust,
        told=lambda line: print(line, flush=True),
    )
    text = as_markdown(arena)
    with writing(flags.out):
        flags.out.mkdir(parents=True, exist_ok=True)
        (flags.out / "arena.md").write_text(text + "\n", encoding="utf-8")
        (flags.out / "arena.json").write_text(to_json(facts(arena), indent=1) + "\n", encoding="utf-8")
        draw_matrix(arena).savefig(flags.out / "arena.png", dpi=130)
    print(f"\n{text}\n\nWrote {flags.out}/arena.png, arena.md and arena.json")
    return 0
