"""An arena: every contender plays every other one, and the results become a table, a picture, and ratings.

Ratings are Elo with intervals, and the weights in an equilibrium of the empirical game.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, cast

import jax
import numpy as np
from scipy.optimize import linprog

from jaxrl.environment import MultiAgentEnvironment
from jaxrl.registry import make, shown_name
from jaxrl.report.tables import markdown_row
from jaxrl.train.folder.load import Run, load
from jaxrl.train.matches import (
    Contender,
    Result,
    contenders,
    play_match,
    play_script,
    script_of,
    sides_for,
)
from jaxrl.train.pictures import new_figure, verbatim
from jaxrl.wrappers import as_multi_agent
from jaxrl.wrappers.players import SCRIPTED

__all__ = [
    "Arena",
    "Elo",
    "as_markdown",
    "between_runs",
    "draw_matrix",
    "elo",
    "equilibrium",
    "facts",
    "hold",
    "maximin",
    "scores",
    "tables",
]

_solve = cast(Callable[..., Any], linprog)  # pyright takes six seconds to infer what it returns
_POINTS = 400 / np.log(10)  # of Elo's scale, for a unit of log odds
_STEPS = 100  # of Newton's method, most of which it does not need


@dataclasses.dataclass(frozen=True)
class Arena:
    """The results of K contenders: row k played the first side, column j the second."""

    env: str
    names: tuple[str, ...]
    games: int
    """Games of each ordered pair."""
    competitive: bool
    """The two sides are opponents; otherwise both belong to one team, and only its return counts."""
    results: np.ndarray
    """int64 `[K, K, 3]`: games that the first side won, drew and lost."""
    returns: np.ndarray
    """`[K, K]`: the mean return of all agents; NaN where nobody played."""

    @property
    def matrix(self) -> np.ndarray:
        """`[K, K]`: the score of row against column over both sides, or of one team the mean return."""
        return scores(self.results) if self.competitive else self.returns

    @property
    def axes(self) -> tuple[np.ndarray, np.ndarray]:
        """The indices of rows and columns worth showing: all, or each side's if nobody played both."""
        met = np.isfinite(self.returns)
        first, second = np.flatnonzero(met.any(axis=1)), np.flatnonzero(met.any(axis=0))
        everybody = np.arange(len(self.names))
        return (everybody, everybody) if set(first) & set(second) else (first, second)

    @property
    def weights(self) -> np.ndarray:
        """`[K]`: each contender's weight in the equilibrium; those of a side add up to 1 if nobody played both."""
        first, second = self.axes
        if len(first) == len(self.names):
            return equilibrium(self.matrix)
        payoff, found = self.matrix[np.ix_(first, second)], np.zeros(len(self.names))
        found[first], found[second] = maximin(payoff), maximin(-payoff.T)
        return found


def hold(
    env: MultiAgentEnvironment,
    contenders: Sequence[Contender],
    *,
    scripted: bool = False,
    games: int = 512,
    greedy: bool = False,
    seed: int = 0,
    told: Callable[[str], None] = lambda _: None,
) -> Arena:
    """Play all against all, on both sides. Who was trained for one side alone plays that side.

    Members of one team also play with themselves, which shows what they lose with a stranger.

    Args:
        env: The environment, with two teams, or with one team that the contenders share.
        contenders: The K contenders, without the script.
        scripted: Whether the environment's script plays as well: on the second side, if it plays a whole team.
        games: Games of each ordered pair, all at the same time.
        greedy: Whether to take the most likely actions; False draws them.
        seed: The seed of all games.
        told: Takes a line about each match.

    Raises:
        ValueError: There are fewer than two contenders, or one does not fit the environment or finds nobody to play.
        NotImplementedError: The environment has no script.
    """
    competitive, by_rules = len(set(env.teams)) > 1, script_of(env, SCRIPTED)
    if scripted and by_rules is not None:  # a contender like all others
        contenders, scripted = (*contenders, by_rules), False
    # A script that plays a whole team is the last name, and only ever the second side.
    names = (*(each.name for each in contenders), *((SCRIPTED,) if scripted else ()))
    if len(names) < 2 and competitive:
        raise ValueError(
            "An arena needs two contenders: give two runs, or a run with several seeds, or a run and scripted, where "
            "the environment has a script."
        )
    sides = [sides_for(env, each) for each in contenders] + ([(1,)] if scripted else [])
    pairs = _pairs(names, sides, competitive)
    if scripted:
        env.against_script()  # raises now what would end the arena after many games
    results = np.zeros((len(names), len(names), 3), np.int64)
    returns = np.full(results.shape[:2], np.nan)
    programs: dict[Any, Any] = {}

    def match(row: int, column: int, key: jax.Array) -> Result:
        if column == len(contenders):
            return play_script(env, contenders[row], key, games, greedy=greedy, programs=programs)
        return play_match(env, contenders[row], contenders[column], key, games, greedy=greedy, programs=programs)

    # Each pair has its own key, whether or not the others play.
    keys = jax.random.split(jax.random.key(seed), len(contenders) * len(names))
    for row, column in pairs:
        result = match(row, column, keys[row * len(names) + column])
        results[row, column], returns[row, column] = result[:3], result.return_mean
        outcome = f"{result.wins} : {result.losses}" if competitive else f"return {result.return_mean:.2f}"
        told(f"{names[row]} {'against' if competitive else 'with'} {names[column]}: {outcome}")
    return Arena(shown_name(env.made_as or env.name), names, games, competitive, results, returns)


def between_runs(
    folders: Sequence[str | Path],
    env: str | None = None,
    *,
    scripted: bool = False,
    games: int = 512,
    greedy: bool = False,
    seed: int = 0,
    trust: bool = False,
    told: Callable[[str], None] = lambda _: None,
) -> Arena:
    """`hold` an arena of all seeds of some runs.

    Args:
        folders: The folders of the runs; `"RUN:2"` is the seed with index 2.
        env: The environment's name; None for that of the first run.
        scripted: See `hold`, as all others.
        games: Games of each ordered pair.
        greedy: Whether to take the most likely actions.
        seed: The seed of all games.
        trust: See `jaxrl.load`.
        told: Takes a line about each match.

    Raises:
        ValueError: See `hold`, or a seed takes part twice.
    """
    runs = [load(folder, trust=trust) for folder in folders]
    _check_once(folders, runs)
    players = [each for name, run in zip(_names(runs), runs, strict=True) for each in contenders(run, name)]
    played = as_multi_agent(make(env)) if env else _with_all_seats(runs[0].config)
    arena = hold(played, players, scripted=scripted, games=games, greedy=greedy, seed=seed, told=told)
    return dataclasses.replace(arena, env=shown_name(env or runs[0].config.env))


def _with_all_seats(config: Any) -> MultiAgentEnvironment:
    """The environment of a run, with its own parameters and teams, including the seats of policies held fixed."""
    names = {field.name for field in dataclasses.fields(config)}
    apart = {"policies": (), "policy_hyperparams": (), "other_play": False, "log_info": ()}
    apart = {name: value for name, value in apart.items() if name in names}
    return as_multi_agent(dataclasses.replace(config, **apart).make_env())


def _check_once(folders: Sequence[str | Path], runs: Sequence[Run]) -> None:
    """Raise ValueError if a seed is named twice, since it would play itself."""
    seeds: set[tuple[Path, int]] = set()
    for folder, run in zip(folders, runs, strict=True):
        own = {(run.folder.path.resolve(), m) for m in (range(run.num_members) if run.index is None else [run.index])}
        if seeds & own:
            raise ValueError(f"{folder} takes part twice; name each run, or each of its seeds, once.")
        seeds |= own


def _names(runs: Sequence[Run]) -> list[str]:
    """The last parts of the folders' paths, as many as tell them apart, such as `["a/rps", "b/rps:1"]`."""
    parts = [run.folder.path.absolute().parts for run in runs]
    depth = 1
    while len({own[-depth:] for own in parts}) < len(set(parts)):
        depth += 1
    members = ["" if run.index is None else f":{run.index}" for run in runs]
    return ["/".join(own[-depth:]) + member for own, member in zip(parts, members, strict=True)]


def facts(arena: Arena) -> dict[str, Any]:
    """Plain numbers: the matrix, and with two teams the Elo ratings, their intervals and the equilibrium's weights."""
    found: dict[str, Any] = {"env": arena.env, "names": arena.names, "games": arena.games, "matrix": arena.matrix}
    if arena.competitive:
        found["results"] = arena.results
        found["elo"] = elo(arena.results)._asdict()
        found["equilibrium"] = arena.weights
    numbers: dict[str, Any] = jax.tree.map(lambda leaf: leaf.tolist() if isinstance(leaf, np.ndarray) else leaf, found)
    return numbers


def tables(arena: Arena) -> list[list[tuple[str, ...]]]:
    """The matrix, and with two teams the ratings: tables whose first row is the head."""
    what = "score of row against column" if arena.competitive else "return of row (first seats) with column"
    (first, second), matrix = arena.axes, arena.matrix
    rows = [(arena.names[row], *(_cell(float(matrix[row, column])) for column in second)) for row in first]
    found = [[(what, *(arena.names[column] for column in second)), *rows]]
    if not arena.competitive:
        return found
    rating, weights = elo(arena.results), arena.weights
    head = ("contender", "Elo", "95 % interval", "weight in the equilibrium")
    rated = []
    for k in np.argsort(-rating.rating):
        between = f"{rating.low[k]:.0f} to {rating.high[k]:.0f}"
        rated.append((arena.names[k], f"{rating.rating[k]:.0f}", between, f"{weights[k]:.2f}"))
    return [*found, [head, *rated]]


def as_markdown(arena: Arena) -> str:
    """The `tables` as Markdown."""

    def lines(table: list[tuple[str, ...]]) -> Iterator[str]:
        for number, row in enumerate(table):
            yield markdown_row(row)
            if number == 0:
                yield "| --- " * len(row) + "|"

    return "\n\n".join("\n".join(lines(table)) for table in tables(arena))


def draw_matrix(arena: Arena) -> Any:
    """A figure of the matrix.

    Raises:
        MissingExtraError: matplotlib is not installed.
    """
    first, second = arena.axes
    matrix = arena.matrix[np.ix_(first, second)]
    what = "score of row against column" if arena.competitive else "return of row with column"
    width = max(2.6 + 0.62 * len(second), 0.5 + 0.1 * max(len(arena.env), len(what)))
    figure = new_figure("A picture of the arena", width, 2.1 + 0.62 * len(first))
    axes = figure.subplots()
    known = matrix[np.isfinite(matrix)]
    low, high = (0.0, 1.0) if arena.competitive else (known.min(), max(known.max(), known.min() + 1e-9))
    image = axes.imshow(matrix, vmin=low, vmax=high, cmap="RdBu" if arena.competitive else "viridis")
    middle, span = (low + high) / 2, high - low
    for row, column in np.argwhere(np.isfinite(matrix)):
        value = matrix[row, column]
        dark = abs(value - middle) > 0.3 * span if arena.competitive else value < middle
        axes.text(
            column, row, _cell(float(value)), ha="center", va="center", color="white" if dark else "black", fontsize=9
        )
    names = list(map(verbatim, arena.names))
    axes.set_xticks(range(len(second)), [names[column] for column in second], rotation=40, ha="right")
    axes.set_yticks(range(len(first)), [names[row] for row in first])
    figure.suptitle(f"{verbatim(arena.env)}\n{what}", x=0.02, ha="left", fontsize=11, fontweight="bold")
    figure.colorbar(image, ax=axes, shrink=0.8)
    return figure


def _pairs(names: Sequence[str], sides: Sequence[tuple[int, ...]], competitive: bool) -> list[tuple[int, int]]:
    """The ordered pairs that play: who can act for the first side with who can act for the second."""
    everybody = range(len(names))
    pairs = [
        (row, column)
        for row in everybody
        for column in everybody
        if 0 in sides[row] and 1 in sides[column] and (row != column or not competitive)
    ]
    for lonely in sorted(set(everybody) - {player for pair in pairs for player in pair}):
        own, other = ("first", "second") if 0 in sides[lonely] else ("second", "first")
        raise ValueError(
            f"{names[lonely]} plays the {own} side alone, and nobody plays the {other}; add a run that was trained for "
            f"the {other} side or for both."
        )
    return pairs


def _cell(value: float) -> str:
    return "" if np.isnan(value) else f"{value:.2f}"


class Elo(NamedTuple):
    """Elo ratings of K players, whose mean is 1500."""

    rating: np.ndarray  # [K]
    low: np.ndarray  # [K], of the interval
    high: np.ndarray  # [K]


def scores(results: np.ndarray) -> np.ndarray:
    """The mean score `[K, K]` of row against column on both sides: a win is 1, a draw 1/2; NaN if they never played.

    Args:
        results: `[K, K, 3]`, games that the first side (the row) won, drew and lost against the second (the column).
    """
    points, games = _points(results)
    return np.divide(points, games, out=np.full(games.shape, np.nan), where=games > 0)


def elo(results: np.ndarray, *, key: int = 0, repeats: int = 500, level: float = 0.95) -> Elo:
    """Elo ratings by maximum likelihood, with percentile intervals over resampled games.

    The model is Bradley and Terry's (1952, https://doi.org/10.2307/2334029): the odds that i scores against j are
    `10 ** ((r_i - r_j) / 400)`, and a draw counts as half a win. One more draw of each pair that met keeps ratings
    finite when somebody wins every game. Games are resampled from all of them and this draw, so that two equal results
    do not look certain. The extra draw pulls whoever wins nearly every game towards the others once more in each
    resample, so an interval that ends short of the rating is stretched to it.

    Args:
        results: `[K, K, 3]`, games that the first side (the row) won, drew and lost against the second (the column).
        key: The seed of the resampling.
        repeats: How many times the games of each pair are resampled.
        level: The level of the intervals.

    Raises:
        ValueError: There are fewer than two players, or some have no chain of games to the others.
    """
    results = np.asarray(results, np.int64)
    count = len(results)
    met = (results + results.swapaxes(0, 1)).sum(-1) > 0
    if count < 2 or not np.all(np.linalg.matrix_power(met + np.eye(count), count) > 0):
        raise ValueError("Elo ratings compare at least two players, each of whom has a chain of games to every other.")
    rating = _fit(results)
    rng = np.random.default_rng(key)
    games = results.sum(-1)
    both = np.maximum(games + games.T, 1)
    share = results + np.eye(3)[1] * (games / both)[..., None]  # one more draw, on the two sides by their games
    share /= np.maximum(share.sum(-1, keepdims=True), 1)
    share[..., 2] = 1 - share[..., 0] - share[..., 1]  # exactly 1 in all, as `multinomial` wants
    drawn = np.stack([_fit(rng.multinomial(games, np.clip(share, 0, 1))) for _ in range(repeats)])
    low, high = np.quantile(drawn, [(1 - level) / 2, (1 + level) / 2], axis=0)
    return Elo(rating, np.minimum(low, rating), np.maximum(high, rating))


def equilibrium(score: np.ndarray) -> np.ndarray:
    """The weights `[K]` of a mixture of players that no player beats: a Nash equilibrium of the empirical game.

    The game is symmetric and has zero sum: whoever picks row i against column j gets `score[i, j] - 1/2`; see Balduzzi
    et al. (2018), https://arxiv.org/abs/1806.02643.

    Args:
        score: `[K, K]`, see `scores`; pairs that never played count as even.
    """
    payoff = np.nan_to_num(score - 0.5)
    return maximin((payoff - payoff.T) / 2)


def maximin(payoff: np.ndarray) -> np.ndarray:
    """The weights `[R]` of the mixture of rows that gets the most from its worst column.

    In a game of zero sum it is the row player's half of a Nash equilibrium (von Neumann 1928,
    https://doi.org/10.1007/BF01448847). Found by linear programming.

    Args:
        payoff: `[R, C]`, what row gets from column.
    """
    rows, columns = payoff.shape
    # Maximise v such that the mixture gets at least v from every column: weights @ payoff >= v.
    constraint = np.hstack([-payoff.T, np.ones((columns, 1))])
    found = _solve(
        np.append(np.zeros(rows), -1.0),
        A_ub=constraint,
        b_ub=np.zeros(columns),
        A_eq=np.append(np.ones(rows), 0.0)[None],
        b_eq=[1.0],
        bounds=[(0, 1)] * rows + [(None, None)],
    )
    return found.x[:rows].clip(0.0) + 0.0  # the solver's zeros may be negative, or -0.0


def _points(results: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The score of row against column on both sides, `[K, K]`, and the number of games, `[K, K]`."""
    first = results[..., 0] + results[..., 1] / 2
    second = results[..., 2] + results[..., 1] / 2
    games = results.sum(-1)
    return first + second.T, games + games.T


def _fit(results: np.ndarray) -> np.ndarray:
    """The ratings `[K]` of maximum likelihood, by Newton's method."""
    points, games = _points(results)
    np.fill_diagonal(games := games.astype(float), 0.0)
    np.fill_diagonal(points, 0.0)
    points, games = points + (games > 0) / 2, games + (games > 0)
    strength = np.zeros(len(games))
    for _ in range(_STEPS):
        expected = 1 / (1 + np.exp(strength[None] - strength[:, None]))
        gradient = (points - games * expected).sum(1)
        information = games * expected * (1 - expected)
        hessian = np.diag(information.sum(1)) - information
        step = np.linalg.lstsq(hessian, gradient, rcond=None)[0]
        strength = strength + np.clip(step, -2.0, 2.0)
        if np.abs(step).max() < 1e-9:
            break
    return 1500 + _POINTS * (strength - strength.mean())
