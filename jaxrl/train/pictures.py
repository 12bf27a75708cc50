"""The pictures of a finished run: curve.png, replay.gif, replay.html."""

from __future__ import annotations

import contextlib
import itertools
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np

from jaxrl.algorithm import Algorithm
from jaxrl.display import in_units
from jaxrl.environment import Environment
from jaxrl.errors import MissingExtraError, error_text
from jaxrl.registry import shown_name
from jaxrl.replay import Replay, record
from jaxrl.train.folder.run_folder import RunFolder
from jaxrl.train.metrics import columns, own_metrics
from jaxrl.train.signals import until_a_signal

__all__ = [
    "FILM_STEPS",
    "PICTURES",
    "new_figure",
    "record_episode",
    "record_episodes",
    "save_curve",
    "save_pictures",
    "save_replays",
    "short",
    "smooth",
    "title_of",
    "verbatim",
]

FILM_STEPS = 1000
"""The most steps in a replay: some environments never end."""
PICTURES = ("curve.png", "replay.gif", "replay.html")
"""Names of the pictures in a run's folder."""


def title_of(about: Mapping[str, Any]) -> str:
    """A title such as `ippo on smax/3m, 4 seeds` from the content of run.json."""
    count, what = about["num_seeds"], "members" if about.get("members") else "seeds"
    return f"{about['algorithm']} on {shown_name(about['env'])}" + (f", {count} {what}" if count > 1 else "")


def save_pictures(
    folder: RunFolder,
    algo: Algorithm,
    env: Environment,
    state: Any,
    title: str,
    say: Callable[[str], None],
    names: Sequence[str] = PICTURES,
) -> list[Path]:
    """Write the curve and the replays of a run; report what cannot be made and why. Returns the files that were made.

    Nothing is raised, whatever goes wrong: the run is over and its result must not be lost. A signal only ends the
    drawing.

    Args:
        folder: The run's folder.
        algo: The run's algorithm.
        env: The run's environment.
        state: The train state of the member to show.
        title: The title of the curve.
        say: Called with a sentence for each picture that is missing.
        names: Which of `PICTURES` to make.
    """

    def draw(path: Path) -> None:
        save_curve(path, folder.metrics.read(), folder.evaluations.read(), title)

    replays = [folder.path / name for name in names if name.startswith("replay")]
    made: list[Path] = []
    with until_a_signal() as request:
        made += _made(folder.path / "curve.png", draw, say) if "curve.png" in names else []
        made += save_replays(replays, algo, env, state, say) if replays else []
    if request:
        say(f"{request.name} ended the drawing; `jaxrl render RUN` films the run.")
    return made


def save_replays(
    paths: Sequence[Path], algo: Algorithm, env: Environment, state: Any, say: Callable[[str], None], seed: int = 0
) -> list[Path]:
    """Record one greedy episode and write it to each of `paths` (`.gif`, `.html`). Returns the files that were made."""
    from jaxrl.render import save

    try:
        replay = record_episode(algo, env, state, seed, say=say)
    except Exception as error:
        say(f"No replay: {error_text(error)}")
        return []
    return [made for path in paths for made in _made(path, lambda new: save(replay, new), say)]


def _made(path: Path, write: Callable[[Path], None], say: Callable[[str], None]) -> list[Path]:
    """Have `write` make a file, which appears once it is complete. Returns `[path]`, or `[]` after saying why."""
    new = path.with_name(f"{path.stem}.new{path.suffix}")
    try:
        write(new)
        if not new.exists():  # there was nothing to show
            return []
        os.replace(new, path)
    except Exception as error:  # an author's `draw` may raise anything
        say(f"No {path.name}: {error_text(error)}")
        return []
    finally:
        with contextlib.suppress(OSError):
            new.unlink(missing_ok=True)
    return [path]


def record_episode(
    algo: Algorithm,
    env: Environment,
    state: Any,
    seed: int = 0,
    max_steps: int | None = None,
    say: Callable[[str], None] = print,
) -> Replay:
    """The first of `record_episodes`."""
    return record_episodes(algo, env, state, 1, seed, max_steps, say)[0]


def record_episodes(
    algo: Algorithm,
    env: Environment,
    state: Any,
    count: int,
    seed: int = 0,
    max_steps: int | None = None,
    say: Callable[[str], None] = print,
) -> list[Replay]:
    """Record episodes of the greedy policy in `state` (the state of one member).

    Args:
        algo: The algorithm.
        env: The environment to play in.
        state: The train state.
        count: The number of episodes.
        seed: Determines the first episode; the next one has the next seed.
        max_steps: The most steps of each to record; None for `FILM_STEPS`.
        say: Called with a sentence if an episode is cut.
    """

    def act(obs: Any, carry: Any, key: jax.Array, action_mask: Any) -> tuple[Any, Any]:
        obs, action_mask = jax.tree.map(lambda leaf: leaf[None], (obs, action_mask))
        action, carry = algo.act(state, obs, carry, action_mask=action_mask)
        return jax.tree.map(lambda leaf: leaf[0], action), carry

    most = FILM_STEPS if max_steps is None else max_steps
    replays = [record(env, act, jax.random.key(seed + number), max_steps=most) for number in range(count)]
    for replay in replays:
        if replay.cut:
            say(
                f"The episode goes on after {replay.num_steps:,} steps but its film ends; "
                f"`jaxrl render RUN --max-steps N` films N."
            )
            break
    return replays


def save_curve(
    path: str | Path, rows: list[dict[str, Any]], evaluations: list[dict[str, Any]], title: str = ""
) -> None:
    """Draw the win rate (or the return, if there is none) over steps and over seconds; without rows, do nothing.

    If there are several kinds of agents with separate returns, each kind gets its own line. Each number of `log_info`
    gets its own panels below.

    Args:
        path: The picture, e.g. `curve.png`.
        rows: As in metrics.jsonl.
        evaluations: As in evaluations.jsonl; drawn as dots.
        title: The title above the picture.

    Raises:
        MissingExtraError: matplotlib is not installed.
    """
    table, played = columns(rows), columns(evaluations)
    own = own_metrics(table)
    figure = new_figure("curve.png", 9.6, 3.8 * (1 + len(own)))
    if not rows:
        return
    won = "win_rate" in table
    if not won:  # the untrained policy may score so badly that the rest of the curve would look flat
        played = columns([row for row in evaluations if row["timesteps"]])
    names, label = (["win_rate"], "win rate") if won else (_returns(table), "return")
    panels = figure.subplots(1 + len(own), 2, sharey="row", squeeze=False)
    for axes, shown, text in zip(panels, [names, *([name] for name in own)], [label, *own], strict=True):
        _panels(axes, table, played, shown, text)
    if won:
        panels[0, 0].set_ylim(-0.02, 1.02)
    figure.suptitle(verbatim(title), x=0.01, ha="left", fontsize=12)
    figure.savefig(path, dpi=120)


def _panels(panels: Any, table: dict[str, Any], played: dict[str, Any], names: list[str], label: str) -> None:
    """Draw the columns `names` over steps and over seconds, side by side."""
    for axes, x, x_label in zip(
        panels, ("timesteps", "seconds"), ("environment steps", "seconds of training"), strict=True
    ):
        for name, color in zip(names, itertools.cycle(_COLORS), strict=False):
            kind = name.partition("returns/")[2]
            _lines(axes, table[x], table[name], color, kind or "training")
            if played and name in played:
                label_once = "greedy evaluation" if name == names[-1] else None
                _dots(axes, played[x], played[name], color if kind else _DOT, label_once)
        axes.set_xlabel(x_label)
        axes.set_xlim(0, None)
        axes.grid(alpha=0.25, linewidth=0.8)
        axes.spines[["top", "right"]].set_visible(False)
    left, right = panels
    left.set_ylabel(verbatim(label))
    left.xaxis.set_major_formatter(lambda steps, _: short(steps))
    right.legend(loc="lower right" if label == "win rate" else "best", frameon=False)


def new_figure(name: str, width: float, height: float) -> Any:
    """An empty matplotlib figure, `width` by `height` inches, without a window.

    Raises:
        MissingExtraError: matplotlib is not installed; the message says that `name` needs it.
    """
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError as error:
        raise MissingExtraError(f"{name} needs matplotlib: pip install 'jaxrl[viz]'") from error
    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


# Distinguishable with any colour vision.
_COLORS = ("#1f5fa8", "#b5651d", "#2a8c68", "#8a5aa8")
_DOT = "#e8762c"


def _returns(table: dict[str, np.ndarray]) -> list[str]:
    """The columns with mean returns: one for each kind of agent, if there are several."""
    return [name for name in table if name.startswith("returns/")] or ["return_mean"]


def _lines(axes: Any, x: np.ndarray, y: np.ndarray, color: str, label: str) -> None:
    """The training curve: a thin raw line and a bold smooth one; with members `[R, M]`, thin lines and a bold mean."""
    members = y.reshape(len(y), -1)
    multiple = members.shape[1] > 1
    for member in members.T:
        axes.plot(x, smooth(member) if multiple else member, color=color, alpha=0.3, linewidth=1)
    middle = np.stack([smooth(member) for member in members.T]).mean(0)
    label = f"{label}, mean of {members.shape[1]}" if multiple else label
    axes.plot(x, middle, color=color, linewidth=2.2, label=label)


def _dots(axes: Any, x: np.ndarray, y: np.ndarray, color: str, label: str | None) -> None:
    """Draw the greedy evaluations as dots."""
    look = {"color": color, "markersize": 6, "markeredgecolor": "white", "zorder": 3, "clip_on": False}
    for i, member in enumerate(y.reshape(len(y), -1).T):
        axes.plot(x, member, "o", label=label if i == 0 else None, **look)


def smooth(y: np.ndarray) -> np.ndarray:
    """A centred running mean over a twenty-fifth of the curve; intervals without an episode (NaN) are ignored."""
    half = max(len(y) // 50, 1)
    known = np.isfinite(y)
    total, count = np.cumsum([0.0, *np.where(known, y, 0.0)]), np.cumsum([0, *known])
    index = np.arange(len(y))
    low, high = np.maximum(index - half, 0), np.minimum(index + half + 1, len(y))
    number = count[high] - count[low]
    return np.where(number > 0, (total[high] - total[low]) / np.maximum(number, 1), np.nan)


def verbatim(text: str) -> str:
    """A text that matplotlib shows as it is.

    It sees formulas in dollar signs, and its legends leave out what begins with an underscore: names of files may.
    """
    return (" " if text.startswith("_") else "") + text.replace("$", r"\$")


def short(steps: float) -> str:
    """A number of steps in short form, such as `2.5M`."""
    return in_units(round(steps), ("G", 1e9), ("M", 1e6), ("k", 1e3), ("", 1.0)).replace(" ", "")
