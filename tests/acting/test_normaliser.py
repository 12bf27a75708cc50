"""Running normalisation in training: exact, by parameter group, and the same within an update."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from family import collect

from jaxrl.acting.collector import Observation
from jaxrl.acting.normaliser import new_normaliser, normalised, scaled_rewards, update_obs_stats
from jaxrl.acting.rollout import Transition
from jaxrl.algos import mappo, ppo
from jaxrl.environment import Environment
from jaxrl.spaces import Box

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
