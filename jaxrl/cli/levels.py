"""`jaxrl levels`: make a set of levels, and look at it."""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path
from typing import Annotated, Any

import jax
import numpy as np
import tyro

from jaxrl.cli.common import WHOLE, check_folder, use_cache
from jaxrl.config import as_seed
from jaxrl.environment import Environment
from jaxrl.errors import UnknownNameError, nearest, printable, shell_path
from jaxrl.keys import abstract_key
from jaxrl.levels.level_set import LevelSet, make_levels, read_set, take
from jaxrl.registry import made_name, make, own_code, own_params
from jaxrl.train.folder.disk import writing
from jaxrl.train.folder.load import load
from jaxrl.train.pictures import new_figure
from jaxrl.wrappers import RandomParams

__all__ = ["levels"]

_USAGE = """\
usage: jaxrl levels make ENV --out SET.npz [--count L] [--seed S] [--params ./FILE.py:NAME]
       jaxrl levels make --from RUN --out SET.npz [--count L] [--trust]
       jaxrl levels show SET.npz [--out PICTURE.png] [--env ENV]

A set of levels, which are starts of an environment's episodes: drawn at random, or those that a run trained with
--levels keeps, the best first. `jaxrl eval RUN --levels SET.npz` plays them.
"""
_SHOWN = 16  # levels in a picture


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

    out: Path
    """The file to write, .npz."""
    env: tyro.conf.Positional[str | None] = None
    """The environment to draw them in; `jaxrl envs` lists them."""
    run: Annotated[str | None, tyro.conf.arg(name="from")] = None
    """A run with --levels or --reset pool, whose levels to take, the best first. RUN:2 is its seed with index 2."""
    count: int | None = None
    """Number of levels; left out, 1000, or all that the run keeps."""
    seed: int = 0
    """Seed of the levels that are drawn."""
    params: str | None = None
    """Where every level has its own parameters: as for jaxrl train."""
    trust: bool = False
    """With --from: execute the module that the run names, as for jaxrl eval."""


def _make(argv: list[str]) -> int:
    flags = tyro.cli(MakeFlags, args=argv, prog="jaxrl levels make", registry=WHOLE)
    if (flags.env is None) == (flags.run is None):
        raise ValueError("Name an environment, jaxrl levels make ENV, or a run by --from RUN: one of them.")
    if flags.trust if flags.run is None else (flags.seed, flags.params) != (0, None):
        raise ValueError("--trust has no effect without --from RUN, and --seed and --params have none with it.")
    if flags.out.suffix != ".npz":
        raise ValueError(f"Name the file to write with --out SET.npz, got {flags.out}.")
    as_seed("--seed", flags.seed)
    check_folder(flags.out.parent)
    use_cache()
    if flags.run is not None:
        found = _kept(flags.run, flags.count, flags.trust)
    else:
        env = make(flags.env or "")
        env = RandomParams(env, own_params(flags.params)) if flags.params else env
        found = make_levels(env, 1000 if flags.count is None else flags.count, flags.seed)
    with writing(flags.out):
        flags.out.parent.mkdir(parents=True, exist_ok=True)
        found.save(flags.out)
    print(f"Wrote {flags.out}: {len(found):,} levels of {found.env}")
    return 0


def _kept(path: str, count: int | None, trust: bool) -> LevelSet:
    """The levels that a run keeps, those with the highest scores first; all for None."""
    run = load(path, trust=trust).member()
    kept: Any = getattr(getattr(run.state, "runner", None), "env_state", None)
    if not hasattr(kept, "pool"):
        raise ValueError(f"{path} was trained without --levels, so it keeps none; use jaxrl levels make ENV.")
    obs, states = jax.device_get(kept.pool)
    like = jax.eval_shape(run.env.reset, abstract_key())[0]  # a single agent learns as a team of one
    starts = jax.tree.map(lambda leaf, one: leaf[:, 0] if leaf.ndim == one.ndim + 2 else leaf, obs, like), states
    score = np.asarray(kept.book.score, np.float32) if hasattr(kept, "book") else None
    order = np.arange(jax.tree.leaves(starts)[0].shape[0])
    if score is not None:
        order = np.argsort(-score, kind="stable")[: np.isfinite(score).sum()]  # an empty slot has -inf
    if not 1 <= (1 if count is None else count) <= len(order):
        raise ValueError(f"{path} keeps {len(order):,} levels; choose a --count up to that, or train on: jaxrl resume.")
    order = order[:count]
    return LevelSet(made_name(run.env), take(starts, order), run.config.seed, None if score is None else score[order])


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
    if flags.out is not None and flags.out.suffix != ".png":
        raise ValueError(f"--out must end in .png, got {flags.out}.")
    about, entries = read_set(flags.set)
    if flags.env is None and own_code(about["env"]) is not None:
        name = shell_path(printable(about["env"]))
        raise ValueError(f"{flags.set} names code of your own; to execute it, add --env {name}.")
    env = make(flags.env or about["env"])
    if any(name.startswith("[1].own") for name in entries):  # the structure is the same whatever is drawn
        env = RandomParams(env, lambda key, params, progress: params)
    found = LevelSet.load(flags.set, env)
    print(f"{flags.set}: {len(found):,} levels of {printable(found.env)}, seed {found.seed}")
    if found.score is not None:
        print(f"scores from {found.score.min():.4g} to {found.score.max():.4g}, mean {found.score.mean():.4g}")
    if flags.out is not None:
        with writing(flags.out):
            flags.out.parent.mkdir(parents=True, exist_ok=True)
            _draw(env, found, flags.out)
        print(f"Wrote {flags.out}")
    return 0


def _draw(env: Environment, found: LevelSet, out: Path) -> None:
    """Draw the first levels of a set in a grid, with their numbers and scores."""
    pictures = [env.render(take(found.starts, np.array(i))[1]) for i in range(min(_SHOWN, len(found)))]
    wide = math.ceil(math.sqrt(len(pictures)))
    high = math.ceil(len(pictures) / wide)
    ratio = pictures[0].shape[0] / pictures[0].shape[1]
    figure = new_figure(out.name, 2.4 * wide, (2.4 * ratio + 0.3) * high)
    for i, picture in enumerate(pictures):
        axes = figure.add_subplot(high, wide, i + 1)
        axes.set_axis_off()
        axes.imshow(picture)
        score = "" if found.score is None else f"   score {found.score[i]:.3g}"
        axes.set_title(f"{i}{score}", fontsize=9, loc="left")
    figure.savefig(out, dpi=130)
