"""Population-based training (Jaderberg et al. 2017, https://arxiv.org/abs/1711.09846), inside the compiled loop."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxrl.algorithm import Algorithm, Metrics, Nested, Replicated, field_names
from jaxrl.errors import DivergedError
from jaxrl.rl.devices import member_index
from jaxrl.rl.learn import all_finite
from jaxrl.train.devices.mesh import MeshShape, choose_mesh
from jaxrl.train.health.divergence import finite_members
from jaxrl.train.members import Members, at_generation
from jaxrl.train.programs import compile_programs
from jaxrl.train.result import Result
from jaxrl.train.run import SearchRun
from jaxrl.tuning.methods import Found, Incumbent, Task, Trial, best_so_far, member_rows, trial_of
from jaxrl.tuning.search_space import Choice, Point, Range, effective

__all__ = ["PBT", "Grown", "Member", "Past", "ancestors", "distant", "evolve", "grown", "population", "train_finalists"]

Dimensions = Mapping[str, Range | Choice]

_STREAM = 3  # of a seed's key; see `seed_keys`
_FACTORS = (0.8, 1.2)  # by which a hyperparameter on a logarithmic scale moves
_STEP = 0.1  # of its range, by which any other one moves


@dataclasses.dataclass(frozen=True)
class PBT:
    """One population of points times tuning seeds, whose best lineages are then trained once more and compared.

    After each generation, the worst quarter copies the parameters, the optimiser's state and the hyperparameters of
    members drawn from the best quarter, and then changes the hyperparameters. Scores are means over the episodes that
    ended in the generation. Each member always has its own environments and random keys, even if several start with
    the same point or the same seed. After the first generation, members of one point have different hyperparameters,
    so each member is a trial by itself: its point is the one it had in the last generation.

    The best of many single runs is often a lucky one. So the lineages of a few good members, the finalists, are trained
    from nothing with every tuning seed, and the best mean wins. A finalist costs as much as a point of the population.
    """

    generations: int = 20
    """The number of equal parts into which training is divided."""
    quantile: float = 0.25
    """The share of the members that is replaced, and the share that replaces them."""
    resample: float = 0.25
    """The probability that a hyperparameter is redrawn; otherwise it moves: in a range with "log" by a factor of 0.8
    or 1.2, in any other range by a tenth of its width, in a list to a neighbour."""
    draw: bool = True
    """Start with draws from the space; if False, all members start with the config's values."""
    finalists: int = 4
    """The number of members to compare at the end, related as distantly as possible. They get at most a quarter of the
    budget, so there are fewer with a budget below 16. With 1, or a budget below 8, the best member wins by its own
    score."""

    def check(self, task: Task) -> None:
        """See `Method`."""
        if self.generations < 2 or not 0 < self.quantile <= 0.5 or not 0 <= self.resample <= 1:
            raise ValueError(
                f"PBT needs at least 2 generations, a quantile above 0 and up to 0.5 and a probability resample; got "
                f"{self.generations}, {self.quantile} and {self.resample}."
            )
        if self.finalists < 1:
            raise ValueError(f"finalists must be at least 1, with which the best member wins; got {self.finalists}.")
        members = self.plan(task)[0] * len(task.seeds)
        if members < 2:
            raise ValueError("PBT needs a population: a budget of at least 2, or several tuning seeds.")
        updates, enough = task.config.num_updates, self.generations * task.config.steps_per_update
        if updates < self.generations:
            fewer = f", or, in Python, method=PBT(generations={max(2, updates // 2)})" if updates > 1 else ""
            raise ValueError(
                f"{updates} updates cannot be cut into {self.generations} generations; use at least "
                f"total_timesteps={enough} (--total-timesteps {enough}){fewer}."
            )
        task.only_traced("pbt", members)
        for name, dimension in task.dimensions.items():
            # Wherever members start, they may come to the ends of a range, and to each value of a list.
            ends = dimension.values if isinstance(dimension, Choice) else (dimension.low, dimension.high)
            for value in ends:
                effective(task.config, {name: value})

    def plan(self, task: Task) -> tuple[int, int]:
        """The number of points in the population and the number of finalists, as many as the budget pays for."""
        finalists = min(self.finalists, task.budget // 4)
        return (task.budget - finalists, finalists) if finalists > 1 else (task.budget, 1)

    def __call__(self, task: Task) -> Found:
        """See `Method`."""
        points, finalists = self.plan(task)
        every = task.config.num_updates // self.generations
        trials, incumbents, lineages = grown(task, self._train(task, points, every), every, finalists)
        best = 0
        if len(lineages) > 1:
            if not task.options["quiet"]:
                print(f"{len(lineages)} finalists, each with every tuning seed; compiling…")
            spent = sum(trial.timesteps for trial in trials)
            finals = train_finalists(task, lineages, every)
            incumbents += [each._replace(timesteps=spent + each.timesteps) for each in best_so_far(finals)]
            if any(np.isfinite(trial.score) for trial in finals):
                best = max(range(len(finals)), key=lambda i: finals[i].rank)
            trials += finals
        return Found(trials, incumbents, lineages[best][-1], lineages[best])

    def _train(self, task: Task, points: int, every: int) -> Result:
        """Train the population."""
        start = {name: getattr(task.config, name) for name in task.space}
        drawn = task.draws(points) if self.draw else [start]
        members = task.members([drawn[i % len(drawn)] for i in range(points)])
        shape = MeshShape(data=1)
        mesh = choose_mesh(task.config, len(members), shape)
        algo = population(task.algorithm.make(task.config), self.generations)
        across = partial(evolve, task.dimensions, self.quantile, self.resample, every)
        who = Members.of(task.config, members)
        if not task.options["quiet"]:
            print(f"A population of {len(members)}, {self.generations} generations; compiling…")
        programs = compile_programs(algo, task.config, who, task.options["eval_episodes"], mesh, across)
        search = SearchRun(programs=programs, notes={"population": dataclasses.asdict(self)})
        task = dataclasses.replace(task, options={**task.options, "mesh": shape})  # for run.json
        return task.fit(algo, members, "population", search)


class Grown(NamedTuple):
    """The outcome of a trained population."""

    trials: list[Trial]
    """One per member."""
    incumbents: list[Incumbent]
    lineages: list[list[Point]]
    """The lineages of the finalists; the first is that of the best member."""


def grown(task: Task, result: Result, every: int, finalists: int) -> Grown:
    """The outcome of a trained population.

    Args:
        task: What to search.
        result: The result of training.
        every: Updates per generation.
        finalists: The most members whose lineages to return, all different and related as distantly as possible.
    """
    past = jax.device_get(result.state.past)
    columns = {name: getattr(past.hyperparams, name) for name in task.space}  # [M, G]
    members, generations = past.score.shape

    def point(member: int, generation: int) -> Point:
        return {name: float(column[member, generation]) for name, column in columns.items()}

    def lineage(member: int) -> list[Point]:
        return [point(m, generation) for generation, m in enumerate(ancestors(past.parent, member))]

    # At the end, members are judged by the greedy evaluation; on the way, by the episodes of each generation.
    steps, last = task.config.steps_per_update, generations - 1
    total = task.config.num_updates * steps
    rows = member_rows(result, ~finite_members(result.state.params, members))
    trials = [trial_of(point(m, last), [row], total) for m, row in enumerate(rows)]
    incumbents = []
    for generation in range(last):
        best = int(past.score[:, generation].argmax())
        spent = (generation + 1) * every * steps * members
        incumbents.append(Incumbent(spent, float(past.score[best, generation]), point(best, generation)))
    ranked = sorted(range(members), key=lambda m: trials[m].rank, reverse=True)
    best = ranked[0]
    incumbents.append(Incumbent(total * members, trials[best].score, point(best, last)))

    # Of members with the same lineage, the best stands for all.
    different: dict[str, int] = {}
    for m in ranked:
        if m == best or np.isfinite(trials[m].score):
            different.setdefault(repr(lineage(m)), m)
    lineages = [lineage(m) for m in distant(past.parent, list(different.values()), finalists)]
    return Grown(trials, [i for i in incumbents if np.isfinite(i.score)], lineages)


def train_finalists(task: Task, lineages: Sequence[list[Point]], every_updates: int) -> list[Trial]:
    """Train all finalists side by side, in one program.

    Args:
        task: What to search.
        lineages: The hyperparameters of each finalist, generation by generation; at least two finalists.
        every_updates: Updates per generation.

    Returns:
        A trial for each finalist, with the point of its last generation and a score for each tuning seed.

    Raises:
        StoppedError: A signal ended training.
    """
    algo, updates = task.algorithm.make(task.config), task.config.num_updates
    members = task.members([lineage[0] for lineage in lineages])
    each = [lineage for lineage in lineages for _ in task.seeds]
    values = {name: np.array([[point[name] for point in own] for own in each], np.float32) for name in task.space}
    programs = compile_programs(
        algo,
        task.config,
        Members.of(task.config, members),
        task.options["eval_episodes"],
        choose_mesh(task.config, len(members)),
        lambda state: jax.vmap(partial(at_generation, every_updates=every_updates))(values, state),
    )
    notes = {"population": {"every_updates": every_updates, "lineages": list(lineages)}}
    search = SearchRun(programs=programs, notes=notes)
    points = [lineage[-1] for lineage in lineages]
    try:
        result = task.fit(algo, members, "finalists", search)
    except DivergedError:
        return [
            Trial(point, [None for _ in task.seeds], None, updates * task.config.steps_per_update) for point in points
        ]
    return task.trials(points, result, updates)


def ancestors(parent: np.ndarray, member: int) -> list[int]:
    """The members that a member of a population descends from, one per generation, ending with itself.

    Args:
        parent: int `[M, G]`, the member that each member copied when the generation began; itself if none.
        member: The member's index.
    """
    line = [member]
    for g in range(parent.shape[1] - 1, 0, -1):
        line.append(int(parent[line[-1], g]))
    return line[::-1]


def distant(parent: np.ndarray, ranked: Sequence[int], count: int) -> list[int]:
    """The best members of different families, so that a lucky ancestor is not tried again in each of its descendants.

    A family are the members with the same ancestor in one generation: in the earliest one with `count` families, or
    the last one, where each member is its own.

    Args:
        parent: See `ancestors`.
        ranked: The members to choose from, best first.
        count: The most members to choose.
    """
    lines = {member: ancestors(parent, member) for member in ranked}
    best: dict[int, int] = {}
    for generation in range(parent.shape[1]):
        best = {}
        for member in ranked:
            best.setdefault(lines[member][generation], member)
        if len(best) >= count:
            break
    return list(best.values())[:count]


class Past(NamedTuple):
    """The history of a member over G generations."""

    hyperparams: Any  # leaves [G]
    score: jax.Array  # [G]; NaN for the last generation and those to come
    parent: jax.Array  # int32 [G], the member it copied when the generation began


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Member:
    """A train state and the data that evolution needs."""

    own: Nested[Any]
    score_sum: Replicated[jax.Array]  # over the episodes of this generation
    episodes: Replicated[jax.Array]
    past: Replicated[Past]
    key: Replicated[jax.Array]

    @property
    def params(self) -> Any:
        """The algorithm's parameters."""
        return self.own.params


def population(algo: Algorithm, generations: int) -> Algorithm:
    """The algorithm for one `Member`; `evolve` acts on all members together.

    Members can share a seed but not their random keys: equal keys would make identical children of one parent. So
    `init` folds in the member's number, which `initial_state` provides.
    """

    def init(key: jax.Array, hyperparams: Any = None) -> Member:
        key = jax.random.fold_in(jax.random.fold_in(key, _STREAM), member_index())
        key, key_own = jax.random.split(key)
        own = algo.init(key_own, hyperparams)
        h = jax.tree.map(lambda leaf: jnp.zeros(generations, jnp.float32).at[0].set(leaf), own.hyperparams)
        past = Past(h, jnp.full(generations, jnp.nan, jnp.float32), jnp.zeros(generations, jnp.int32))
        return Member(own, jnp.float32(0), jnp.float32(0), past, key)

    def update(state: Member) -> tuple[Member, Metrics]:
        own, metrics = algo.checked_update(state.own)
        score_sum = state.score_sum + metrics.get("won_sum", metrics["return_sum"])
        return dataclasses.replace(
            state, own=own, score_sum=score_sum, episodes=state.episodes + metrics["episodes"]
        ), metrics

    def act(state: Member, *args: Any, **given: Any) -> tuple[Any, Any]:
        return algo.act(state.own, *args, **given)

    return Algorithm(init, update, act)


def evolve(space: Dimensions, quantile: float, resample: float, every: int, state: Member) -> Member:
    """Start a new generation of the members `[M, …]`, if one is due.

    Args:
        space: The space to explore.
        quantile: The share that is replaced by the same number of the best.
        resample: The probability that a hyperparameter is redrawn.
        every: Updates per generation.
        state: The members.
    """
    updates, generations = state.own.update[0], state.past.score.shape[1]
    ends = (updates % every == 0) & (updates < every * generations)
    breed = partial(_breed, space, quantile, resample, updates // every)
    return jax.lax.cond(ends, breed, lambda unchanged: unchanged, state)


def _breed(space: Dimensions, quantile: float, resample: float, generation: jax.Array, state: Member) -> Member:
    """Start a new generation unconditionally."""
    own, past = state.own, state.past
    members = len(state.episodes)
    healthy = jax.vmap(all_finite)((own.params, state.score_sum))
    score = _scores(state, healthy)
    count = max(1, int(members * quantile))
    best_last = jnp.argsort(score)
    rank = jnp.argsort(best_last)
    key, key_parent, key_explore = jax.vmap(lambda k: tuple(jax.random.split(k, 3)))(state.key)
    drawn = jax.vmap(lambda k: jax.random.randint(k, (), 0, count))(key_parent)
    replaced = rank < count  # also among equal scores: before the first win, some members must try something else
    parent = jnp.where(replaced, best_last[members - 1 - drawn], jnp.arange(members)).astype(jnp.int32)

    taken = _take(own, parent)
    # Environments and replay buffers stay, unless a diverged policy may have acted on them.
    mine = jnp.where(healthy, jnp.arange(members), parent)
    names = (*field_names(own, "per_environment"), *field_names(own, "replayed"))
    environments = {name: _take(getattr(own, name), mine) for name in names}
    moved = jax.vmap(partial(_explore, space, resample))(taken.hyperparams, key_explore)
    h = jax.tree.map(lambda new, old: jnp.where(replaced, new, old), moved, taken.hyperparams)
    own = dataclasses.replace(taken, hyperparams=h, **environments)
    past = Past(
        jax.tree.map(lambda column, now: column.at[:, generation].set(now), past.hyperparams, h),
        past.score.at[:, generation - 1].set(score),
        past.parent.at[:, generation].set(parent),
    )
    nothing = jnp.zeros(members, jnp.float32)
    return Member(own, nothing, nothing, past, key)


def _scores(state: Member, healthy: jax.Array) -> jax.Array:
    """`[M]`: mean score of the generation's episodes; the members' median if none ended, -inf if diverged."""
    mean = jnp.where(healthy & (state.episodes > 0), state.score_sum / state.episodes, jnp.nan)
    middle = jnp.nan_to_num(jnp.nanmedian(mean))
    return jnp.where(healthy, jnp.where(jnp.isnan(mean), middle, mean), -jnp.inf)


def _take(tree: Any, index: jax.Array) -> Any:
    """Copy the members with these numbers, except for random keys: each member keeps its own."""
    return jax.tree.map(lambda leaf: leaf if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key) else leaf[index], tree)


def _explore(space: Dimensions, resample: float, h: Any, key: jax.Array) -> Any:
    """Changed hyperparameters, near the old ones or redrawn."""
    changed = {}
    for (name, dimension), k in zip(space.items(), jax.random.split(key, len(space)), strict=True):
        key_up, key_which, key_share = jax.random.split(k, 3)
        up, share = jax.random.bernoulli(key_up), jax.random.uniform(key_share, (), jnp.float32)
        near = _moved(dimension, getattr(h, name), up)
        anew = jax.random.bernoulli(key_which, resample)
        changed[name] = jnp.where(anew, _at(dimension, share), near)
    return dataclasses.replace(h, **changed)


def _at(dimension: Range | Choice, share: jax.Array) -> jax.Array:
    """`dimension.at(share)` for a traced `share`."""
    if isinstance(dimension, Choice):
        values = jnp.asarray(np.array(dimension.values, np.float32))
        return values[(share * len(dimension.values)).astype(jnp.int32)]
    low, high = (math.log(end) if dimension.log else end for end in (dimension.low, dimension.high))
    value = low + share * (high - low)
    return jnp.exp(value) if dimension.log else value


def _moved(dimension: Range | Choice, value: jax.Array, up: jax.Array) -> jax.Array:
    """A value near `value`, within the space."""
    if isinstance(dimension, Choice):
        values = jnp.asarray(np.sort(np.array(dimension.values, np.float32)))
        now = jnp.argmin(jnp.abs(values - value))
        return values[jnp.clip(now + jnp.where(up, 1, -1), 0, len(dimension.values) - 1)]
    if dimension.log:
        near = value * jnp.where(up, _FACTORS[1], _FACTORS[0])
    else:
        near = value + jnp.where(up, _STEP, -_STEP) * (dimension.high - dimension.low)
    return jnp.clip(near, dimension.low, dimension.high)
