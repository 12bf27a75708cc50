"""SAC: its gradient steps by slow NumPy, its temperature and optimum, when and by which random numbers it learns."""

import dataclasses
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from family import agent_of, greedy_returns
from observed import DONE, Team
from replayed import SMALL, first_step, slope, windows

from jaxrl.algorithm import scan_updates
from jaxrl.algos import off_policy, sac
from jaxrl.algos.off_policy import Learner
from jaxrl.environment import Environment
from jaxrl.nn.distributions import SquashedNormal
from jaxrl.nn.heads import bounds_of
from jaxrl.rl.optimizer import new_opt_state
from jaxrl.spaces import Box, Space
from jaxrl.train.programs import member_keys


class Uneven(Team):
    """The second agent's action has one number, and the place of another."""

    @property
    def agent_action_spaces(self) -> dict[str, Space]:
        return {"agent_0": self.done, "agent_1": Box(LOW[:1], HIGH[:1], (1,))}


AGENTS, SIZE, LOW, HIGH, SHARDS = 2, 2, *bounds_of(DONE["wide"]), 3
OWN = np.array([[True, True], [True, False]])  # numbers of the actions
TEAM = Uneven(done="wide")
LR = 0.01


def linear_agent(config):
    """SAC whose policy's parameters and values are linear in what they see."""
    agent = agent_of(sac.make(config))

    def apply(params, carry, observation, reset):
        mean, log_std = (observation.obs @ params["params"]["actor"][name] for name in ("mean", "log_std"))
        return carry, SquashedNormal(mean, jnp.exp(log_std), LOW, HIGH), None

    def values(params, observation, action):
        return jnp.concatenate([observation.obs, action], axis=-1) @ params["params"]["critic"]

    return dataclasses.replace(agent, networks=agent.networks._replace(apply=apply, evaluate=values))


def slow_draw(obs, actor, noise):
    """Actions and their log-densities as if they went from -1 to 1."""
    std = np.exp(obs @ actor["log_std"])
    z = obs @ actor["mean"] + std * noise
    density = -0.5 * noise**2 - 0.5 * np.log(2 * np.pi) - np.log(std)  # of z
    log_prob = ((density - np.log(1 - np.tanh(z) ** 2)) * OWN).sum(-1)
    return LOW + (HIGH - LOW) * (np.tanh(z) + 1) / 2, log_prob


def slow_values(obs, action, critic):
    return np.concatenate([obs, action], axis=-1) @ critic


def noise_of(keys, length, rows):
    """What is drawn for `length` steps of windows whose parts are drawn by a key each."""
    parts = [jax.random.normal(key, (length, rows // SHARDS, AGENTS, SIZE)) for key in jax.random.clone(keys)]
    return np.concatenate([np.asarray(part, np.float64) for part in parts], axis=1)


def learner_of(params, target):
    actor = {"params": {name: params["params"][name] for name in ("actor", "log_alpha")}}
    critic = {"params": {"critic": params["params"]["critic"]}}
    opt_state = {"critic": new_opt_state(critic, "adam"), "actor": new_opt_state(actor, "adam")}
    return Learner(params, {"params": {"critic": target}}, opt_state)


@pytest.fixture
def numbers():
    """Parameters of linear networks, in double precision."""
    rng = np.random.default_rng(0)
    actor = {name: 0.3 * rng.normal(size=(4, SIZE)) for name in ("mean", "log_std")}
    critic, target = rng.normal(size=(2, 4 + SIZE, 2))
    return {"actor": actor, "critic": critic, "log_alpha": rng.normal(size=AGENTS)}, target


@pytest.mark.parametrize(("n", "pessimism"), [(1, "min"), (2, "mean")])
def test_a_step_of_the_critics_is_that_of_a_loop(n, pessimism, numbers):
    """All histories of terminated and truncated steps, for agents with temperatures of their own."""
    config = sac.Config(env=TEAM, sharing="none", n_step=n, pessimism=pessimism, gamma=0.9, tau=0.25, max_grad_norm=1e9)
    (params, target), seen, keys = (
        numbers,
        windows(n, AGENTS, 4, LOW, HIGH),
        jax.random.split(jax.random.key(3), 3),
    )
    action, log_prob = slow_draw(seen.obs[1:], params["actor"], noise_of(keys, 1, seen.ends.shape[1]))
    q = slow_values(seen.obs[1:], action, target)
    value = (q.min(-1) if pessimism == "min" else q.mean(-1)) - np.exp(params["log_alpha"]) * log_prob
    returns = seen.returns(np.concatenate([value[:1], value]), 0.9)  # nothing follows the value of the first

    loss, gradient = 0.0, np.zeros_like(params["critic"])
    for (row, i), wanted in zip(seen.learned, returns, strict=True):
        inputs = np.concatenate([seen.obs[0, row, i], seen.action[0, row, i]])
        error = inputs @ params["critic"] - wanted
        loss += 0.5 * (error**2).sum() / len(returns)
        gradient += np.outer(inputs, error) / len(returns)

    agent, h = linear_agent(config), dataclasses.replace(config.hyperparams, lr=LR)
    learner = learner_of(jax.tree.map(jnp.float32, {"params": params}), jnp.float32(target))
    after, losses = jax.jit(partial(sac.learn_values, agent, h))(learner, seen.batch, keys, 1)
    np.testing.assert_allclose(losses["value"], loss, rtol=1e-5)
    np.testing.assert_allclose(losses["critic_grad_norm"], np.linalg.norm(gradient), rtol=1e-5)
    learned = first_step(params["critic"], gradient, LR)
    np.testing.assert_allclose(after.params["params"]["critic"], learned, atol=1e-5)
    moved = 0.75 * target + 0.25 * learned
    np.testing.assert_allclose(after.target["params"]["critic"], moved, atol=1e-5)
    jax.tree.map(np.testing.assert_array_equal, after.params["params"]["actor"], learner.params["params"]["actor"])


def test_a_step_of_the_actor_is_that_of_a_loop(numbers):
    """Gradients through actions and densities by central differences; each agent's temperature follows its entropy."""
    config = sac.Config(env=TEAM, sharing="none", target_entropy=-0.5, max_grad_norm=1e9)
    (params, target), seen, keys = (
        numbers,
        windows(1, AGENTS, 4, LOW, HIGH),
        jax.random.split(jax.random.key(4), 3),
    )
    noise, alpha = noise_of(keys, 1, seen.ends.shape[1])[0], np.exp(params["log_alpha"])

    def drawn(actor):
        """Of each step that is learned from: its agent, log-density and value."""
        action, log_prob = slow_draw(seen.obs[0], actor, noise)
        q = slow_values(seen.obs[0], action, params["critic"]).min(-1)
        return [(i, log_prob[row, i], q[row, i]) for row, i in seen.learned]

    def actor_loss(actor):
        return np.mean([alpha[i] * log_prob - q for i, log_prob, q in drawn(actor)])

    entropy = -np.mean([log_prob for _, log_prob, _ in drawn(params["actor"])])
    surplus = np.zeros(AGENTS)
    for i, log_prob, _ in drawn(params["actor"]):
        surplus[i] += (-log_prob - OWN[i].sum() * -0.5) / len(seen.learned)

    agent, h = linear_agent(config), dataclasses.replace(config.hyperparams, lr=LR)
    learner = learner_of(jax.tree.map(jnp.float32, {"params": params}), jnp.float32(target))
    after, losses = jax.jit(partial(sac.learn_policy, agent, h))(learner, seen.batch, keys, 1)
    np.testing.assert_allclose(losses["policy"], actor_loss(params["actor"]), rtol=1e-5)
    np.testing.assert_allclose(losses["entropy"], entropy, rtol=1e-5)
    for name in ("mean", "log_std"):
        gradient = slope(lambda own, name=name: actor_loss({**params["actor"], name: own}), params["actor"][name])
        learned = first_step(params["actor"][name], gradient, LR)
        np.testing.assert_allclose(after.params["params"]["actor"][name], learned, atol=1e-5)
    # By the gradient as well: the first step of Adam tells no more than its sign.
    again = jax.random.split(jax.random.key(4), 3)
    slopes, _ = jax.jit(jax.grad(partial(sac.policy_loss, agent, h, batch=seen.batch, keys=again), has_aux=True))(
        learner.params
    )
    np.testing.assert_allclose(slopes["params"]["log_alpha"], surplus, rtol=1e-4)
    learned = first_step(params["log_alpha"], surplus, LR)
    np.testing.assert_allclose(after.params["params"]["log_alpha"], learned, atol=1e-5)
    np.testing.assert_array_equal(after.params["params"]["critic"], learner.params["params"]["critic"])
    jax.tree.map(np.testing.assert_array_equal, after.target, learner.target)


class Bandit(Environment):
    """One step; the reward falls with the action, from 2 in -1 … 7, and a little faster and faster."""

    def observation_space(self, params: Any = None) -> Box:
        return Box(0.0, 1.0, (1,))

    def action_space(self, params: Any = None) -> Box:
        return Box(-1.0, 7.0, (1,))

    def reset_env(self, key: jax.Array, params: Any) -> Any:
        return jnp.zeros(1), jnp.int32(0)

    def step_env(self, key: jax.Array, state: Any, action: jax.Array, params: Any) -> Any:
        return jnp.zeros(1), state, reward_of(action[0]), jnp.bool_(True), jnp.bool_(False), {}


def reward_of(action):
    unit = (action - 3.0) / 4.0
    return 2.0 - unit - 0.5 * unit**2


def squashed(mean, std):
    """The mean action, expected reward and entropy of a normal through tanh, for actions from -1 to 1: slow sums."""
    z = np.linspace(-8.0, 8.0, 1001)
    mass = np.exp(-0.5 * z**2)
    mass, y = mass / mass.sum(), mean + std * z
    unit, log_slope = np.tanh(y), 2 * (np.log(2) - np.abs(y) - np.log1p(np.exp(-2 * np.abs(y))))
    entropy = 0.5 * np.log(2 * np.pi * np.e) + np.log(std) + (mass * log_slope).sum()
    return (mass * unit).sum(), (mass * reward_of(3.0 + 4.0 * unit)).sum(), entropy


def best_policy(entropy):
    """Of all policies of an entropy, that of the highest reward: its mean action and reward."""
    best = (0.0, -np.inf)
    for mean in np.linspace(-2.0, 1.0, 61):
        low, high = 1e-3, 0.8  # the entropy rises with the deviation up to here
        for _ in range(40):
            middle = (low + high) / 2
            low, high = (middle, high) if squashed(mean, middle)[2] < entropy else (low, middle)
        found = squashed(mean, low)
        if abs(found[2] - entropy) < 1e-3 and found[1] > best[1]:
            best = found[:2]
    return best


def test_a_bandit_ends_at_the_best_policy_of_the_wanted_entropy():
    """And its temperature is what a little more entropy would cost. The box's width makes no difference to either."""
    config = sac.Config(
        env=Bandit(),
        **{**SMALL, "total_timesteps": 64 * 120, "num_envs": 8, "num_steps": 8, "buffer_size": 6400, "batch_size": 64},
        target_entropy=-0.4,
        lr=1e-2,
        gamma=0.9,
    )
    config = dataclasses.replace(config, hidden=(32,), gradient_steps=8)
    algo = sac.make(config)
    state, metrics = jax.jit(scan_updates(algo, config.num_updates))(jax.random.key(0))
    mean, _ = best_policy(-0.4)
    cost = (best_policy(-0.5)[1] - best_policy(-0.3)[1]) / 0.2
    last = {name: float(np.mean(values[-20:])) for name, values in metrics["losses"].items()}
    assert last["entropy"] == pytest.approx(-0.4, abs=0.05)
    assert last["alpha"] == pytest.approx(cost, rel=0.15)
    draws = jax.vmap(lambda key: algo.act(state, jnp.zeros((1, 1)), None, key)[0])(
        jax.random.split(jax.random.key(1), 4000)
    )
    assert (np.mean(draws) - 3.0) / 4.0 == pytest.approx(mean, abs=0.05)


@pytest.fixture(scope="module")
def trained():
    """The states before and after each of the first five updates, and their metrics."""
    config = sac.Config(**SMALL, policy_delay=2)
    algo = sac.make(config)
    update, states, rows = jax.jit(algo.update), [jax.jit(algo.init)(jax.random.key(0))], []
    for _ in range(5):
        state, metrics = update(states[-1])
        states.append(state)
        rows.append(metrics)
    return algo, states, rows


def test_targets_begin_as_the_critics_and_the_actor_learns_every_other_step(trained):
    _, states, rows = trained
    critic = states[0].params["params"]["critic"]
    jax.tree.map(np.testing.assert_array_equal, states[0].target, {"params": {"critic": critic}})
    counts = [(int(state.opt_state["critic"].count), int(state.opt_state["actor"].count)) for state in states]
    assert counts == [(0, 0), (0, 0), (4, 2), (8, 4), (12, 6), (16, 8)]
    assert [float(row["losses"]["value"]) > 0 for row in rows] == [False, *[True] * 4]
    kernel = jax.tree.leaves(critic)[1]
    assert not np.array_equal(kernel[0], kernel[1])  # critics begin apart


def test_actions_are_uniform_until_learning_starts_and_then_the_policys(trained):
    algo, states, _ = trained
    obs = jnp.zeros((2000, 3))
    for state, uniform in ((states[0], True), (states[-1], False)):
        action, _ = algo.act(state, obs, None, jax.random.key(1))
        assert np.abs(action).max() <= 2.0
        spread = np.histogram(np.asarray(action), bins=8, range=(-2, 2))[0]
        assert bool(spread.min() > 200) is uniform, spread
    greedy, _ = algo.act(states[-1], obs)
    assert np.ptp(greedy) == 0
    assert np.median(action) == pytest.approx(float(greedy[0, 0]), abs=0.2)


def test_every_gradient_step_has_keys_of_its_own(trained):
    algo, states, _ = trained
    agent, steps, shards = agent_of(algo), 4 + 2, 4

    def note(agent, h, learner, batch, keys, number):
        bits, done = learner.target
        return learner._replace(target=(bits.at[done].set(jax.random.key_data(keys)), done + 1)), {}

    state = dataclasses.replace(states[-1], target=(jnp.zeros((steps, shards, 2), jnp.uint32), jnp.int32(0)))
    after, _ = jax.jit(lambda state: off_policy.act_and_learn(agent, state, note, note, 2))(state)
    bits, done = after.target
    assert int(done) == steps
    assert len({tuple(key) for key in np.asarray(bits).reshape(-1, 2).tolist()}) == steps * shards


def test_a_target_takes_the_smallest_of_a_few_critics_and_the_actor_the_mean_of_all():
    """By the definition of REDQ; which critics, each shard draws anew."""
    config = sac.Config(num_critics=5, critic_subset=2)
    q = jnp.arange(20.0).reshape(1, 2, 2, 5) ** 2
    np.testing.assert_allclose(config.joint(q), q.mean(axis=-1))
    drawn = [sac.draw_critics(2, q, key) for key in jax.random.split(jax.random.key(0), 40)]
    pairs = set()
    for each in drawn:
        which = [int(jnp.flatnonzero(q[0, 0, 0] == value)[0]) for value in each[0, 0, 0]]
        np.testing.assert_array_equal(each, q[..., np.array(which)])  # the same critics for all rows and agents
        np.testing.assert_array_equal(config.joint(each), q[..., np.array(which)].min(axis=-1))
        pairs.add(frozenset(which))
    assert {len(pair) for pair in pairs} == {2}
    assert len(pairs) == 10  # all of them


def test_targets_of_few_critics_are_learned_and_need_more_critics():
    config = sac.Config(**SMALL, num_critics=4, critic_subset=2)
    algo = sac.make(config)
    state = algo.init(jax.random.key(0))
    update = jax.jit(algo.update)
    state, _ = update(state)  # which only fills the buffer
    _, metrics = update(update(state)[0])
    assert np.isfinite(jax.tree.leaves(metrics["losses"])).all()
    with pytest.raises(ValueError, match=r"critic_subset=2 has no effect with num_critics=2; .* or raise num_critics"):
        sac.make(sac.Config(**SMALL, critic_subset=2))


@pytest.mark.slow
def test_members_differ_in_hyperparameters_and_equal_those_alone():
    config = sac.Config(**SMALL)
    train, keys = sac.make_train(config), member_keys(0, 2)
    h = jax.tree.map(lambda leaf: jnp.stack([leaf, leaf]), config.hyperparams)
    h = dataclasses.replace(h, target_entropy=jnp.array([-1.0, 0.5]), lr=jnp.array([1e-3, 1e-2]))
    with jax.debug_key_reuse(False):  # it is wrong about keys that are split inside a vmapped scan
        _, together = jax.jit(jax.vmap(train))(keys, h)
        _, alone = jax.jit(train)(jax.random.clone(keys)[1], jax.tree.map(lambda leaf: leaf[1], h))
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a[1], b, rtol=1e-3, atol=1e-4), together, alone)
    assert not np.allclose(together["losses"]["alpha"][0], together["losses"]["alpha"][1])


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"gradient_steps": 8, "policy_delay": 3}, "gradient_steps=8 is not divisible by policy_delay=3; use"),
        ({"memory": "gru"}, "memory must be none: actor and critics see single steps; dqn has a memory, got gru"),
        ({"num_critics": 0}, "num_critics must be at least 1"),
        ({"init_alpha": 0.0}, "init_alpha must be positive"),
        ({"target_entropy": 1.0}, "target_entropy must be below 0.69, the entropy of uniform actions, got 1.0"),
        ({"pessimism": "max"}, "pessimism must be one of min, mean"),
    ],
)
def test_what_makes_no_sense_is_explained(fields, message):
    with pytest.raises(ValueError, match=message):
        sac.Config(**fields)


@pytest.mark.slow
def test_pendulum_is_solved_with_five_seeds_at_once():
    returns = greedy_returns(sac, sac.Config())
    assert np.all(returns >= -200.0), returns
