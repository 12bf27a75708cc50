"""What learns from a replay buffer finds the right value and action of every probe task that applies to it."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from family import agent_of
from probed import REPLAY_FIELDS, check, greedy_score, train, value_and_action

import jaxrl
from jaxrl.acting.rollout import Observation
from jaxrl.algos import dqn
from jaxrl.environment import Step
from jaxrl.envs.probe.base import State, outcome
from jaxrl.envs.probe.single import ActionMask

GRU: dict[str, Any] = {
    "memory": "gru",
    "memory_size": 16,
    "hidden": (16,),
    "sequence_length": 4,
    "burn_in": 4,
    "batch_size": 32,
    "total_timesteps": 64 * 250,
}
CASES = [
    ("dqn", "discounting", {"n_step": 3}),
    ("dqn", "truncation", {"n_step": 3, "dueling": True}),  # the last value counts gamma^3; as an end it would be 1.61
    ("dqn", "off_policy", {"eps_finish": 1.0}),  # values of what was done at random would say to stay
    # Nothing random is left at the end: the values are those of mates who know what to do.
    ("dqn", "death", {"eps_finish": 0.0, "double": False}),
]
MORE = [
    ("dqn", "observation_action", {}),
    ("dqn", "discounting", {"n_step": 3, "value_loss": "hlgauss", "value_range": (-2.0, 2.0)}),
    ("dqn", "truncation", GRU),
    ("dqn", "chain", {"n_step": 4}),
    *(("dqn", probe, {}) for probe in ("constant_reward", "observation_reward", "action_reward", "truncation")),
    ("dqn", "truncation", {"n_step": 3, "normalise_obs": True}),
    ("dqn", "credit", {}),
    ("dqn", "truncation", GRU | {"value_loss": "hlgauss", "value_range": (0.0, 4.0), "dueling": True}),
    ("iql", "death", {"eps_finish": 0.0, "value_loss": "hlgauss", "value_range": (0.0, 5.0)}),
    ("dqn", "roles", {"sharing": "none"}),
]


@pytest.mark.parametrize(
    ("algorithm", "probe", "fields"), [*CASES, *(pytest.param(*case, marks=pytest.mark.slow) for case in MORE)]
)
def test_values_and_actions(algorithm, probe, fields):
    solution, algo, state = train(algorithm, probe, **REPLAY_FIELDS | fields)
    check(solution, algo, state, solution.cases)


def test_a_buffer_forgets_what_is_no_longer_true():
    """A reward that changes its sign halfway; one that keeps the whole run learns something in between."""
    found = {}
    for rollouts in (20, 150):
        solution, algo, state = train(
            "dqn", "stale", **REPLAY_FIELDS | {"buffer_size": 64 * rollouts, "eps_finish": 1.0, "anneal_lr": False}
        )
        found[rollouts] = value_and_action(algo, state, solution, solution.cases[0])
    (value, action), (between, _) = found.values()
    assert value == pytest.approx(1.0, abs=0.05)
    assert action == 0
    assert abs(between) < 0.5


@pytest.mark.slow
def test_double_learning_overestimates_less():
    """With rewards that are noise, of ten actions; the value of the first step is 0.

    It counts on a target network that knows other rewards than the learned one, so the buffer forgets between copies.
    """
    slow_copies = {"tau": 1.0, "target_update_interval": 80, "buffer_size": 64 * 5, "anneal_lr": False}
    gamma, value = jaxrl.make("probe/overestimation").solution.gamma, {}
    first = Observation(jnp.zeros((1, 1, 1, 1)), None, None, jnp.ones((1, 1, 1), bool))
    for double in (False, True):
        fields: dict[str, Any] = REPLAY_FIELDS | slow_copies | {"double": double, "eps_finish": 1.0}
        config = dqn.Config(env="probe/overestimation", gamma=gamma, **fields)
        networks = agent_of(dqn.make(config)).networks
        states, _ = jax.jit(jax.vmap(dqn.make_train(config)))(jax.random.split(jax.random.key(0), 8))
        apply = jax.vmap(lambda params, net=networks: net.apply(params, (), first, jnp.ones((1, 1), bool))[1].values)
        value[double] = float(jnp.mean(apply(states.params)))  # the largest would be too large by itself
    assert value[False] > 0.1
    assert abs(value[True]) < 0.5 * value[False]


@pytest.mark.slow
def test_memory_recalls_a_cue():
    solution, algo, state = train("dqn", "memory_recall", **REPLAY_FIELDS | GRU)
    assert greedy_score(algo, state) > 0.95 * solution.score


def test_masked_actions_are_never_chosen():
    solution, algo, state = train("dqn", "action_mask", **REPLAY_FIELDS | {"total_timesteps": 64 * 30})
    env = agent_of(algo).config.make_env()
    obs, env_state = env.batch_reset(jax.random.split(jax.random.key(2), 64))
    mask = jax.vmap(env.action_mask)(env_state)
    for key in (None, jax.random.key(3)):
        action, _ = algo.act(state, obs, None, key, action_mask=mask)
        assert not np.isin(action, solution.never).any()
    assert not np.isin(state.replay.steps.action, solution.never).any()


class MaskedLater(ActionMask):
    """A step without a reward, seen as 0, before that of `ActionMask`, seen as 1."""

    observation_bounds = (0.0, 1.0)

    def see(self, state: State) -> jax.Array:
        return jnp.minimum(state.step, 1)[None].astype(jnp.float32)

    def advance(self, key: jax.Array, state: State, action: jax.Array) -> Step:
        reward = jnp.where(state.step > 0, jnp.array([-1.0, 1.0, 10.0])[action], 0.0)
        return outcome(self, state, reward=reward, terminated=state.step > 0)


@pytest.mark.parametrize("double", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_values_do_not_bootstrap_from_masked_actions(double, toys):
    """Both networks begin with a high value of the masked action, which nothing that is done can correct."""
    jaxrl.register("toy/masked_later", MaskedLater)
    config = dqn.Config(env="toy/masked_later", gamma=0.9, double=double, **REPLAY_FIELDS)
    algo = dqn.make(config)

    def train(key: jax.Array) -> Any:
        state = algo.init(key)
        raised = jax.tree.map(lambda leaf: leaf.at[2].set(10.0) if leaf.shape == (3,) else leaf, state.params)
        state = dataclasses.replace(state, params=raised, target=raised)
        return jax.lax.scan(lambda state, _: algo.update(state), state, length=config.num_updates)[0]

    state, agent = jax.jit(train)(jax.random.key(0)), agent_of(algo)
    observation = Observation(jnp.array([0.0, 1.0]).reshape(1, 2, 1, 1), None, None, jnp.ones((1, 2, 1), bool))
    _, policy, _ = agent.networks.apply(state.params, (), observation, jnp.ones((1, 2), bool))
    first, second = policy.values[0, :, 0]
    np.testing.assert_allclose(first[:2], 0.9, atol=0.1)
    np.testing.assert_allclose(second[:2], [-1.0, 1.0], atol=0.1)
    assert min(first[2], second[2]) > 5.0
