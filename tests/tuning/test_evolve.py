"""A new generation: who is replaced by whom, what is taken over, how hyperparameters change."""

import dataclasses
from collections.abc import Sequence
from functools import cache, partial
from typing import Any

import echo
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxrl.algos import ppo
from jaxrl.train.programs import initial_state
from jaxrl.tuning.pbt import Member, evolve, population
from jaxrl.tuning.search_space import Choice, Range

M, GENERATIONS, EVERY = 8, 3, 2
SPACE: dict[str, Range | Choice] = {"lr": Range(1e-6, 1e-1, log=True)}


def members(score: Sequence[float], lr: float | None = None, update: int = EVERY) -> Member:
    """Members at the end of the first generation, with these scores."""
    count = len(score)
    rates = np.geomspace(1e-5, 1e-2, count) if lr is None else np.full(count, lr)
    keys = jax.random.split(jax.random.key(0), count)
    state: Any = _init(count)(keys, echo.Hyperparams(np.float32(rates), np.zeros(count, np.float32)))
    numbers = {"theta": jnp.arange(count, dtype=jnp.float32)}
    own = dataclasses.replace(state.own, params=numbers, update=jnp.full(count, update))
    return dataclasses.replace(state, own=own, score_sum=jnp.array(score, jnp.float32), episodes=jnp.ones(count))


def bred(state: Member, resample: float = 0.0, space: dict[str, Range | Choice] = SPACE) -> Any:
    """The next generation."""
    return _compiled(resample, tuple(space.items()))(state)


@cache
def _compiled(resample: float, space: tuple[Any, ...]) -> Any:
    return jax.jit(partial(evolve, dict(space), 0.25, resample, EVERY))


@cache
def _init(count: int) -> Any:
    return jax.jit(partial(initial_state, population(echo.make(echo.Config()), GENERATIONS), count))


def bits(keys: jax.Array) -> np.ndarray:
    return np.asarray(jax.random.key_data(jax.random.clone(keys)))


def test_the_worst_quarter_takes_over_the_best_quarter() -> None:
    before = members([3, 1, 8, 2, 5, 7, 4, 6])
    before_keys, before_loop = bits(before.own.key), np.asarray(before.own.runner)
    after = bred(before)
    parent = np.asarray(after.past.parent[:, 1])
    replaced = [1, 3]
    assert [m for m in range(M) if parent[m] != m] == replaced
    assert set(parent[replaced]) <= {2, 5}
    np.testing.assert_array_equal(after.own.params["theta"], parent)  # each had its own number
    old, new = np.asarray(before.own.hyperparams.lr), np.asarray(after.own.hyperparams.lr)
    for m in range(M):
        factor = new[m] / old[parent[m]]
        np.testing.assert_allclose(factor, 1.0 if m not in replaced else 0.8 if factor < 1 else 1.2, rtol=1e-6)
    np.testing.assert_array_equal(bits(after.own.key), before_keys)  # keys and environments stay each member's own
    np.testing.assert_array_equal(after.own.runner, before_loop)
    assert len(np.unique(bits(after.key), axis=0)) == M
    np.testing.assert_array_equal(after.past.score[:, 0], [3, 1, 8, 2, 5, 7, 4, 6])
    np.testing.assert_array_equal(after.past.hyperparams.lr[:, 1], new)
    np.testing.assert_array_equal(after.episodes, np.zeros(M))


def test_generations_are_no_wider_in_64_bit_mode() -> None:
    config = ppo.Config(num_envs=4, num_steps=8, total_timesteps=256, hidden=(4,))

    def shapes() -> Any:
        grown = population(ppo.make(config), GENERATIONS)
        state = jax.eval_shape(partial(initial_state, grown, M), jax.random.split(jax.random.key(0), M))
        after, _ = jax.eval_shape(jax.vmap(grown.update), state)
        return state, after, jax.eval_shape(partial(evolve, SPACE, 0.25, 0.5, EVERY), after)

    usual = shapes()
    with jax.enable_x64(True):
        assert jax.tree.leaves(shapes()) == jax.tree.leaves(usual)


def test_a_diverged_member_is_replaced_whatever_its_score() -> None:
    state = members([1, 2, 3, 4, 5, 6, 7, 9])
    loop = np.asarray(state.own.runner)
    state.own.params["theta"] = state.own.params["theta"].at[7].set(jnp.nan)
    after = bred(state)
    parent = np.asarray(after.past.parent[:, 1])
    assert parent[7] in (5, 6)
    assert np.isfinite(after.own.params["theta"]).all()
    np.testing.assert_array_equal(np.asarray(after.own.runner)[7], loop[parent[7]])  # it may have spoilt its own
    assert after.past.score[7, 0] == -np.inf


def test_random_keys_stay_wherever_a_state_has_them() -> None:
    """Some environments keep one in their state, which a diverged member takes over."""
    state = members([1, 2, 3, 4, 5, 6, 7, 9])
    keys = jax.random.split(jax.random.key(1), M)
    before = bits(keys)
    state.own.params["theta"] = state.own.params["theta"].at[7].set(jnp.nan)
    state = dataclasses.replace(state, own=dataclasses.replace(state.own, runner={"key": keys, "pose": jnp.arange(M)}))
    after = bred(state)
    assert after.own.runner["pose"][7] == after.past.parent[7, 1] != 7
    np.testing.assert_array_equal(bits(after.own.runner["key"]), before)


def test_who_ended_no_episode_is_neither_replaced_nor_a_parent() -> None:
    state = members(range(M))
    state = dataclasses.replace(state, episodes=state.episodes.at[0].set(0))
    parent = np.asarray(bred(state).past.parent[:, 1])
    assert [m for m in range(M) if parent[m] != m] == [1, 2]


@pytest.mark.parametrize(("update", "breeds"), [(1, False), (2, True), (4, True), (5, False), (6, False)])
def test_a_generation_begins_when_it_is_time(update: int, breeds: bool) -> None:
    after = bred(members(range(M), update=update))
    assert (float(after.episodes.sum()) == 0) == breeds


@pytest.mark.parametrize(
    ("dimension", "value", "near"),
    [
        (Range(1e-4, 1e-2, log=True), 1e-3, [8e-4, 1.2e-3]),
        (Range(1e-4, 1e-2, log=True), 1e-2, [8e-3, 1e-2]),
        (Range(1e-3, 1e-2, log=True), 1e-6, [1e-3, 1e-3]),  # begun outside of the range
        (Range(0.9, 1.0, log=False), 0.95, [0.94, 0.96]),
        (Choice((0.1, 0.4, 0.2)), 0.2, [0.1, 0.4]),
        (Choice((0.1, 0.4, 0.2)), 0.4, [0.2, 0.4]),
    ],
)
def test_a_hyperparameter_moves_within_its_space(dimension: Any, value: float, near: list[float]) -> None:
    state = members(range(64), lr=value)
    found = set(np.asarray(bred(state, space={"lr": dimension}).own.hyperparams.lr)[:16].tolist())
    np.testing.assert_allclose(sorted(found), sorted(set(near)), rtol=1e-5)


@pytest.mark.parametrize("dimension", [Range(1e-4, 1e-2, log=True), Range(0.2, 0.4, log=False), Choice((1.0, 2.0))])
def test_a_resampled_hyperparameter_covers_its_space(dimension: Any) -> None:
    drawn = np.asarray(bred(members(range(800)), resample=1.0, space={"lr": dimension}).own.hyperparams.lr)[:200]
    middle = np.float32(dimension.at(0.5 - 1e-9))
    assert 0.4 < (drawn <= middle).mean() < 0.6
    assert drawn.min() >= np.float32(dimension.at(0.0))
    assert drawn.max() <= np.float32(dimension.at(1 - 1e-9)) * 1.0001
