"""IPPO finds the right value and the right action of every probe task (see `jaxrl.envs.probe`)."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxrl
from jaxrl.algos import ippo
from jaxrl.train.evaluate import evaluate

FEED_FORWARD = ippo.Config(
    num_envs=32,
    num_steps=8,
    total_timesteps=32 * 8 * 120,
    num_minibatches=2,
    update_epochs=4,
    lr=1e-2,
    gae_lambda=0.95,
    ent_coef=0.02,
    hidden=(32,),
    activation="relu",  # tanh without biases is odd at first, and stuck where an even function is asked for
)
RECURRENT = dataclasses.replace(FEED_FORWARD, memory="gru", memory_size=16, num_steps=16, hidden=(16,))


def train(probe, config, **fields):
    solution = jaxrl.make(f"probe/{probe}").solution  # pyright: ignore[reportAttributeAccessIssue]
    config = dataclasses.replace(config, env=f"probe/{probe}", gamma=solution.gamma, **fields)
    state, _ = jax.jit(ippo.make_train(config))(jax.random.key(0))
    return solution, config, state


def value_and_action(config, state, case):
    """What the trained agent thinks of one situation: the value, and the greedy action."""
    parts = ippo._parts(config)
    num_agents = len(parts.venv.teams)
    obs = jnp.broadcast_to(jnp.asarray(case.observation), (1, 1, num_agents, len(case.observation)))
    reset = jnp.ones((1, 1, num_agents), bool)
    _, policy, value = parts.apply(state.params, parts.new_carry(1), obs, reset, None)
    agent = case.agent or 0
    return float(value[0, 0, agent]), int(policy.mode()[0, 0, agent])


PROBES = [
    ("constant_reward", {}),
    ("observation_reward", {}),
    ("discounting", {}),
    ("action_reward", {}),
    ("observation_action", {}),
    ("truncation", {}),
    ("credit", {}),
    ("roles", {"sharing": "none"}),
    ("death", {}),
]


@pytest.mark.parametrize(("probe", "fields"), PROBES, ids=[name for name, _ in PROBES])
def test_feed_forward(probe, fields):
    solution, config, state = train(probe, FEED_FORWARD, **fields)
    for case in solution.cases:
        value, action = value_and_action(config, state, case)
        if case.value is not None:
            np.testing.assert_allclose(value, case.value, atol=0.1, err_msg=str(case))
        if case.action is not None:
            assert action == case.action, case


@pytest.mark.slow
@pytest.mark.parametrize(("probe", "fields"), PROBES, ids=[name for name, _ in PROBES])
def test_recurrent(probe, fields):
    solution, config, state = train(probe, RECURRENT, **fields)
    for case in solution.cases:
        if any(case.observation[:1]) and probe in ("discounting", "death"):
            continue  # not what an episode begins with, and memory knows
        value, action = value_and_action(config, state, case)
        if case.value is not None:
            np.testing.assert_allclose(value, case.value, atol=0.1, err_msg=str(case))
        if case.action is not None:
            assert action == case.action, case


def greedy_score(config, state):
    evaluation = evaluate(ippo.make(config), config.make_env(), state, jax.random.key(1), episodes=256)
    return float(np.mean(evaluation.returns))


def test_memory_recalls_a_cue_that_feed_forward_cannot():
    solution, config, state = train("memory_recall", RECURRENT)
    assert greedy_score(config, state) > 0.95 * solution.score
    _, config, state = train("memory_recall", FEED_FORWARD)
    assert abs(greedy_score(config, state) - solution.score_without_memory) < 0.2


@pytest.mark.slow
def test_memory_does_not_leak_into_the_next_episode():
    solution, config, state = train("memory_leak", RECURRENT, total_timesteps=32 * 16 * 300)
    score = greedy_score(config, state)
    assert score > solution.score_if_leaking + 0.5 * (solution.score - solution.score_if_leaking)


def test_masked_actions_are_never_chosen():
    solution, config, state = train("action_mask", FEED_FORWARD)
    env = config.make_env()
    algo = ippo.make(config)
    obs, env_state = env.batch_reset(jax.random.split(jax.random.key(2), 64))
    mask = jax.vmap(env.action_mask)(env_state)
    for key in (None, jax.random.key(3)):
        action, _ = algo.act(state, obs, None, key, action_mask=mask)
        assert not np.isin(action, solution.never).any()
