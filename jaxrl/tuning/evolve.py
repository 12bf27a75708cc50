"""A population that evolves inside the compiled loop: its members, and the step to a new generation."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxrl.algorithm import Algorithm, Metrics, Nested, Replicated, field_names
from jaxrl.rl.devices import member_index
from jaxrl.rl.finite import all_finite
from jaxrl.tuning.search_space import Choice, Range

__all__ = ["Member", "Past", "evolve", "population"]

Dimensions = Mapping[str, Range | Choice]

_STREAM = 3  # of a seed's key; see `seed_keys`
_FACTORS = (0.8, 1.2)
_STEP = 0.1


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
