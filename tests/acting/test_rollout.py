"""A rollout: who is worth what after a step, and what a central critic sees."""

import jax
import jax.numpy as jnp
import numpy as np
from family import agent_of

import jaxrl
from jaxrl.acting.central import global_state_size
from jaxrl.acting.collector import Collector
from jaxrl.acting.rollout import Policy, init_runner, rollout, team_sum, team_value
from jaxrl.algos import ippo, mappo
from jaxrl.rl.advantage import bootstrap_values
from jaxrl.vector import VectorEnv
from jaxrl.wrappers import as_multi_agent

T, B = 6, 4


def played(env, policy_value, central=False):
    """A rollout in which everybody takes action 1 and the critic is `policy_value(observation)[T, B, N]`."""
    team = as_multi_agent(jaxrl.make(env))
    collector = Collector(VectorEnv(team, B), central, num_shards=2)

    def act(carry, observation, reset, keys):
        action = jnp.ones(observation.agent_mask.shape, jnp.int32)
        return carry, action, {"value": policy_value(observation)}

    policy = Policy(act, lambda carry, observation: policy_value(observation))

    loop = init_runner(collector, (), jax.random.key(0))
    return rollout(collector, policy, loop, jax.random.split(jax.random.key(1), (T, 2, 2)))


def test_values_follow_within_the_episode_and_from_the_final_observation():
    """The critic says what it sees: CartPole's position. Episodes of 4 steps are truncated."""
    loop, seen, sums = jax.jit(lambda: played("CartPole-v1?max_steps=4", lambda observation: observation.obs[..., 0]))()
    following = np.asarray(bootstrap_values(seen.extras["value"], seen.bootstrap, seen.cut[..., None]))[..., 0]
    position = np.asarray(seen.observation.obs)[..., 0, 0]
    velocity = np.asarray(seen.observation.obs)[..., 0, 1]
    np.testing.assert_allclose(following, position + 0.02 * velocity, atol=1e-6)  # Euler's step, at all steps alike
    np.testing.assert_array_equal(np.asarray(seen.cut).any(1), [False, False, False, True, False, False])
    np.testing.assert_array_equal(seen.reset, np.roll(np.asarray(seen.cut), 1, axis=0) | (np.arange(T) == 0)[:, None])
    assert int(sums["episodes"]) == B
    assert int(sums["length_sum"]) == 4 * B
    assert not np.asarray(loop.reset).any()


def test_the_central_critic_sees_the_state_that_the_final_observation_belongs_to():
    """In this probe the global state is the coin of the episode; after its only step it has not yet been drawn anew."""

    def see(observation):
        return jnp.broadcast_to(observation.global_state[..., :1], observation.agent_mask.shape)

    _, seen, _ = jax.jit(lambda: played("probe/hidden_state", see, central=True))()
    np.testing.assert_array_equal(seen.extras["value"], seen.reward)  # the coin is what the step pays
    last = np.asarray(seen.bootstrap[-1])
    np.testing.assert_array_equal(last, seen.reward[-1])
    assert len(np.unique(np.asarray(seen.extras["value"]))) == 2


def test_the_dead_are_worth_what_their_living_team_mates_are():
    value = jnp.array([[1.0, 3.0, 50.0, 7.0], [1.0, 3.0, 5.0, 7.0]])
    alive = jnp.array([[True, True, False, False], [False, False, False, True]])
    got = team_value(value, alive, teams=(0, 0, 0, 1))
    np.testing.assert_allclose(got, [[1, 3, 2, 0], [0, 0, 0, 7]])


def test_where_there_is_no_global_state_the_critic_sees_all_observations():
    env = as_multi_agent(jaxrl.make("probe/death"))
    assert global_state_size(env) == 2 * env.observation_space().shape[0]
    assert global_state_size(jaxrl.make("smax/3m")) == 72
    assert agent_of(mappo.make(mappo.Config(env="probe/death"))).central
    assert not agent_of(ippo.make(ippo.Config(env="probe/death"))).central


def test_a_teams_value_is_the_sum_over_its_living_members():
    value = jnp.array([[1.0, 2.0, 4.0, 8.0, 16.0]] * 3)
    alive = jnp.array([[True] * 5, [True, False, True, True, False], [False, False, True, True, True]])
    summed = team_sum(value, alive, (0, 1, 0, 1, 1))
    np.testing.assert_array_equal(summed, [[5, 26, 5, 26, 26], [5, 8, 5, 8, 8], [4, 24, 4, 24, 24]])
