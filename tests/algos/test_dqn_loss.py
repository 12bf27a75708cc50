"""DQN's loss and its gradient against slow loops: targets of several steps, double learning, bins."""

import dataclasses
import itertools
import math
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from family import agent_of
from replayed import SMALL

from jaxrl.acting.rollout import Observation
from jaxrl.algos import dqn
from jaxrl.algos.off_policy import Batch, Steps
from jaxrl.nn.distributions import EpsilonGreedy


def linear_agent(config):
    """DQN whose outputs are linear in the observation, with parameters [D, A] or [D, A, num_bins]."""
    agent = agent_of(dqn.make(config))

    def apply(params, carry, observation, reset):
        outputs = jnp.tensordot(observation.obs, params, 1)
        policy = EpsilonGreedy(config.value.each.decode(outputs), observation.action_mask)
        return carry, policy, outputs

    return dataclasses.replace(agent, networks=agent.networks._replace(apply=apply))


def histories(n):
    """Windows of two agents, one of whom may be dead, with all histories of terminated and truncated steps."""
    rng, ends = np.random.default_rng(0), list(itertools.product(("", "terminated", "truncated"), repeat=n + 1))
    shape = (n + 1, len(ends), 2)
    obs, reward, action = rng.normal(size=(*shape, 3)), rng.normal(size=shape), rng.integers(0, 2, shape)
    mask, alive = rng.random((*shape, 2)) < 0.7, rng.random(shape) < 0.8
    mask[..., 0] = True
    return obs, reward, action, mask, alive, np.array(ends).T


def slow_targets(config, windows, params, target, values):
    """A loop over all living agents' first steps: what their values are to become, the window and the agent."""
    obs, reward, _, mask, alive, ends = windows
    n, found = config.n_step, []
    for row, i in itertools.product(range(ends.shape[1]), range(2)):
        if not alive[0, row, i] or ends[0, row] == "truncated":
            continue
        total, factor = 0.0, 1.0
        for t in range(n + 1):
            if t == n or (t and ends[t, row] == "truncated"):
                best = []
                for j in range(2):  # the dead have their living mates' mean
                    chooser = values(obs[t, row, j], params if config.double else target)
                    chosen = np.where(mask[t, row, j], chooser, -np.inf).argmax()
                    best.append(values(obs[t, row, j], target)[chosen])
                living = [best[j] for j in range(2) if alive[t, row, j]]
                total += factor * (best[i] if alive[t, row, i] else np.mean(living) if living else 0.0)
                break
            total += factor * reward[t, row, i]
            if ends[t, row] == "terminated":
                break
            factor *= config.gamma
        found.append((total, row, i))
    return found


def steps_of(windows):
    """What the buffer would give."""
    obs, reward, action, mask, alive, ends = windows
    mask = mask.copy()
    mask[0] = True  # what was done was allowed
    observation = Observation(jnp.float32(obs), None, jnp.asarray(mask), jnp.asarray(alive))
    flags = (jnp.asarray(ends == "terminated"), jnp.asarray(ends == "truncated"))
    no_reset = jnp.zeros(ends.shape, bool)
    return Steps(observation, no_reset, jnp.asarray(action), jnp.float32(reward), *flags)


def loss_and_slopes(config, windows, params, target):
    """Those of the library."""
    steps, loss = steps_of(windows), partial(dqn.loss, linear_agent(config), config.hyperparams)
    of_params = jax.jit(jax.value_and_grad(lambda p: loss(p, jnp.float32(target), Batch(steps, ()))[0]))
    return of_params(jnp.float32(params))


@pytest.mark.parametrize(("n", "double", "value_loss"), [(1, True, "mse"), (3, True, "huber"), (2, False, "mse")])
def test_the_loss_and_its_gradient_are_those_of_a_loop(n, double, value_loss):
    config = dqn.Config(env="probe/death", n_step=n, double=double, value_loss=value_loss, gamma=0.9)
    windows = obs, _, action, *_ = histories(n)
    params, target = np.random.default_rng(1).normal(size=(2, 3, 2))
    targets = slow_targets(config, windows, params, target, lambda obs, params: obs @ params)
    size = np.array([(obs[0, row, i] @ params)[action[0, row, i]] - total for total, row, i in targets])
    huber = np.where(np.abs(size) < 1, 0.5 * size**2, np.abs(size) - 0.5)
    expected = np.mean(huber if value_loss == "huber" else 0.5 * size**2)
    slope, gradient = np.clip(size, -1, 1) if value_loss == "huber" else size, np.zeros((3, 2))
    for (_, row, i), each in zip(targets, slope / len(targets), strict=True):
        gradient[:, action[0, row, i]] += each * obs[0, row, i]
    got, slopes = loss_and_slopes(config, windows, params, target)
    np.testing.assert_allclose(got, expected, rtol=1e-5)
    np.testing.assert_allclose(slopes, gradient, atol=1e-5)


@pytest.mark.parametrize("double", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_with_bins_the_loss_and_its_gradient_are_those_of_a_loop(double):
    """Actions are compared by the means of their distributions; some targets lie beyond the range."""
    config = dqn.Config(
        env="probe/death", n_step=2, double=double, value_loss="hlgauss", value_range=(-1.0, 1.5), gamma=0.9
    )
    windows = obs, _, action, *_ = histories(2)
    params, target = 2.0 * np.random.default_rng(1).normal(size=(2, 3, 2, 51))
    width = 2.5 / (51 - 6 * 0.75)  # three deviations, each of 0.75 bins, lie beyond either end
    edges = -1.0 + width * (np.arange(52) - 3 * 0.75)

    def softmax(obs, params):
        exp = np.exp(np.tensordot(obs, params, 1))
        return exp / exp.sum(-1, keepdims=True)

    def values(obs, params):
        return softmax(obs, params) @ ((edges[1:] + edges[:-1]) / 2)

    losses, gradient = [], np.zeros((3, 2, 51))
    targets = slow_targets(config, windows, params, target, values)
    assert min(targets)[0] < -1
    assert max(targets)[0] > 1.5
    for total, row, i in targets:
        centre = np.clip(total, -1.0, 1.5)
        below = np.array([math.erf((edge - centre) / (0.75 * width * math.sqrt(2))) for edge in edges])
        wanted = np.diff(below) / (below[-1] - below[0])
        said = softmax(obs[0, row, i], params)[action[0, row, i]]
        losses.append(-(wanted * np.log(said)).sum())
        gradient[:, action[0, row, i]] += np.outer(obs[0, row, i], said - wanted) / len(targets)
    got, slopes = loss_and_slopes(config, windows, params, target)
    np.testing.assert_allclose(got, np.mean(losses), rtol=1e-5)
    np.testing.assert_allclose(slopes, gradient, atol=1e-5)


def test_rows_drawn_by_priority_have_weights_and_report_their_priorities():
    config = dqn.Config(env="probe/death", gamma=0.9, n_step=1, priority_exponent=0.6)
    windows = obs, _, action, _, alive, ends = histories(1)
    params, target = np.random.default_rng(1).normal(size=(2, 3, 2))
    weight = np.random.default_rng(2).uniform(0.5, 2.0, size=obs.shape[1])
    errors = {(row, i): 0.0 for row in range(obs.shape[1]) for i in range(obs.shape[2])}
    for total, row, i in slow_targets(config, windows, params, target, lambda obs, params: obs @ params):
        errors[row, i] = (obs[0, row, i] @ params)[action[0, row, i]] - total
    counted = alive[0] & (ends[0] != "truncated")[:, None]
    size = np.abs(np.array([[errors[row, i] for i in range(obs.shape[2])] for row in range(obs.shape[1])]))
    size = np.where(counted, size, 0.0)

    steps = steps_of(windows)
    loss = jax.jit(partial(dqn.loss, linear_agent(config), config.hyperparams))
    got, found = loss(jnp.float32(params), jnp.float32(target), Batch(steps, (), jnp.float32(weight)))
    each = 0.5 * size**2 * weight[:, None]
    np.testing.assert_allclose(got, each.sum() / (counted * weight[:, None]).sum(), rtol=1e-5)
    mean = size.sum(axis=1) / np.maximum(counted.sum(axis=1), 1)
    np.testing.assert_allclose(found["priority"] ** (1 / 0.6), 0.9 * size.max(axis=1) + 0.1 * mean, atol=1e-4)


def test_priorities_are_the_errors_of_the_windows_that_were_drawn():
    """At a learning rate of 1e-12 an error stays what it was, so most windows have that of their place."""
    config = dqn.Config(**SMALL, n_step=1, lr=1e-12, tau=0.0, priority_exponent=0.6)
    algo = dqn.make(config)
    update, state = jax.jit(algo.update), algo.init(jax.random.key(0))
    for _ in range(6):  # the oldest rollout is no longer the first in the buffer
        state, _ = update(state)
    steps = jax.tree.map(lambda leaf: np.asarray(leaf).reshape(4, 16, *leaf.shape[3:]), state.replay.steps)
    value = agent_of(algo).networks.apply(state.params, (), steps.observation, steps.reset)[1].values  # [4, 16, 1, A]
    chosen = np.take_along_axis(np.asarray(value), steps.action[..., None], -1)[..., 0, 0]
    best = np.roll(np.asarray(value).max(-1)[..., 0], -1, axis=1)
    error = np.abs(chosen - steps.reward[..., 0] - config.gamma * ~steps.terminated * best)
    priority = np.asarray(state.replay.priority).reshape(4, 16)
    assert not steps.truncated.any()
    drawn = np.isclose(priority ** (1 / 0.6), error, rtol=1e-3)
    assert drawn.sum() > 25
