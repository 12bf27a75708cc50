"""All agents as one team that shares what its members earn."""

import pickle

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxrl
from jaxrl.algos import ippo
from jaxrl.wrappers import SharedReward


def test_each_agent_of_the_one_team_gets_the_mean_reward() -> None:
    plain = jaxrl.make("mpe/simple_spread")
    shared = SharedReward(plain)  # pyright: ignore[reportArgumentType]
    assert shared.teams == (0, 0, 0)
    keys = jax.random.split(jax.random.key(0), 16)
    obs, state = jax.jit(jax.vmap(plain.reset))(keys)
    # All in one place: some collide, so rewards differ between agents.
    action = jax.random.randint(jax.random.key(1), (16, 3), 0, 5, jnp.int32)
    own, mean = [], []
    for env, rewards in ((plain, own), (shared, mean)):
        now, step = state, jax.jit(env.batch_step)
        for t in range(8):
            seen, now, reward, *_ = step(jax.random.split(jax.random.key(t), 16), now, action)
            np.testing.assert_array_equal(seen.shape, obs.shape)
            rewards.append(np.asarray(reward))
    assert np.ptp(own, axis=-1).max() > 0
    np.testing.assert_allclose(mean, np.broadcast_to(np.mean(own, axis=-1, keepdims=True), np.shape(own)), rtol=1e-5)


def test_it_keeps_the_contract() -> None:
    jaxrl.check_env(ippo.Config(env="probe/credit", shared_reward=True).make_env())


def test_it_can_be_pickled() -> None:
    again = pickle.loads(pickle.dumps(SharedReward(jaxrl.make("mpe/simple_spread"))))
    assert again.teams == (0, 0, 0)


def test_a_single_agent_has_nobody_to_share_with() -> None:
    with pytest.raises(TypeError, match="SharedReward needs an environment with several agents"):
        SharedReward(jaxrl.make("classic/cartpole"))  # pyright: ignore[reportArgumentType]
