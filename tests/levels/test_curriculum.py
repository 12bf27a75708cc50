"""Training on chosen levels: what is played, what is learned from, what the pool keeps."""

import dataclasses
from functools import cache
from itertools import pairwise
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from eleven import Eleven
from scipy import stats

from jaxrl.algos import dqn, iql, mappo, ppo, pqn
from jaxrl.rl.devices import SIDE_BY_SIDE
from jaxrl.train.programs import side_by_side

SMALL: dict[str, Any] = {"num_envs": 32, "num_steps": 8, "total_timesteps": 10**7, "hidden": (8,)}
ONE_STEP = Eleven()


def config_of(levels: str, env: Any = ONE_STEP, module: Any = ppo, **fields: Any) -> Any:
    return module.Config(env=env, levels=levels, **{**SMALL, "num_minibatches": 1, "update_epochs": 1, **fields})


@cache
def program(config: Any, module: Any = ppo) -> tuple[Any, Any]:
    algo = module.make(config)
    return algo, jax.jit(algo.update)


def after(config: Any, updates: int, look: Any = lambda state: None, module: Any = ppo) -> tuple[Any, list[Any]]:
    """The state after some updates, what `look` saw of the state after each of them, and the last metrics."""
    algo, update = program(config, module)
    state, seen, metrics = algo.init(jax.random.key(0)), [], {}
    for _ in range(updates):
        state, metrics = update(state)
        seen.append(look(state))
    return state, [*seen, metrics]


def pool_of(state: Any) -> tuple[np.ndarray, np.ndarray]:
    """The levels of the pool and their scores."""
    levels = state.runner.env_state
    filled = np.asarray(levels.book.score) > -np.inf
    return np.asarray(levels.pool[1].level)[filled], np.asarray(levels.book.score)[filled]


def playing(state: Any) -> np.ndarray:
    return np.asarray(state.runner.env_state.env.level)


def equal(a: Any, b: Any) -> bool:
    return all(bool((x == y).all()) for x, y in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True))


def test_sfl_keeps_the_levels_that_are_won_half_of_the_time():
    """Of 256 candidates some 23 are of each level, each played 400 times: the best 64 are levels 5, 4 and 6."""
    state, _ = after(config_of("sfl?keep=64&candidates=256&steps=400&every=5"), 1)
    levels, scores = pool_of(state)
    assert set(levels) == {4, 5, 6}
    assert set(levels[:15]) == {5}
    np.testing.assert_allclose(scores[:15], 0.25, atol=0.005)


def test_sfl_plays_a_share_of_its_levels():
    config = config_of("sfl?keep=64&candidates=256&steps=400&every=5&share=0.5")
    _, seen = after(config, 40, playing)
    counts = np.bincount(np.concatenate(seen[5:-1]), minlength=11)
    ends = counts[[0, 1, 9, 10]] / counts.sum()
    np.testing.assert_allclose(ends, 0.5 / 11, atol=0.02)  # only new levels
    assert counts[4:7].sum() / counts.sum() == pytest.approx(0.5 + 0.5 * 3 / 11, abs=0.04)


def test_random_levels_are_drawn_evenly():
    """And `slot` says that they are new: a share of 0 plays nothing from the pool."""
    state, seen = after(config_of("plr?size=64&share=0&tries=2"), 60, playing)
    counts = np.bincount(np.concatenate(seen[:-1:2]), minlength=11)
    assert stats.chisquare(counts).pvalue > 1e-3
    assert (np.asarray(state.runner.env_state.slot) == -1).all()
    assert float(seen[-1]["levels"]["replayed"]) == 0.0


def test_prioritised_replay_turns_to_levels_that_are_neither_sure_nor_hopeless():
    config = config_of("plr?size=8&share=0.7&staleness=0.1&tries=8&min_fill=0.5", num_steps=16)
    _, seen = after(config, 100, playing)
    counts = np.bincount(np.concatenate(seen[20:-1]), minlength=11) / (80 * 32)
    assert counts[[0, 1, 9, 10]].max() < counts[3:8].min()
    assert counts[[0, 10]].max() < 0.3 / 11 + 0.02 + 0.03  # new ones, and a pool of 8 that holds nearly all


def test_what_can_be_learned_leaves_the_pool_once_it_is():
    """Levels won by one of two actions are of use as long as the policy does not know which."""
    config = config_of("sfl?keep=64&candidates=256&steps=100&every=4", Eleven(by_action=True), lr=2e-2)
    first, _ = after(config, 1)
    last, seen = after(config, 150)
    assert pool_of(first)[1].mean() > 0.2
    assert pool_of(last)[1].mean() < 0.05
    assert float(seen[-1]["won_sum"] / seen[-1]["episodes"]) > 0.9


@pytest.mark.parametrize("module", [ppo, mappo])
def test_robust_replay_learns_from_the_pool_alone(module):
    """Without a share for the pool, ten updates leave parameters and statistics as they were, bit by bit."""
    levels = "plr?size=64&share=0&robust=true"
    config = config_of(levels, module=module, normalise_obs=True, normalise_reward=True)
    start = program(config, module)[0].init(jax.random.key(0))
    state, seen = after(config, 10, module=module)
    assert equal((state.params, state.normaliser), (start.params, start.normaliser))
    assert float(seen[-1]["levels"]["trains"]) == 0.0
    assert len(pool_of(state)[0]) > 0


def test_robust_replay_is_replay_where_all_levels_come_from_the_pool():
    always = "plr?size=8&share=1&tries=2&min_fill=1"
    state, _ = after(config_of(always), 30)
    assert (np.asarray(state.runner.env_state.slot) >= 0).all()
    updates = (program(config_of(text))[1] for text in (always, f"{always}&robust=true"))
    one, other = (u(dataclasses.replace(state, key=jax.random.clone(state.key)))[0] for u in updates)
    assert equal(one.params, other.params)
    assert not equal(one.params, state.params)


def test_the_level_is_the_same_until_it_is_left():
    """With three tries of four steps each, a level lasts twelve steps or more, over rollouts of eight."""
    state, seen = after(
        config_of("plr?size=64&tries=3", Eleven(length=4)), 6, lambda s: (playing(s), s.runner.env_state)
    )
    for (before, _), (now, levels) in pairwise(seen[:-1]):
        stayed = np.asarray(levels.tally.plays) * 4 + 4 > 8  # more steps on it than the rollout had
        np.testing.assert_array_equal(now[stayed], before[stayed])
        np.testing.assert_array_equal(np.asarray(levels.start[1].level), now)
        assert (np.asarray(levels.tally.plays) <= 4).all()
    assert state.update == 6


def test_accel_edits_what_it_draws():
    """Edits go up by one level: from a pool without new levels, all that is played stems from its first ones."""
    env = Eleven()
    config = config_of("accel?size=64&share=0.4&edit_share=1&edits=3&tries=2&min_fill=0.1&score=variance", env)
    _, seen = after(config, 12, lambda s: (playing(s), pool_of(s)[0], np.asarray(s.runner.env_state.slot)))
    for (_, pool, _), (now, _, slot) in pairwise(seen[3:-1]):
        assert set(now[slot < 0]) <= {(level + 3) % 11 for level in pool}
        assert set(now[slot >= 0]) <= set(pool)


@pytest.mark.parametrize("score", ["maxmc", "pvl", "l1"])
def test_scores_by_values_are_in_units_of_the_reward(score):
    """A hundred times the reward, of which the policy sees the same after scaling, is a hundred times the score."""
    pools = []
    for prize in (1.0, 100.0):
        env = Eleven(length=2, prize=prize)
        state, _ = after(config_of(f"plr?size=64&score={score}", env, normalise_reward=True), 12)
        pools.append(pool_of(state))
    (levels, scores), (others, hundredfold) = pools
    np.testing.assert_array_equal(levels, others)
    np.testing.assert_allclose(hundredfold, 100 * scores, rtol=0.02, atol=0.05)


def test_seeds_side_by_side_are_the_seeds_alone():
    config = config_of("sfl?keep=64&candidates=64&steps=8&every=2")
    algo, update = program(config)
    keys = jax.random.split(jax.random.key(0), 2)
    together = jax.vmap(algo.init)(keys)
    both = jax.jit(side_by_side(algo.update, 2))
    alone = algo.init(jax.random.split(jax.random.key(0), 2)[1])
    for _ in range(3):
        (together, _), (alone, _) = both(together), update(alone)
    second = jax.tree.map(lambda leaf: leaf[1], together)
    np.testing.assert_array_equal(second.runner.env_state.pool[1].level, alone.runner.env_state.pool[1].level)
    for a, b in zip(jax.tree.leaves(second.params), jax.tree.leaves(alone.params), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6)


def test_candidates_are_sought_only_when_it_is_time_for_all_seeds():
    """Beside each other, seeds have one condition; without the name of their axis, each would have its own."""
    config = config_of("sfl?keep=64&candidates=64&steps=8&every=2")
    algo, _ = program(config)
    state = jax.eval_shape(jax.vmap(algo.init), jax.random.split(jax.random.key(0), 2))

    def branches(update: Any) -> list[Any]:
        """The conditions, at any depth, that choose between whole pools."""
        found, left = [], [jax.make_jaxpr(update)(state).jaxpr]
        while left:
            for equation in left.pop().eqns:
                inner = [getattr(v, "jaxpr", v) for v in jax.tree.leaves(list(equation.params.values()))]
                left += [jaxpr for jaxpr in inner if hasattr(jaxpr, "eqns")]
                shapes = [getattr(v.aval, "shape", ()) for v in equation.outvars]
                found += [equation] if equation.primitive.name == "cond" and (2, 64, 1, 12) in shapes else []
        return found

    assert len(branches(jax.vmap(algo.update, axis_name=SIDE_BY_SIDE))) == 1
    assert not branches(jax.vmap(algo.update))


@pytest.mark.parametrize("module", [dqn, iql, mappo, pqn])
def test_other_algorithms_take_levels(module):
    """Traced only: the pool and its metrics are there, whatever learns."""
    env = "probe/death" if module in (iql, mappo) else ONE_STEP
    fields = {"buffer_size": 32 * 8 * 4, "learning_starts": 0} if module in (dqn, iql) else {}
    algo = module.make(module.Config(env=env, levels="plr?size=64&score=variance", **SMALL, **fields))
    state = jax.eval_shape(algo.init, jax.random.key(0))
    after, metrics = jax.eval_shape(algo.update, state)
    assert after.runner.env_state.book.score.shape == (64,)
    assert set(metrics["levels"]) == {"filled", "effective", "score", "replayed", "trains"}


def test_random_levels_cost_nothing():
    """`levels="dr"` is the program without levels."""
    plain, random = (ppo.make(dataclasses.replace(config_of("dr"), levels=text)) for text in ("", "dr"))
    key = jax.random.key(0)
    state = jax.eval_shape(plain.init, key)
    assert isinstance(state.runner.env_state.level, jax.ShapeDtypeStruct)  # the environments' own state
    assert str(jax.make_jaxpr(plain.update)(state)) == str(jax.make_jaxpr(random.update)(state))


def test_steps_that_judge_are_steps():
    config = config_of("sfl?keep=64&candidates=100&steps=40&every=10")
    assert config.steps_per_update == 32 * 8 + 4 * 32 * 40 // 10  # 100 candidates are 4 batches of 32
    assert config.num_updates == SMALL["total_timesteps"] // config.steps_per_update
    assert jnp.isfinite(jnp.float32(config.num_updates))
