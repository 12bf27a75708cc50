"""Running statistics against NumPy on all data at once."""

from __future__ import annotations

from typing import Any

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from family import collect

from jaxrl.acting.normaliser import (
    Moments,
    discounted_returns,
    merge,
    merge_shards,
    moments_of,
    new_moments,
    new_normaliser,
    normalised,
    scale_reward,
    scaled_rewards,
    standardise,
    update_obs_stats,
)
from jaxrl.acting.rollout import Observation, Transition
from jaxrl.algos import mappo, ppo
from jaxrl.environment import Environment
from jaxrl.spaces import Box

U, S, B, N, D = 5, 4, 8, 3, 2  # updates, shards


@pytest.fixture(scope="module")
def data():
    """Samples `[U, S * B, N, D]` whose distribution drifts, and who is alive."""
    rng = np.random.default_rng(0)
    x = rng.normal(rng.normal(size=(U, 1, 1, D)) * 3, [0.01, 100.0], (U, S * B, N, D)).astype(np.float32)
    return x, rng.random((U, S * B, N)) < 0.7


def running(x, alive, order):
    state = new_moments((D,))
    for u in order:
        state = merge(state, moments_of(jnp.asarray(x[u]), jnp.asarray(alive[u])))
    return state


def check(moments, samples):
    np.testing.assert_array_equal(moments.count, [0, len(samples)])
    np.testing.assert_allclose(moments.mean, samples.mean(0, dtype=np.float64), rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(moments.variance, samples.var(0, dtype=np.float64), rtol=1e-4)


@pytest.mark.quick
def test_equals_numpy_on_the_living_samples_in_any_order(data):
    x, alive = data
    spoiled = np.where(alive[..., None], x, np.nan)  # what the dead see must not matter at all
    for order in (range(U), reversed(range(U))):
        check(running(spoiled, alive, order), x[alive])


def test_shards_merge_to_the_whole(data):
    x, alive = data
    shard = jax.vmap(lambda x, w: merge_shards(moments_of(x, w), "data"), axis_name="data")
    whole = shard(x[0].reshape(S, B, N, D), alive[0].reshape(S, B, N))
    for s in range(S):  # every shard has the same result
        check(jax.tree.map(lambda leaf, s=s: leaf[s], whole), x[0][alive[0]])


def test_batches_without_the_living_change_nothing(data):
    x, alive = data
    state = running(x, alive, range(2))
    nobody = moments_of(jnp.asarray(x[2]), jnp.zeros((S * B, N), bool))
    chex.assert_trees_all_equal(merge(state, nobody), state)
    empty = merge(new_moments((D,)), nobody)
    np.testing.assert_array_equal(standardise(jnp.asarray(x[0]), empty), x[0])


def test_counts_and_learns_beyond_a_billion_samples():
    """4.4e9 samples of mean 1 and variance 4, then as many of mean 3: float32 would have stopped counting."""
    size = 1_000_000
    batches = 4_400

    def seen(mean):
        return Moments(jnp.array([0, size], jnp.uint32), jnp.full((1,), mean), jnp.full((1,), 4.0))

    @jax.jit
    def feed(state, mean):
        return jax.lax.scan(lambda s, _: (merge(s, seen(mean)), None), state, length=batches)[0]

    state = feed(feed(new_moments((1,)), 1.0), 3.0)
    total = 2 * batches * size
    np.testing.assert_array_equal(state.count, [total >> 32, total & 0xFFFFFFFF])
    np.testing.assert_allclose(state.mean, 2.0, rtol=1e-4)
    np.testing.assert_allclose(state.variance, 4.0 + 1.0, rtol=1e-4)


def test_standardised_observations_have_mean_0_and_deviation_1_and_are_clipped(data):
    x, alive = data
    state = running(x, alive, range(U))
    y = np.asarray(standardise(jnp.asarray(x), state))[alive]
    np.testing.assert_allclose(y.mean(0), 0.0, atol=1e-3)
    np.testing.assert_allclose(y.std(0), 1.0, rtol=1e-3)
    assert standardise(jnp.full(D, 1e9), state, clip=5.0).tolist() == [5.0, 5.0]
    constant = merge(new_moments(()), moments_of(jnp.full(10, 7.0), jnp.ones(10)))
    assert standardise(jnp.float32(7.0), constant) == 0  # a component that never varies


def test_rewards_are_divided_by_the_deviation_of_returns_begun_anew_after_a_cut():
    steps, gamma = 12, 0.9
    rng = np.random.default_rng(0)
    reward = rng.normal(2.0, 3.0, (steps, B)).astype(np.float32)
    cut = rng.random((steps, B)) < 0.2
    expected, total = np.zeros((steps, B)), np.zeros(B)
    for t in range(steps):
        total = gamma * total + reward[t]
        expected[t] = total
        total = np.where(cut[t], 0.0, total)
    half = steps // 2
    carry, first = discounted_returns(jnp.zeros(B), jnp.asarray(reward[:half]), jnp.asarray(cut[:half]), gamma)
    last, second = discounted_returns(carry, jnp.asarray(reward[half:]), jnp.asarray(cut[half:]), gamma)
    np.testing.assert_allclose(np.concatenate([first, second]), expected, rtol=1e-5)
    np.testing.assert_allclose(last, total, rtol=1e-5)

    moments = new_moments(())
    np.testing.assert_array_equal(scale_reward(jnp.asarray(reward), moments), reward)
    for returns in (first, second):
        moments = merge(moments, moments_of(returns, jnp.ones(returns.shape)))
    np.testing.assert_allclose(scale_reward(jnp.asarray(reward), moments), reward / expected.std(), rtol=1e-4)
    assert scale_reward(jnp.float32(1e6), moments, clip=3.0) == 3.0


T, B, N = 5, 4, 3
PARAM_SETS = (0, 1, 0)


class Spaces(Environment):
    """Of an environment, all that a normaliser asks for."""

    def observation_space(self, params=None):
        return Box(-1.0, 1.0, (2,))


@pytest.fixture
def observation():
    rng = np.random.default_rng(0)
    obs = rng.normal(3.0, 2.0, (T, B, N, 2)).astype(np.float32) * (1 + np.arange(N)[:, None])
    return Observation(jnp.asarray(obs), jnp.asarray(obs[:, :, 0]), None, jnp.asarray(rng.random((T, B, N)) < 0.7))


def test_observations_get_mean_0_and_deviation_1_over_the_living_of_a_group(observation):
    fresh = new_normaliser(Spaces(), PARAM_SETS, obs=True, reward=True, global_state_size=2)
    jax.tree.map(
        np.testing.assert_array_equal, normalised(fresh, observation, PARAM_SETS), observation
    )  # nothing is known yet
    update = jax.jit(lambda seen: normalised(update_obs_stats(fresh, seen, PARAM_SETS), seen, PARAM_SETS))
    seen = update(observation)
    for group in range(2):
        who = np.equal(PARAM_SETS, group)
        living = np.asarray(seen.obs)[:, :, who][np.asarray(observation.agent_mask)[:, :, who]]
        np.testing.assert_allclose(living.mean(0), 0.0, atol=1e-5)
        np.testing.assert_allclose(living.std(0), 1.0, atol=1e-4)
    np.testing.assert_allclose(np.asarray(seen.global_state).reshape(-1, 2).std(0), 1.0, atol=1e-4)


def test_rewards_are_divided_by_the_deviation_of_the_discounted_returns(observation):
    rng = np.random.default_rng(1)
    reward = rng.normal(2.0, 3.0, (T, B, N)).astype(np.float32)
    cut = rng.random((T, B)) < 0.3
    none: Any = np.zeros(())
    seen = Transition(observation, none, (), none, {}, jnp.asarray(reward), none, jnp.asarray(cut), none)
    fresh = new_normaliser(Spaces(), PARAM_SETS, obs=True, reward=True)
    _, going_on, scaled = scaled_rewards(fresh, jnp.zeros((B, N)), seen, PARAM_SETS, jnp.float32(0.9))
    sums, total = np.zeros((T, B, N)), np.zeros((B, N))
    for t in range(T):
        total = 0.9 * total + reward[t]
        sums[t] = total
        total = np.where(cut[t][:, None], 0.0, total)
    np.testing.assert_allclose(going_on, total, rtol=1e-5)
    for agent, group in enumerate(PARAM_SETS):
        who = np.equal(PARAM_SETS, group)
        deviation = sums[:, :, who][np.asarray(observation.agent_mask)[:, :, who]].std()
        np.testing.assert_allclose(scaled[..., agent], reward[..., agent] / deviation, rtol=1e-4)


def test_training_counts_every_observation_of_the_living_once():
    """After U updates the moments are those of all U rollouts, which start with what the last one ended with."""
    sizes = {"num_envs": 4, "num_steps": 8, "total_timesteps": 64, "hidden": (8,), "critic_hidden": (8,)}
    config = mappo.Config(env="probe/death", normalise_obs=True, **sizes)
    algo = mappo.make(config)
    first = jax.jit(algo.init)(jax.random.key(0))
    state, _ = jax.jit(algo.update)(first)
    state, _ = jax.jit(algo.update)(state)
    # Agent 0 lives in all 4 steps of each episode, agent 1 in 2: 2 updates x 8 steps x 4 environments x 1.5.
    assert int(state.normaliser.obs.count[0, 1]) == 2 * 8 * 4 * 3 // 2
    assert int(state.normaliser.global_state.count[1]) == 2 * 8 * 4
    times = np.array([0.0, 0.25, 0.5, 0.75, 0.0, 0.25])  # what the living see in an episode
    np.testing.assert_allclose(state.normaliser.obs.mean[0, 0], times.mean(), rtol=1e-5)
    np.testing.assert_allclose(state.normaliser.obs.variance[0, 0], times.var(), rtol=1e-4)


def test_a_rollout_keeps_raw_observations():
    config = ppo.Config(env="CartPole-v1", num_envs=4, num_steps=8, total_timesteps=64, hidden=(8,))
    algo = ppo.make(config)
    seen = collect(algo, jax.jit(algo.init)(jax.random.key(0)), jax.random.key(1))
    assert np.abs(np.asarray(seen.observation.obs)).max() < 3.0
