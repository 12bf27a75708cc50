"""`jaxrl levels`: make a set of levels, and look at it."""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import jax
import numpy as np
import tyro

from jaxrl.cli.common import WHOLE, check_folder, every_few_seconds, use_cache
from jaxrl.config import as_seed
from jaxrl.errors import UnknownNameError, nearest, printable, shell_path
from jaxrl.keys import abstract_key

if TYPE_CHECKING:
    from jaxrl.environment import Environment
    from jaxrl.levels.level_set import LevelSet

__all__ = ["levels"]

_USAGE = """\
usage: jaxrl levels make ENV --out SET.npz [--count L] [--seed S] [--params ./FILE.py:NAME]
       jaxrl levels make --from RUN --out SET.npz [--count L] [--member M] [--trust]
       jaxrl levels show SET.npz [--out PICTURE.png] [--env ENV]

A set of levels, which are starts of an environment's episodes: drawn at random, or those that a run trained with
--levels keeps, the best first. `jaxrl eval RUN --levels SET.npz` plays them.
"""
_SHOWN = 16  # levels in a picture
_COUNT = 1000


def levels(argv: list[str]) -> int:
    """`jaxrl levels make …` or `jaxrl levels show …`; returns the exit code."""
    actions = {"make": _make, "show": _show}
    if not argv or argv[0] in ("-h", "--help"):
        print(_USAGE, end="")
        return 0
    if argv[0] not in actions:
        raise UnknownNameError(f"jaxrl levels {printable(argv[0])} is nothing. {nearest(argv[0], actions)}")
    return actions[argv[0]](argv[1:])


@dataclasses.dataclass(frozen=True)
class MakeFlags:
    """Make a set of levels: draw different starts of an environment, or take those that a run keeps."""

    env: tyro.conf.Positional[str | None] = None
    """The environment to draw them in; `jaxrl envs` lists them."""
    run: Annotated[str | None, tyro.conf.arg(name="from")] = None
    """A run trained with --levels or --reset pool, whose levels to take, the best first. RUN:2 is its seed with
    index 2."""
    out: Path | None = None
    """The file to write, .npz."""
    count: int | None = None
    """Number of levels; left out, 1000, or all that the run keeps."""
    seed: int = 0
    """Seed of the levels that are drawn."""
    params: str | None = None
    """Where every level has its own parameters: as for jaxrl train."""
    member: int | None = None
    """With --from: index of the seed in a run with several; the best one if left out."""
    trust: bool = False
    """With --from: execute the module that the run names, although it is not part of jaxrl and the run was not made
    here."""


def _make(argv: list[str]) -> int:
    flags = tyro.cli(MakeFlags, args=argv, prog="jaxrl levels make", registry=WHOLE)
    _check(flags)
    assert flags.out is not None
    from jaxrl.levels.level_set import make_levels
    from jaxrl.registry import make, own_params
    from jaxrl.train.folder.disk import writing
    from jaxrl.wrappers import RandomParams

    use_cache()
    if flags.run is not None:
        found = _kept(flags)
    else:
        env = make(flags.env or "")
        env = RandomParams(env, own_params(flags.params)) if flags.params else env
        found = make_levels(env, flags.count or _COUNT, flags.seed, every_few_seconds("levels"))
    with writing(flags.out):
        flags.out.parent.mkdir(parents=True, exist_ok=True)
        found.save(flags.out)
    print(f"Wrote {flags.out}: {len(found):,} levels of {found.env}")
    return 0


def _check(flags: MakeFlags) -> None:
    """Raise ValueError or OSError for flags that make no sense."""
    if (flags.env is None) == (flags.run is None):
        raise ValueError("Name an environment, jaxrl levels make ENV, or a run by --from RUN: one of them.")
    if flags.out is None or flags.out.suffix != ".npz":
        raise ValueError(f"Name the file to write with --out SET.npz, got {flags.out or 'nothing'}.")
    check_folder(flags.out.parent)
    as_seed("--seed", flags.seed)
    if flags.count is not None and flags.count < 1:
        raise ValueError(f"--count must be at least 1, got {flags.count}.")
    idle = ("seed", "params") if flags.run is not None else ("member", "trust")
    for name in idle:
        if getattr(flags, name) != getattr(MakeFlags, name):
            where = "with --from RUN, whose levels are not drawn" if flags.run is not None else "without --from RUN"
            raise ValueError(f"--{name} has no effect {where}; leave it out.")


def _kept(flags: MakeFlags) -> LevelSet:
    """The levels that a run keeps, those with the highest scores first."""
    from jaxrl.levels.level_set import LevelSet, name_of, take
    from jaxrl.train.folder.load import load

    run = load(flags.run, trust=flags.trust).member(flags.member)
    kept: Any = getattr(getattr(run.state, "runner", None), "env_state", None)
    if not hasattr(kept, "pool"):
        raise ValueError(
            f"{run.folder.path} was trained without --levels, so it keeps none; draw some with `jaxrl levels make "
            f"{shell_path(name_of(run.env))} --out {shell_path(str(flags.out))}`."
        )
    book = getattr(kept, "book", None)
    obs, states = jax.device_get(kept.pool)
    like = jax.eval_shape(run.env.reset, abstract_key())[0]  # a single agent learns as a team of one
    starts = jax.tree.map(lambda leaf, one: leaf[:, 0] if leaf.ndim == one.ndim + 2 else leaf, obs, like), states
    score = None if book is None else np.asarray(book.score, np.float32)
    count = jax.tree.leaves(starts)[0].shape[0]
    order = np.arange(count) if score is None else np.argsort(-score, kind="stable")
    order = order if score is None else order[np.isfinite(score[order])]  # an empty slot has -inf
    if not len(order):
        raise ValueError(f"{run.folder.path} has kept no level yet; continue it with jaxrl resume.")
    if flags.count is not None and flags.count > len(order):
        raise ValueError(f"{run.folder.path} keeps {len(order):,} levels; use --count {len(order)}, or leave it out.")
    order = order[: flags.count]
    return LevelSet(name_of(run.env), take(starts, order), run.config.seed, None if score is None else score[order])


@dataclasses.dataclass(frozen=True)
class ShowFlags:
    """Say what is in a set of levels, and draw up to 16 of them."""

    set: tyro.conf.Positional[Path]
    """The file, .npz."""
    out: Path | None = None
    """The picture to write, .png; left out, none is drawn."""
    env: str | None = None
    """The environment, if it is your own: a set's file alone does not have your code executed."""


def _show(argv: list[str]) -> int:
    flags = tyro.cli(ShowFlags, args=argv, prog="jaxrl levels show", registry=WHOLE)
    from jaxrl.levels.level_set import LevelSet, read_about
    from jaxrl.registry import make, own_code
    from jaxrl.train.folder.disk import writing
    from jaxrl.wrappers import RandomParams

    about = read_about(flags.set)
    name = printable(about["env"])
    if flags.env is None and own_code(about["env"]) is not None:
        raise ValueError(f"{flags.set} names code of your own; to execute it, add --env {shell_path(name)}.")
    env = make(flags.env or about["env"])
    if any(leaf.startswith("[1].own") for leaf in about["leaves"]):  # the structure is the same whatever is drawn
        env = RandomParams(env, lambda key, params, progress: params)
    found = LevelSet.load(flags.set, env)
    size = sum(leaf.nbytes for leaf in about["leaves"].values())
    print(f"{flags.set}: {len(found):,} levels of {name}, seed {found.seed}, {size / len(found):,.0f} bytes each")
    if found.score is not None:
        print(f"scores from {found.score.min():.4g} to {found.score.max():.4g}, mean {found.score.mean():.4g}")
    if flags.out is not None:
        if flags.out.suffix != ".png":
            raise ValueError(f"--out must end in .png, got {flags.out}.")
        with writing(flags.out):
            flags.out.parent.mkdir(parents=True, exist_ok=True)
            _draw(env, found, flags.out)
        print(f"Wrote {flags.out}")
    return 0


def _draw(env: Environment, found: LevelSet, out: Path) -> None:
    """Draw the first levels of a set in a grid, with their numbers and scores."""
    from jaxrl.levels.level_set import take
    from jaxrl.train.pictures import new_figure

    count = min(_SHOWN, len(found))
    pictures = [env.render(take(found.starts, np.array(number))[1]) for number in range(count)]
    wide = math.ceil(math.sqrt(count))
    high = -(-count // wide)
    ratio = pictures[0].shape[0] / pictures[0].shape[1]
    figure = new_figure(out.name, 2.4 * wide, (2.4 * ratio + 0.3) * high)
    for number, axes in enumerate(figure.subplots(high, wide, squeeze=False).ravel()):
        axes.set_axis_off()
        if number < count:
            axes.imshow(pictures[number])
            score = "" if found.score is None else f"   score {found.score[number]:.3g}"
            axes.set_title(f"{number}{score}", fontsize=9, loc="left")
    figure.savefig(out, dpi=130)
