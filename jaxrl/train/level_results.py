"""The results of a run on each level of a set: played, as files, as a worst-α curve."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import jax
import numpy as np
from numpy.typing import ArrayLike

from jaxrl.durable import replace_file
from jaxrl.levels.level_set import LevelSet, take
from jaxrl.train.evaluate import evaluate
from jaxrl.train.folder.disk import refuse_link
from jaxrl.train.folder.json_file import DamagedFileError, dataclass_from_json, read_json, write_json
from jaxrl.train.folder.load import Run
from jaxrl.train.members import member_of, seed_keys

__all__ = ["LevelResults", "play_levels", "shown_alphas", "standard_error", "worst_levels"]

_ALPHAS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)  # the shares of the worst levels in tables
_FEWEST = 10  # a mean over fewer levels says little
_EPISODES = 4096  # played at once, which bounds the memory


@dataclasses.dataclass(frozen=True)
class LevelResults:
    """The results of M trained seeds on L levels in two evaluations; the content of `levels-NAME.json`."""

    digest: str
    """Results with the same one are of the same levels; see `LevelSet.digest`."""
    env: str
    metric: Literal["win_rate", "return_mean"]
    """The win rate of each level, or the mean return where nobody wins."""
    tries: int
    """Episodes of each level in each evaluation."""
    greedy: bool
    seed: int
    """The seed of the evaluations."""
    unfinished: int
    """Episodes that were cut: they count as lost, or with their return so far."""
    members: list[int]
    """`[M]`, the places of `seeds` in their run."""
    seeds: list[int]
    results: list[list[list[float]]]
    """`[2, M, L]`, each level's result."""
    levels: str = ""
    """The name of the set's file."""
    best: bool = False
    """Whether the policy is that of the best checkpoint."""

    @classmethod
    def read(cls, path: Path) -> LevelResults:
        """What `write` has written; raises OSError, or DamagedFileError if the content is something else."""
        content = read_json(path)
        content.pop("curve", None)
        try:
            found = dataclass_from_json(cls, content)
            if found.array.shape[:2] == (2, len(found.members)) and found.array.size:
                return found
        except ValueError:
            pass
        raise DamagedFileError(f"{path} is damaged; repeat jaxrl eval with --levels.")

    @property
    def array(self) -> np.ndarray:
        """float64 `[2, M, L]`, each level's result."""
        return np.array(self.results, np.float64)

    @property
    def measure(self) -> str:
        """The metric in words."""
        return "win rate" if self.metric == "win_rate" else "return"

    @property
    def protocol(self) -> str:
        """How often and how the levels were played, in words."""
        episodes = f"{'greedy' if self.greedy else 'sampled'} episode{'s' * (self.tries > 1)}"
        return f"{self.array.shape[-1]:,} levels of {self.levels}, {self.tries} {episodes} of each, twice"

    def by_seed(self, alphas: ArrayLike) -> np.ndarray:
        """The worst-α curve of each seed, float64 `[M, A]`; see `worst_levels`."""
        return np.stack([worst_levels(first, second, alphas) for first, second in self.array.swapaxes(0, 1)])

    def curve(self) -> list[dict[str, Any]]:
        """A row for each share that is shown: `alpha`, `levels`, `by_seed`, `mean` and `standard_error`."""
        alphas = shown_alphas(levels := self.array.shape[-1])
        own = self.by_seed(alphas)
        columns = (_counts(alphas, levels), own.T, own.mean(0), standard_error(own))
        rows = zip(alphas, *(column.tolist() for column in columns), strict=True)
        return [{"alpha": a, "levels": n, "by_seed": each, "mean": m, "standard_error": e} for a, n, each, m, e in rows]

    def write(self, folder: Path, stem: str) -> list[Path]:
        """Write levels-STEM.json and .csv, or raise OSError, such as for a link; returns their paths."""
        as_json, as_csv = (refuse_link(folder / f"levels-{stem}.{kind}") for kind in ("json", "csv"))
        write_json(as_json, {**dataclasses.asdict(self), "curve": self.curve()}, indent=None)
        lines = ["seed,level,evaluation_0,evaluation_1"]
        for seed, *both in zip(self.seeds, *self.results, strict=True):
            lines += [f"{seed},{level},{one},{two}" for level, (one, two) in enumerate(zip(*both, strict=True))]
        replace_file(as_csv, "\n".join([*lines, ""]).encode())
        return [as_json, as_csv]


def play_levels(
    run: Run,
    levels: LevelSet,
    tries: int,
    seed: int,
    greedy: bool = False,
    note: Callable[[str], None] = lambda text: None,
) -> LevelResults:
    """Play each of L levels several times in each of two evaluations, with each of the M seeds of a run.

    A seed plays the same alone and among the others of its run. Actions are sampled, unless they are `greedy`.
    `note` is called now and then with the number of episodes, in words.
    """
    several = run.num_members > 1
    members = list(range(run.num_members)) if several else [run.index or 0]
    total = len(levels) * tries
    size = -(-total // -(-total // _EPISODES))  # of equal chunks
    sums = np.zeros((2, len(members), len(levels)))
    cut, won = 0, False
    for evaluation, place in np.ndindex(2, len(members)):
        state = member_of(run.state, place) if several else run.state
        key = seed_keys([seed + members[place]], evaluation)
        for number, start in enumerate(range(0, total, size)):
            # The last chunk is filled up with episodes that do not count, so that one program plays all.
            level = np.arange(start, start + size) % total // tries
            own, starts = jax.random.fold_in(key, number), take(levels.starts, level)
            played = evaluate(run.algo, run.env, state, own, size, greedy=greedy, starts=starts)
            new = min(size, total - start)
            won = played.won is not None
            result = np.asarray(played.returns if played.won is None else played.won, np.float64)
            np.add.at(sums[evaluation, place], level[:new], result[:new])
            cut += int((~played.finished[:new]).sum())
            done = (evaluation * len(members) + place) * total + start + new
            note(f"{done:,} of {2 * len(members) * total:,} episodes")
    return LevelResults(
        digest=levels.digest,
        env=levels.env,
        metric="win_rate" if won else "return_mean",
        tries=tries,
        greedy=greedy,
        seed=seed,
        unfinished=cut,
        members=members,
        seeds=[run.member(member).config.seed for member in members] if several else [run.config.seed],
        results=(sums / tries).tolist(),
    )


def worst_levels(first: ArrayLike, second: ArrayLike, alphas: ArrayLike) -> np.ndarray:
    """The worst-α curve, also called conditional value at risk (CVaR), of one policy on L levels: float64 `[A]`.

    One evaluation sorts the levels, and the mean over the worst ⌊αL⌋ (at least 1) is that of another, since bad luck
    puts levels among the worst: Rutherford et al., "No Regrets" (2024), arXiv 2408.15099, section 5. Among levels with
    equal results in the first, it is the mean over all orders in which these could stand.

    Args:
        first: `[L]`, the result on each level that sorts them, such as a win rate.
        second: `[L]`, the results that count.
        alphas: `[A]`, shares of the levels, above 0 and up to 1.

    Raises:
        ValueError: A shape or a share is another.
    """
    order, counted, shares = (np.asarray(values, np.float64) for values in (first, second, alphas))
    if order.ndim != 1 or order.shape != counted.shape or not order.size or not ((shares > 0) & (shares <= 1)).all():
        raise ValueError(
            f"worst_levels takes two results for each level, [L] and [L], and shares above 0 and up to 1, got "
            f"{list(order.shape)}, {list(counted.shape)} and {shares.tolist()}."
        )
    _, group, sizes = np.unique(order, return_inverse=True, return_counts=True)
    means = np.bincount(group, counted) / sizes
    counts = _counts(shares, order.size)
    return np.cumsum(means[np.sort(group)])[counts - 1] / counts


def shown_alphas(levels: int) -> list[float]:
    """The shares to show for L levels: of at least ten levels each, or in a set of fewer than twenty, of one."""
    fewest = _FEWEST if levels >= 2 * _FEWEST else 1
    return [alpha for alpha in _ALPHAS if alpha * levels >= fewest - 1e-9]


def _counts(alphas: ArrayLike, levels: int) -> np.ndarray:
    """The number of the worst levels, ⌊αL⌋ but at least 1, for shares `[A]`: int `[A]`."""
    exact = np.asarray(alphas, np.float64) * levels
    return np.maximum(np.floor(exact + 1e-9), 1).astype(int)  # 0.29 * 100 is a bit less than 29


def standard_error(curves: np.ndarray) -> np.ndarray:
    """The standard error over seeds of `curves[M, A]`, `[A]`; NaN for one seed."""
    count = len(curves)
    return curves.std(0, ddof=1) / np.sqrt(count) if count > 1 else np.full(curves.shape[1], np.nan)
