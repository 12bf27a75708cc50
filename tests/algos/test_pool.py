"""Training with `reset="pool"`: starts are made anew, and every environment draws from all of them."""

import dataclasses
from typing import Any

import jax
import numpy as np
import pytest

from jaxrl.algos import ippo, ppo
from jaxrl.envs.classic.cartpole import CartPole

# Episodes of one step: what an environment sees after an update is a start of the pool.
CONFIG: Any = ppo.Config(
    env="CartPole-v1?max_steps=1",
    num_envs=8,
    num_steps=2,
    num_minibatches=1,
    update_epochs=1,
    total_timesteps=16 * 100,
    hidden=(4,),
    num_shards=4,
    reset="pool",
    pool_size=16,
)


def trained(config: Any, updates: int) -> tuple[np.ndarray, np.ndarray]:
    """The pool's starts `[U + 1, P, 4]`, and what the environments see `[U + 1, B, 4]`, before and after U updates."""
    algo = ppo.make(config)

    @jax.jit
    def run(key):
        start = algo.init(key)
        look = lambda state: (state.runner.env_state.pool[0][:, 0], state.runner.obs[:, 0])  # noqa: E731

        def step(state, _):
            state, _ = algo.update(state)
            return state, look(state)

        return look(start), jax.lax.scan(step, start, length=updates)[1]

    first, later = run(jax.random.key(0))
    pool, obs = (np.concatenate([np.asarray(a)[None], b]) for a, b in zip(first, later, strict=True))
    return pool, obs


def rows(array: np.ndarray) -> set[tuple[float, ...]]:
    return {tuple(row) for row in array.reshape(-1, array.shape[-1]).tolist()}


@pytest.mark.parametrize(
    ("share", "new"),
    [(0.3, 8), *(pytest.param(*case, marks=pytest.mark.slow) for case in ((0.25, 4), (1.0, 16), (0.0, 0)))],
)
def test_each_update_begins_with_new_starts(share, new):
    """Of each of the 4 shards as many, and the oldest go first."""
    pool, obs = trained(dataclasses.replace(CONFIG, pool_refresh=share), 5)
    for before, after, seen in zip(pool[:-1], pool[1:], obs[1:], strict=True):
        before, after = before.reshape(4, 4, 4), after.reshape(4, 4, 4)
        np.testing.assert_array_equal(after[:, : 4 - new // 4], before[:, new // 4 :])
        assert len(rows(after) - rows(before)) == new
        assert rows(seen) <= rows(after)
    assert len(rows(pool)) == 16 + 5 * new


def test_every_environment_draws_from_the_starts_of_all_shards():
    pool, obs = trained(dataclasses.replace(CONFIG, pool_refresh=0.0), 100)
    for env in range(CONFIG.num_envs):
        assert rows(obs[1:, env]) == rows(pool)


def test_steps_make_no_starts(monkeypatch):
    """The one reset in an update is that of the new starts: without these there is none."""
    drawn = []
    reset = CartPole.reset_env
    monkeypatch.setattr(CartPole, "reset_env", lambda self, key, params: drawn.append(1) or reset(self, key, params))
    algo = ppo.make(CONFIG)
    state = jax.eval_shape(algo.init, jax.random.key(0))
    drawn.clear()
    jax.eval_shape(algo.update, state)
    assert len(drawn) == 1
    drawn.clear()
    fixed = ppo.make(dataclasses.replace(CONFIG, pool_refresh=0.0))
    jax.eval_shape(fixed.update, state)
    assert not drawn


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"pool_refresh": 1.5}, "pool_refresh must lie between 0 and 1, got 1.5"),
        ({"pool_refresh": -0.5}, "pool_refresh must lie between 0 and 1"),
        ({"pool_size": -4}, "pool_size must not be negative, got -4"),
        ({"pool_size": 6}, "pool_size=6 is not divisible by the 4 shards of the environments; use pool_size=8"),
        ({"reset": "fresh"}, "pool_size=16 has no effect with reset=fresh"),
        ({"reset": "fresh", "pool_size": 0, "pool_refresh": 0.5}, "pool_refresh=0.5 has no effect with reset=fresh"),
    ],
)
def test_sizes_that_do_not_fit_are_refused(fields, message):
    with pytest.raises(ValueError, match=message):
        ppo.make(dataclasses.replace(CONFIG, **fields))


@pytest.mark.parametrize(("num_envs", "starts"), [(16, 128), (96, 192), (128, 128), (1000, 1000)])
def test_the_usual_pool_has_at_least_128_starts_and_suits_any_shards(num_envs, starts):
    config = ippo.Config(num_envs=num_envs, reset="pool")
    assert config.starts == starts
    assert starts % config.shards == 0
