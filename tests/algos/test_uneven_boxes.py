"""Continuous actions of different sizes: what pads the smaller ones counts in no density, entropy or ratio."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from family import agent_of, collect

from jaxrl.acting.agent import own_numbers
from jaxrl.acting.rollout import Observation
from jaxrl.algos import ippo, mappo

ENV = "mpe/simple_speaker_listener?action_type=continuous"  # a word of three numbers, and a move of five
SIZES = [3, 5]
SMALL: dict[str, Any] = {"num_envs": 4, "num_steps": 8, "total_timesteps": 64, "num_minibatches": 2, "hidden": (8,)}


@pytest.fixture(scope="module", params=["ippo", "mappo"])
def agent(request: pytest.FixtureRequest):
    """The agent, its train state and a rollout."""
    module = {"ippo": ippo, "mappo": mappo}[request.param]
    algo = module.make(module.Config(env=ENV, squash=request.param == "mappo", **SMALL))
    state = jax.jit(algo.init)(jax.random.key(0))
    return agent_of(algo), state, collect(algo, state, jax.random.key(1))


def policy_of(agent, state, traj):
    start = jax.tree.map(lambda leaf: leaf[0], traj.carry)
    return agent.networks.apply(state.params, start, traj.observation, traj.reset)[1]


def test_own_numbers_are_those_of_each_agents_own_space(agent):
    assert own_numbers(agent[0].env).sum(axis=1).tolist() == SIZES


def test_padding_changes_no_log_probability(agent):
    agent, state, traj = agent
    policy = policy_of(agent, state, traj)
    np.testing.assert_allclose(policy.log_prob(traj.action), traj.extras["log_prob"], rtol=1e-4, atol=1e-5)
    other = jnp.where(own_numbers(agent.env), traj.action, 0.5)
    assert not np.array_equal(other, traj.action)
    np.testing.assert_array_equal(policy.log_prob(other), policy.log_prob(traj.action))


def test_an_entropy_is_that_of_the_agents_own_numbers(agent):
    agent, state, traj = agent
    entropy = np.asarray(policy_of(agent, state, traj).entropy())
    np.testing.assert_allclose(entropy / entropy[..., :1], np.broadcast_to([1, 5 / 3], entropy.shape), rtol=1e-2)


def test_even_actions_are_left_as_they_are():
    agent = agent_of(ippo.make(ippo.Config(env="mpe/simple_spread?action_type=continuous", **SMALL)))
    seen = jnp.zeros((1, 1, 3, *agent.env.observation_space().shape))
    observation = Observation(seen, None, None, jnp.ones((1, 1, 3), bool))
    params = jax.eval_shape(agent.networks.init, jax.random.key(0))
    reset = jnp.zeros((1, 1), bool)
    policy = jax.eval_shape(
        lambda p: agent.networks.apply(p, agent.networks.new_carry(1), observation, reset)[1], params
    )
    assert type(policy).__name__ == "Independent"


def test_agents_of_different_sizes_are_not_drawn():
    with pytest.raises(ValueError, match="equally many numbers"):
        ippo.Config(env=ENV, agents_per_step=1, sharing="all", **SMALL).make_env()
