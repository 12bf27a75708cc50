"""The results of a run on each level of a set: played, as files, as a worst-α curve."""

from __future__ import annotations

import csv
import dataclasses
import io
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal

import jax
import numpy as np

from jaxrl.durable import replace_file
from jaxrl.levels.curves import shown_alphas, worst_count, worst_levels
from jaxrl.levels.level_set import LevelSet, take
from jaxrl.train.evaluate import Evaluation, evaluate
from jaxrl.train.folder.disk import refuse_link
from jaxrl.train.folder.json_file import DamagedFileError, dataclass_from_json, read_json, write_json
from jaxrl.train.folder.load import Run
from jaxrl.train.members import member_of, seed_keys
from jaxrl.train.pictures import new_figure, verbatim

__all__ = ["LevelResults", "draw_curve", "mean_and_error", "play_levels"]

_EVALUATIONS = 2  # the first sorts the levels, the second counts
_EPISODES = 4096  # played at once, which bounds the memory
_POINTS = 200  # of a curve in a picture
_WORDS = {"win_rate": "win rate", "return_mean": "return"}


@dataclasses.dataclass(frozen=True)
class LevelResults:
    """The results of M trained seeds on L levels in two evaluations; the content of `levels-NAME.json`."""

    levels: str
    """The name of the set's file."""
    digest: str
    """Results with the same one are of the same levels; see `LevelSet.digest`."""
    env: str
    metric: Literal["win_rate", "return_mean"]
    """The win rate of each level, or the mean return where nobody wins."""
    tries: int
    """Episodes of each level in each evaluation."""
    greedy: bool
    best: bool
    """Whether the policy is that of the best checkpoint."""
    seed: int
    """The seed of the evaluations."""
    unfinished: int
    """Episodes that were cut: they count as lost, or with their return so far."""
    members: tuple[int, ...]
    """`[M]`, the indices of the seeds in their run."""
    seeds: tuple[int, ...]
    """`[M]`, the trained seeds."""
    results: tuple[tuple[tuple[float, ...], ...], ...]
    """`[2, M, L]`, each level's result."""

    @classmethod
    def read(cls, path: Path) -> LevelResults:
        """What `write` has written.

        Raises:
            OSError: It cannot be read.
            DamagedFileError: Its content is something else.
        """
        content = {name: value for name, value in read_json(path).items() if name != "curve"}
        try:
            found = dataclass_from_json(cls, content)
            if found.array.shape[:2] != (_EVALUATIONS, len(found.members)) or not found.array.size:
                raise ValueError("results must be those of two evaluations, of each seed and level")
        except (ValueError, TypeError) as error:
            raise DamagedFileError(f"{path} is damaged: {error}. Repeat jaxrl eval with --levels.") from error
        return found

    @property
    def array(self) -> np.ndarray:
        """float64 `[2, M, L]`, each level's result."""
        return np.array(self.results, np.float64)

    @property
    def measure(self) -> str:
        """The metric in words."""
        return _WORDS[self.metric]

    @property
    def alphas(self) -> Sequence[float]:
        """`[A]`, the shares of the levels that are shown."""
        return shown_alphas(self.array.shape[-1])[0]

    @property
    def protocol(self) -> str:
        """How often and how the levels were played, in words."""
        kind = "greedy" if self.greedy else "sampled"
        levels = self.array.shape[-1]
        return f"{levels:,} levels of {self.levels}, {self.tries} {kind} episode{'s' * (self.tries > 1)} of each, twice"

    def curves(self, alphas: Sequence[float] | np.ndarray) -> np.ndarray:
        """The worst-α curve of each seed, float64 `[M, A]`; see `worst_levels`."""
        return np.stack([worst_levels(first, second, alphas) for first, second in self.array.swapaxes(0, 1)])

    def write(self, folder: Path, stem: str) -> list[Path]:
        """Write levels-STEM.json and .csv into a folder that exists; returns their paths.

        Raises:
            OSError: They cannot be written, or one of the names is a link.
        """
        as_json, as_csv = (refuse_link(folder / f"levels-{stem}.{kind}") for kind in ("json", "csv"))
        by_seed = self.curves(self.alphas)
        counts = worst_count(self.alphas, self.array.shape[-1]).tolist()
        rows = zip(self.alphas, counts, by_seed.T.tolist(), *mean_and_error(by_seed), strict=True)
        names = ("alpha", "levels", "by_seed", "mean", "standard_error")
        curve = [dict(zip(names, (*row[:3], *map(float, row[3:])), strict=True)) for row in rows]
        write_json(as_json, {**dataclasses.asdict(self), "curve": curve}, indent=None)
        text = io.StringIO()
        table = csv.writer(text, lineterminator="\n")
        table.writerow(("seed", "level", "evaluation_0", "evaluation_1"))
        for seed, both in zip(self.seeds, self.array.swapaxes(0, 1), strict=True):
            table.writerows((seed, level, *pair) for level, pair in enumerate(both.T.tolist()))
        replace_file(as_csv, text.getvalue().encode())
        return [as_json, as_csv]

    def draw(self, path: Path) -> None:
        """Draw the worst-α curve of all seeds.

        Raises:
            OSError: The picture cannot be written, or its name is a link.
            MissingExtraError: matplotlib is not installed.
        """
        figure = new_figure(path.name, 6.4, 4.0)
        axes = figure.subplots()
        draw_curve(
            axes, [self], f"mean of {len(self.seeds)} seeds" if len(self.seeds) > 1 else "", {"color": "#1f5fa8"}
        )
        if len(self.seeds) > 1:
            axes.legend(frameon=False, fontsize=9, loc="upper left")
        axes.set_title(verbatim(f"{self.env}\n{self.protocol}"), loc="left", fontsize=9)
        figure.savefig(refuse_link(path), dpi=130)


def play_levels(
    run: Run,
    levels: LevelSet,
    tries: int,
    seed: int,
    greedy: bool = False,
    told: Callable[[int, int], None] = lambda done, total: None,
) -> LevelResults:
    """Play each level several times in each of two evaluations, with each seed of a run.

    A seed plays the same alone and among the others of its run.

    Args:
        run: A run with M seeds.
        levels: L levels of its environment.
        tries: Episodes of each level in each evaluation.
        seed: Determines both evaluations.
        greedy: Whether to take the most likely action; False samples.
        told: Called with the number of episodes so far, and of all.
    """
    members, count, cut, done = run.num_members, len(levels), 0, 0
    metric: Literal["win_rate", "return_mean"] = "return_mean"
    size = -(-count * tries // -(-count * tries // _EPISODES))  # of equal chunks
    totals = np.zeros((_EVALUATIONS, members, count))
    for evaluation, member in np.ndindex(_EVALUATIONS, members):
        state = run.state if members == 1 else member_of(run.state, member)
        key = seed_keys([seed + (run.index or 0) + member], evaluation)
        for number, start in enumerate(range(0, count * tries, size)):
            # The last chunk is filled up with episodes that do not count, so that one program plays all.
            level = np.arange(start, start + size) % (count * tries) // tries
            new = min(size, count * tries - start)
            played: Evaluation = jax.device_get(
                evaluate(
                    run.algo,
                    run.env,
                    state,
                    jax.random.fold_in(key, number),
                    size,
                    greedy=greedy,
                    starts=take(levels.starts, level),
                )
            )
            metric = "return_mean" if played.won is None else "win_rate"
            result = np.asarray(played.returns if played.won is None else played.won, np.float64)
            np.add.at(totals[evaluation, member], level[:new], result[:new])
            cut += int((~played.finished[:new]).sum())
            done += new
            told(done, _EVALUATIONS * members * count * tries)
    whole = range(members) if members > 1 else [run.index]
    return LevelResults(
        levels="",
        digest=levels.digest,
        env=levels.env,
        metric=metric,
        tries=tries,
        greedy=greedy,
        best=False,
        seed=seed,
        unfinished=cut,
        members=tuple(index or 0 for index in whole),
        seeds=tuple(run.member(index).config.seed if members > 1 else run.config.seed for index in whole),
        results=tuple(tuple(map(tuple, rows)) for rows in (totals / tries).tolist()),
    )


def mean_and_error(curves: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The mean over seeds of `curves[M, A]` and its standard error, `[A]` each; NaN for one seed."""
    count = len(curves)
    error = curves.std(0, ddof=1) / np.sqrt(count) if count > 1 else np.full(curves.shape[1], np.nan)
    return curves.mean(0), error


def draw_curve(axes: Any, found: Sequence[LevelResults], label: str, look: dict[str, Any]) -> None:
    """Draw the mean worst-α curve of all seeds of some results on the same levels, its standard error and the seeds.

    Args:
        axes: Of matplotlib.
        found: The results.
        label: For the legend; empty for none.
        look: The `color` and perhaps the `linestyle`.
    """
    levels = found[0].array.shape[-1]
    ticks = found[0].alphas
    least = worst_count(ticks, levels)[0]
    alphas = np.unique(np.geomspace(least, levels, _POINTS).round()) / levels
    curves = np.concatenate([each.curves(alphas) for each in found])
    mean, error = mean_and_error(curves)
    if len(curves) > 1:
        for curve in curves:
            axes.plot(100 * alphas, curve, color=look["color"], linewidth=0.7, alpha=max(0.1, 0.4 / len(curves) ** 0.5))
        axes.fill_between(100 * alphas, mean - error, mean + error, color=look["color"], alpha=0.18, linewidth=0)
    axes.plot(100 * alphas, mean, linewidth=2.2, label=verbatim(label) or None, **look)
    shown = np.concatenate([each.curves(ticks) for each in found]).mean(0)
    axes.plot([100 * each for each in ticks], shown, "o", color=look["color"], markersize=5, clip_on=False)
    axes.set_xscale("log")
    axes.set_xticks([100 * each for each in ticks], [f"{100 * each:g} %" for each in ticks])
    axes.set_xticks([], minor=True)
    axes.set_xlim(100 * alphas[0], 100)
    if found[0].metric == "win_rate":
        axes.set_ylim(-0.02, 1.02)
    axes.set_xlabel("α, the share of the levels with the worst results")
    axes.set_ylabel(f"{found[0].measure} on these, played again")
    axes.grid(alpha=0.25, linewidth=0.8)
    axes.spines[["top", "right"]].set_visible(False)
