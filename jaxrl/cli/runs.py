"""`jaxrl eval` and `jaxrl render`: evaluate and film the policy of a run."""

from __future__ import annotations

import dataclasses
import functools
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jax
import tyro

from jaxrl.cli.common import WHOLE, check_film, check_folder, use_cache
from jaxrl.config import as_seed, as_whole
from jaxrl.errors import MissingExtraError
from jaxrl.train.folder.load import Run, load
from jaxrl.train.start import in_env

if TYPE_CHECKING:
    from jaxrl.train.evaluate import Evaluation

__all__ = ["evaluate_run", "play", "render_run"]


@dataclasses.dataclass(frozen=True)
class EvalFlags:
    """Play episodes with the policy of a run."""

    run: tyro.conf.Positional[Path | None] = None
    """The run folder; the latest one in runs/ if left out."""
    env: str | None = None
    """Play in this environment instead of the run's own. Networks of entities fit battles of any size."""
    episodes: int = 512
    """Number of episodes."""
    seed: int = 1_000_000
    """Seed of the episodes."""
    greedy: bool = True
    """Take the most likely action; --no-greedy samples, as --levels does by default."""
    levels: Path | None = None
    """Play each level of this set (see jaxrl levels make) --tries times in each of two evaluations, and show the mean
    result on the worst of them: a worst-alpha curve. Writes levels-NAME.json, .csv and .png, for a set NAME.npz."""
    tries: int = 10
    """With --levels: episodes of each level in each evaluation."""
    out: Path | None = None
    """With --levels: the folder to write to; the run's if left out, where jaxrl report finds the results."""
    log_info: tuple[str, ...] | None = None
    """Names of numbers in the environment's info: their means at the end of episodes; those of the run if left out."""
    best: bool = False
    """Use the best checkpoint of a run with --eval-every, instead of the last."""
    trust: bool = False
    """Execute the module that the run names, although it is not part of jaxrl and the run was not made here."""


def evaluate_run(argv: list[str]) -> int:
    """`jaxrl eval [RUN]`; returns the exit code."""
    flags = tyro.cli(EvalFlags, args=argv, prog="jaxrl eval", registry=WHOLE)
    as_seed("--seed", flags.seed)
    if flags.levels is not None:
        return _eval_levels(flags, flags.levels, greedy="--greedy" in argv)
    if (flags.tries, flags.out) != (EvalFlags.tries, EvalFlags.out):
        raise ValueError("--tries and --out belong to --levels SET.npz; add that, or leave them out.")
    from jaxrl.train.result import evaluation_lines

    run = load(flags.run, best=flags.best, trust=flags.trust)
    run = in_env(run, flags.env) if flags.env else run
    use_cache()
    log_info = getattr(run.config, "log_info", ()) if flags.log_info is None else flags.log_info
    played = play(run, flags.episodes, flags.seed, flags.greedy, log_info)
    kind = "greedy" if flags.greedy else "sampled"
    whose = flags.run or run.folder.path
    print(f"{whose}: {run.about['algorithm']} on {run.config.env}, {flags.episodes} {kind} episodes")
    print("\n".join(evaluation_lines(played.summary())))
    if warning := played.warning():
        print(warning)
    return 0


def play(
    run: Run,
    episodes: int = 512,
    seed: int = EvalFlags.seed,
    greedy: bool = True,
    log_info: tuple[str, ...] = (),
) -> Evaluation:
    """E episodes with the policy of a run, or with each of its M seeds: leaves `[E]`, or `[M, E]`, on the host."""
    from jaxrl.train.evaluate import evaluate
    from jaxrl.train.programs import member_keys

    def one(state: Any, key: jax.Array) -> Evaluation:
        return evaluate(run.algo, run.env, state, key, episodes, greedy=greedy, log_info=log_info)

    keys = member_keys(seed + (run.index or 0), run.num_members)  # a seed plays the same alone and among the others
    return jax.device_get((jax.vmap(one) if run.num_members > 1 else one)(run.state, keys))


def _eval_levels(flags: EvalFlags, levels: Path, greedy: bool) -> int:
    """`jaxrl eval RUN --levels SET`, with sampled actions unless `greedy`; returns the exit code."""
    as_whole("--tries", flags.tries)
    if (flags.episodes, flags.log_info) != (EvalFlags.episodes, EvalFlags.log_info):
        raise ValueError(
            "--episodes and --log-info have no effect with --levels, which plays each level --tries times."
        )
    from jaxrl.display import right_aligned
    from jaxrl.levels.level_set import LevelSet
    from jaxrl.report.levels import draw_worst, mean_text
    from jaxrl.report.tables import number
    from jaxrl.train.folder.disk import refuse_link, writing
    from jaxrl.train.level_results import play_levels

    run = load(flags.run, best=flags.best, trust=flags.trust)
    run = in_env(run, flags.env) if flags.env else run
    found = LevelSet.load(levels, run.env)
    out = flags.out or run.folder.path
    check_folder(out)
    use_cache()
    note = functools.partial(print, file=sys.stderr, flush=True)
    played = play_levels(run, found, flags.tries, flags.seed, greedy, note)
    results = dataclasses.replace(played, levels=levels.name, best=flags.best)
    print(f"{flags.run or run.folder.path}: {run.about['algorithm']} on {run.config.env}, {results.protocol}")
    rows = [["worst", "levels", results.measure, *(f"seed {seed}" for seed in results.seeds)]]
    for row in results.curve():
        own = map(number, row["by_seed"])
        rows.append([f"{100 * row['alpha']:g} %", str(row["levels"]), mean_text(row), *own])
    print("\n".join(f"  {line}" for line in right_aligned(rows)))
    if cut := results.unfinished:
        print(f"{cut:,} episodes had no end and were cut; they count as lost, or with their returns so far.")
    with writing(out):
        out.mkdir(parents=True, exist_ok=True)
        paths = results.write(out, levels.stem)
        name, picture = run.about["algorithm"], refuse_link(out / f"levels-{levels.stem}.png")
        try:
            draw_worst([{name: results}], {name: {"color": "#1f5fa8"}}).savefig(picture, dpi=130)
            paths.append(picture)
        except MissingExtraError as error:
            print(f"No {picture.name}: {error}")
    print(f"Wrote {', '.join(map(str, paths))}")
    return 0


_MOST_EPISODES = 100  # of a film: more would be too small to see


@dataclasses.dataclass(frozen=True)
class RenderFlags:
    """Film greedy episodes with the policy of a run."""

    run: tyro.conf.Positional[Path | None] = None
    """The run folder; the latest one in runs/ if left out."""
    env: str | None = None
    """Film in this environment instead of the run's own; name a file by --out, too."""
    out: Path | None = None
    """Output file: .gif, .html, or .mp4 where ffmpeg is found; if left out, replay.gif in the run folder, or
    grid.gif with several episodes."""
    episodes: int = 1
    """Number of episodes; several play side by side in one .gif or .mp4."""
    seed: int = 0
    """Seed of the episode; with several, the next one has the next seed."""
    member: int | None = None
    """Index of the seed in a run with several; the best one if left out."""
    best: bool = False
    """Use the best checkpoint of a run with --eval-every, instead of the last."""
    max_steps: int | None = None
    """Steps of an episode to film at most; 1000 if left out."""
    curve: bool = False
    """Draw the curve again, curve.png in the run folder or --out, instead of a film."""
    trust: bool = False
    """Execute the module that the run names, although it is not part of jaxrl and the run was not made here."""


def render_run(argv: list[str]) -> int:
    """`jaxrl render [RUN]`; returns the exit code."""
    flags = tyro.cli(RenderFlags, args=argv, prog="jaxrl render", registry=WHOLE)
    as_seed("--seed", flags.seed)
    if flags.curve:
        return _draw_curve(flags)
    from jaxrl.render import save
    from jaxrl.replay import Recording
    from jaxrl.train.folder.disk import refuse_link, writing
    from jaxrl.train.pictures import record_episodes

    _check(flags)
    run = load(flags.run, best=flags.best, trust=flags.trust)
    run = in_env(run, flags.env) if flags.env else run
    out = flags.out or refuse_link(run.folder.path / ("replay.gif" if flags.episodes == 1 else "grid.gif"))
    use_cache()
    state = run.member(flags.member).state
    begun = Recording(run.env, jax.random.key(flags.seed))
    run.env.draw(begun.recent(0), begun.params)  # what has no picture says so before an episode is played
    replays = record_episodes(run.algo, run.env, state, flags.episodes, flags.seed, flags.max_steps)
    with writing(out):
        out.parent.mkdir(parents=True, exist_ok=True)
        save(replays if flags.episodes > 1 else replays[0], out)
    print(f"Wrote {out}")
    return 0


def _draw_curve(flags: RenderFlags) -> int:
    """Draw the curve of a run, which needs none of its code; returns the exit code."""
    from jaxrl.train.folder.disk import refuse_link, writing
    from jaxrl.train.folder.run_folder import RunFolder, latest_run
    from jaxrl.train.pictures import save_curve, title_of

    folder = RunFolder.open(flags.run or latest_run())
    out = flags.out or refuse_link(folder.path / "curve.png")
    if not (rows := folder.metrics.read()):
        raise ValueError(f"{folder.path} has no row of metrics to draw yet.")
    with writing(out):
        out.parent.mkdir(parents=True, exist_ok=True)
        save_curve(out, rows, folder.evaluations.read(), title_of(folder.read()))
    print(f"Wrote {out}")
    return 0


def _check(flags: RenderFlags) -> None:
    """Raise ValueError or OSError for flags that would fail only after the episodes are played."""
    if flags.env and flags.out is None:
        raise ValueError(f"The run folder holds films of the run's own environment: add --out {_file_name(flags.env)}.")
    if not 1 <= flags.episodes <= _MOST_EPISODES:
        raise ValueError(f"--episodes must be from 1 to {_MOST_EPISODES}, got {flags.episodes}.")
    as_seed("--seed", flags.seed + flags.episodes - 1)
    if flags.out is None:
        return
    if flags.out.suffix.lower() == ".html" and flags.episodes > 1:
        raise ValueError(f"An HTML page plays one episode: name {flags.out} .gif or .mp4, or leave out --episodes.")
    check_film(flags.out)


def _file_name(env: str) -> str:
    """`smax_25m.gif` for smax/25m."""
    return re.sub(r"\W+", "_", env).strip("_") + ".gif"
