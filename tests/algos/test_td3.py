"""TD3: its gradient steps by slow NumPy, its delays and its noise."""

import dataclasses
import itertools
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from family import agent_of, greedy_returns
from observed import DONE, Team
from replayed import SMALL, first_step, slope, windows

from jaxrl.algos import td3
from jaxrl.algos.off_policy import Learner
from jaxrl.nn.distributions import Noisy
from jaxrl.nn.heads import bounds_of
from jaxrl.rl.devices import AXIS
from jaxrl.rl.optimizer import new_opt_state
from jaxrl.train.programs import member_keys

TEAM = Team(done="wide")
AGENTS, SIZE, LOW, HIGH, SHARDS = 2, 2, *bounds_of(DONE["wide"]), 3
CENTRE, HALF = (LOW + HIGH) / 2, (HIGH - LOW) / 2
LR = 0.01


def linear_agent(config):
    """TD3 whose action before tanh, and whose values, are linear in what they see."""
    agent = agent_of(td3.make(config))

    def values(params, observation, action):
        return jnp.concatenate([observation.obs, action], axis=-1) @ params["params"]["critic"]

    def apply(params, carry, observation, reset):
        action = jnp.asarray(CENTRE) + HALF * jnp.tanh(observation.obs @ params["params"]["actor"])
        policy = Noisy(action, jnp.broadcast_to(LOW, action.shape), jnp.broadcast_to(HIGH, action.shape))
        return carry, policy, None

    return dataclasses.replace(agent, networks=agent.networks._replace(apply=apply, evaluate=values))


def slow_values(obs, action, critic):
    return np.concatenate([obs, action], axis=-1) @ critic


def learner_of(params, target):
    opt_state = {
        name: new_opt_state({"params": {name: params["params"][name]}}, "adam") for name in ("critic", "actor")
    }
    return Learner(params, target, opt_state)


@pytest.fixture
def numbers():
    """Parameters of linear networks and of their targets, in double precision."""
    rng = np.random.default_rng(0)
    return [{"actor": rng.normal(size=(4, SIZE)), "critic": rng.normal(size=(4 + SIZE, 2))} for _ in range(2)]


def as_learner(numbers):
    return learner_of(*(jax.tree.map(jnp.float32, {"params": each}) for each in numbers))


@pytest.mark.parametrize("n", [1, 2])
def test_a_step_of_the_critics_is_that_of_a_loop(n, numbers):
    """All histories of terminated and truncated steps; much of the noise is clipped, and so are some actions."""
    config = td3.Config(env=TEAM, n_step=n, gamma=0.9, target_noise=0.6, noise_clip=0.5, max_grad_norm=1e9)
    (params, target), seen, keys = (
        numbers,
        windows(n, AGENTS, 4, LOW, HIGH),
        jax.random.split(jax.random.key(3), 3),
    )
    parts = [jax.random.normal(key, (1, seen.ends.shape[1] // SHARDS, AGENTS, SIZE)) for key in jax.random.clone(keys)]
    noise = np.clip(0.6 * np.concatenate([np.asarray(part, np.float64) for part in parts], axis=1), -0.5, 0.5)
    action = CENTRE + HALF * np.tanh(seen.obs[1:] @ target["actor"]) + HALF * noise
    assert np.mean((action < LOW) | (action > HIGH)) > 0.05
    value = slow_values(seen.obs[1:], np.clip(action, LOW, HIGH), target["critic"]).min(-1)
    returns = seen.returns(np.concatenate([value[:1], value]), 0.9)  # nothing follows the value of the first

    loss, gradient = 0.0, np.zeros_like(params["critic"])
    for (row, i), wanted in zip(seen.learned, returns, strict=True):
        inputs = np.concatenate([seen.obs[0, row, i], seen.action[0, row, i]])
        error = inputs @ params["critic"] - wanted
        loss += 0.5 * (error**2).sum() / len(returns)
        gradient += np.outer(inputs, error) / len(returns)

    agent, h = linear_agent(config), dataclasses.replace(config.hyperparams, lr=LR)
    learner = as_learner(numbers)
    after, losses = jax.jit(partial(td3.learn_values, agent, h))(learner, seen.batch, keys, 1)
    np.testing.assert_allclose(losses["value"], loss, rtol=1e-5)
    np.testing.assert_allclose(losses["critic_grad_norm"], np.linalg.norm(gradient), rtol=1e-5)
    np.testing.assert_allclose(after.params["params"]["critic"], first_step(params["critic"], gradient, LR), atol=1e-5)
    jax.tree.map(np.testing.assert_array_equal, after.target, learner.target)
    np.testing.assert_array_equal(after.params["params"]["actor"], learner.params["params"]["actor"])


def test_a_step_of_the_actor_is_that_of_a_loop_and_moves_all_targets(numbers):
    config = td3.Config(env=TEAM, tau=0.25, max_grad_norm=1e9)
    (params, target), seen, keys = (
        numbers,
        windows(1, AGENTS, 4, LOW, HIGH),
        jax.random.split(jax.random.key(3), 3),
    )

    def actor_loss(actor):
        q = slow_values(seen.obs[0], CENTRE + HALF * np.tanh(seen.obs[0] @ actor), params["critic"]).min(-1)
        return -np.mean([q[row, i] for row, i in seen.learned])

    agent, h = linear_agent(config), dataclasses.replace(config.hyperparams, lr=LR)
    after, losses = jax.jit(partial(td3.learn_policy, agent, h))(as_learner(numbers), seen.batch, keys, 2)
    learned = first_step(params["actor"], slope(actor_loss, params["actor"]), LR)
    np.testing.assert_allclose(losses["policy"], actor_loss(params["actor"]), rtol=1e-5)
    np.testing.assert_allclose(after.params["params"]["actor"], learned, atol=1e-5)
    for name, new in (("actor", learned), ("critic", params["critic"])):
        moved = 0.75 * target[name] + 0.25 * new
        np.testing.assert_allclose(after.target["params"][name], moved, atol=1e-5)


@pytest.fixture(scope="module")
def trained():
    """The states before and after each of the first five updates."""
    config = td3.Config(**SMALL, exploration_noise=0.3)
    algo = td3.make(config)
    update, states = jax.jit(algo.update), [jax.jit(algo.init)(jax.random.key(0))]
    for _ in range(5):
        states.append(update(states[-1])[0])
    return algo, states


def test_targets_begin_as_the_networks_and_follow_with_the_actor(trained):
    """Two moves in each of the updates of four gradient steps that learn."""
    _, states = trained
    jax.tree.map(np.testing.assert_array_equal, states[0].target, states[0].params)
    counts = [(int(state.opt_state["critic"].count), int(state.opt_state["actor"].count)) for state in states]
    assert counts == [(0, 0), (0, 0), (4, 2), (8, 4), (12, 6), (16, 8)]
    for before, after in itertools.pairwise(states[1:]):
        for old, new in zip(jax.tree.leaves(before.target), jax.tree.leaves(after.target), strict=True):
            assert not np.array_equal(old, new)


def test_exploration_is_in_half_widths_and_kept_in_the_box(trained):
    algo, states = trained
    obs = jnp.zeros((4000, 3))
    random, _ = algo.act(states[0], obs, None, jax.random.key(1))
    assert np.histogram(random, bins=8, range=(-2, 2))[0].min() > 400
    state = states[-1]
    greedy, _ = algo.act(state, obs)
    assert np.ptp(greedy) == 0
    noisy, _ = algo.act(state, obs, None, jax.random.key(1))
    assert np.abs(noisy).max() <= 2.0
    expected = np.clip(greedy + 2.0 * 0.3 * np.random.default_rng(0).normal(size=greedy.shape), -2, 2)
    np.testing.assert_allclose([noisy.mean(), noisy.std()], [expected.mean(), expected.std()], atol=0.03)


def test_noise_differs_between_environments_of_a_run_and_not_between_devices():
    def shares(size):
        of_device = partial(td3.env_shares, num_envs=8)
        return jax.vmap(of_device, axis_name=AXIS)(jnp.zeros((4, 1, size, 1, 1))).reshape(4, size)

    np.testing.assert_allclose(shares(2).reshape(-1), np.linspace(0, 1, 8), rtol=1e-6)
    np.testing.assert_array_equal(shares(1), np.zeros((4, 1)))  # single environments in which the policy is held fixed
    np.testing.assert_array_equal(shares(3), np.tile([0.0, 0.5, 1.0], (4, 1)))


def test_members_differ_in_their_noise():
    config = td3.Config(**SMALL)
    train, keys = td3.make_train(config), member_keys(0, 2)
    h = jax.tree.map(lambda leaf: jnp.stack([leaf, leaf]), config.hyperparams)
    h = dataclasses.replace(h, exploration_noise=jnp.array([0.0, 1.0]), target_noise=jnp.array([0.2, 0.0]))
    with jax.debug_key_reuse(False):  # it is wrong about keys that are split inside a vmapped scan
        states, _ = jax.jit(jax.vmap(train))(keys, h)
    still, restless = (np.abs(np.diff(each, axis=-2)).mean() for each in states.replay.steps.action[..., 0])
    assert still < 0.5 * restless


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"gradient_steps": 7}, "gradient_steps=7 is not divisible by policy_delay=2; use policy_delay=1 or"),
        ({"exploration_noise": -0.1}, "exploration_noise must not be negative"),
        ({"memory": "lstm"}, "memory must be none"),
    ],
)
def test_what_makes_no_sense_is_explained(fields, message):
    with pytest.raises(ValueError, match=message):
        td3.Config(**fields)
    with pytest.raises(TypeError, match="td3 needs those of a Box; use dqn, ppo or ippo"):
        td3.make(td3.Config(env="classic/cartpole"))


@pytest.mark.slow
def test_pendulum_is_solved_with_five_seeds_at_once():
    returns = greedy_returns(td3, td3.Config())
    assert np.all(returns >= -200.0), returns
