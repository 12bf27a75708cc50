"""`jaxrl arena`: all against all, or all with all."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import tyro

from jaxrl.cli.cache import use_cache
from jaxrl.cli.cores import use_cores
from jaxrl.cli.numbers import WHOLE
from jaxrl.cli.out import check_folder
from jaxrl.fields import as_seed

__all__ = ["main"]


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


def main(argv: list[str]) -> int:
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
