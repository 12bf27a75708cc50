"""Stream Q(lambda) and stream AC(lambda): learning against slow NumPy, and what every algorithm promises."""

import dataclasses
from functools import partial
from typing import Any

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from family import agent_of, greedy_returns

import jaxrl
from jaxrl.acting.rollout import Observation
from jaxrl.algos import stream_ac, stream_q
from jaxrl.algos.streaming import Step, learn_from_stream
from jaxrl.nn import distributions
from jaxrl.train.devices.mesh import MeshShape, choose_mesh

SMALL: dict[str, Any] = {"num_steps": 20, "total_timesteps": 200, "hidden": (8,)}
VARIANTS = {
    "stream_q": (stream_q, stream_q.Config(**SMALL)),
    "stream_ac": (stream_ac, stream_ac.Config(**SMALL, env="classic/pendulum", reset="pool")),
}
D, A, LENGTH = 3, 2, 12
GAMMA, DECAY, LR, KAPPA, KAPPA_POLICY, ENT_COEF = 0.9, 0.8, 0.5, 2.0, 3.0, 0.1


# One step


def stream(rng) -> list[Step]:
    """Episodes of five steps, of which the first ends by itself and the second by the clock."""
    steps = []
    for t in range(LENGTH):
        observation = Observation(jnp.asarray(rng.normal(size=(1, 1, 1, D)), jnp.float32), None, None, jnp.ones((1, 1)))
        numbers = (t % 5 == 0, rng.normal(), 0.0 if t == 4 else GAMMA, rng.normal())
        action = jnp.asarray(rng.integers(0, A, (1, 1, 1)))
        steps.append(Step(observation, action, *map(jnp.asarray, numbers)))
    return steps


def learned(module, agent, h, params, steps) -> Any:
    """The parameters after each of the steps."""
    learn, trace, rows = jax.jit(partial(module.learn, agent, h)), jax.tree.map(jnp.zeros_like, params), []
    for step in steps:
        params, trace, _ = learn(params, trace, step)
        rows.append(params)
    return rows


def slow_step(params, trace, error, kappa):
    overshoot = LR * kappa * max(abs(error), 1.0) * np.abs(trace).sum()
    return params + LR / max(overshoot, 1.0) * error * trace


def numbers_of(step: Step) -> tuple[np.ndarray, int, bool, float]:
    """The observation, the action, whether it begins an episode, and the target of its value."""
    target = float(step.reward) + float(step.discount) * float(step.next_value)
    return np.asarray(step.observation.obs)[0, 0, 0], int(step.action[0, 0, 0]), bool(step.begins), target


def test_q_lambda_is_watkins():
    """With values that are linear in the observation, against the algorithm of the textbooks."""
    agent = agent_of(stream_q.make(stream_q.Config(**SMALL)))

    def apply(params, carry, observation, reset):
        q = observation.obs @ params.T
        return carry, distributions.EpsilonGreedy(q), q

    agent = dataclasses.replace(agent, networks=agent.networks._replace(apply=apply))
    h = stream_q.Hyperparams(LR, GAMMA, DECAY, KAPPA, 0.0, 0.0, 0.0)
    rng = np.random.default_rng(2)
    weights, steps = rng.normal(size=(A, D)).astype(np.float32), stream(rng)
    got = learned(stream_q, agent, h, jnp.asarray(weights), steps)

    trace, greedy = np.zeros_like(weights), []
    for step, params in zip(steps, got, strict=True):
        x, action, begins, target = numbers_of(step)
        q = weights @ x
        greedy.append(action == q.argmax())
        trace = trace * GAMMA * DECAY if greedy[-1] and not begins else np.zeros_like(trace)
        trace[action] += x
        weights = slow_step(weights, trace, target - q[action], KAPPA)
        np.testing.assert_allclose(params, weights, rtol=1e-4, atol=1e-5)
    assert 0 < sum(greedy) < LENGTH
    assert any(greedy[t] for t in (5, 10))  # or a trace that runs on into the next episode would be cut anyway


def test_actor_and_critic_move_by_the_same_error():
    """With a linear critic and a policy of linear logits, against gradients by hand."""
    agent = agent_of(stream_ac.make(stream_ac.Config(**SMALL)))

    def apply(params, carry, observation, reset):
        actor, critic = params["params"]["actor"], params["params"]["critic"]
        return carry, distributions.categorical(observation.obs @ actor.T), observation.obs @ critic

    agent = dataclasses.replace(agent, networks=agent.networks._replace(apply=apply))
    h = stream_ac.Hyperparams(LR, GAMMA, DECAY, KAPPA_POLICY, KAPPA, ENT_COEF)
    rng = np.random.default_rng(0)
    actor, critic = rng.normal(size=(A, D)).astype(np.float32), rng.normal(size=D).astype(np.float32)
    steps = stream(rng)
    got = learned(stream_ac, agent, h, {"params": {"actor": jnp.asarray(actor), "critic": jnp.asarray(critic)}}, steps)

    actor_trace, critic_trace = np.zeros_like(actor), np.zeros_like(critic)
    for step, params in zip(steps, got, strict=True):
        x, action, begins, target = numbers_of(step)
        error, logits = target - critic @ x, actor @ x
        prob = np.exp(logits) / np.exp(logits).sum()
        entropy = -(prob * np.log(prob)).sum()
        of_log_prob, of_entropy = np.eye(A)[action] - prob, -prob * (np.log(prob) + entropy)
        decay = 0.0 if begins else GAMMA * DECAY
        actor_trace = decay * actor_trace + np.outer(of_log_prob + ENT_COEF * np.sign(error) * of_entropy, x)
        critic_trace = decay * critic_trace + x
        actor = slow_step(actor, actor_trace, error, KAPPA_POLICY)
        critic = slow_step(critic, critic_trace, error, KAPPA)
        np.testing.assert_allclose(params["params"]["actor"], actor, rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(params["params"]["critic"], critic, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", ["stream_ac", pytest.param("stream_q", marks=pytest.mark.slow)])
def test_the_traces_follow_another_objective_if_one_is_given(name: str) -> None:
    """One that no parameter changes: nothing moves, errors are still those of the value, and its facts are kept."""
    module, config = VARIANTS[name]

    def still(agent, h, params, step):
        objective, about = module.objective(agent, h, params, step)
        return 0.0 * objective - 100.0, {**about, "mine": jnp.float32(7.0)}

    algo = module.make(config, loss=still)
    state = jax.jit(algo.init)(jax.random.key(0))
    after, metrics = jax.jit(algo.update)(state)
    chex.assert_trees_all_equal(after.params, state.params)
    assert metrics["losses"]["mine"] == 7.0
    assert 0.0 < metrics["losses"]["td_error"] < 50.0


@pytest.mark.parametrize(("name", "needed"), [("stream_ac", "td_error"), ("stream_q", "greedy")])
def test_an_objective_of_another_form_is_told_what_to_return(name: str, needed: str) -> None:
    module, config = VARIANTS[name]

    def silent(agent, h, params, step):
        objective, about = module.objective(agent, h, params, step)
        return objective, {key: value for key, value in about.items() if key != needed}

    for loss, sentence in (
        (silent, f"The loss returned no '{needed}'; return .scalar, .* among the names"),
        (lambda *given: module.objective(*given)[0], r"The loss returned an array \[\]; return"),
    ):
        algo = module.make(config, loss=loss)
        with pytest.raises(TypeError, match=sentence):
            jax.eval_shape(lambda key, algo=algo: algo.update(algo.init(key)), jax.random.key(0))


def rows_of(config, row, actions):
    """`row(step)` of each of T steps, `[T, …]`, and the metrics; all actions have one value, which rises each step."""
    agent = agent_of(algo := stream_q.make(config))

    def apply(params, carry, observation, reset):
        q = jnp.broadcast_to(params, (*observation.obs.shape[:-1], actions))
        return carry, distributions.EpsilonGreedy(q), q

    def learn(params, trace, step):
        return params + 1.0, trace.at[params.astype(int)].set(jnp.hstack(row(step))), {}

    agent = dataclasses.replace(agent, networks=agent.networks._replace(apply=apply))
    state = jax.jit(algo.init)(jax.random.key(0))
    state = dataclasses.replace(state, params=jnp.float32(0), opt_state=jnp.zeros((config.num_steps, 8)))
    state, metrics = jax.jit(lambda state: learn_from_stream(agent, state, jnp.float32(0.5), learn))(state)
    return np.asarray(state.opt_state, np.float64), metrics


def test_a_step_knows_what_it_led_to_and_is_learned_from_before_the_next():
    """An endless task cut every five steps, with a value that each step raises by one."""
    config = stream_q.Config(
        env="probe/truncation", num_steps=12, total_timesteps=12, normalise_obs=False, normalise_reward=False
    )
    told = lambda step: (step.begins, step.reward, step.discount, step.next_value, jnp.zeros(4))  # noqa: E731
    rows, metrics = rows_of(config, told, actions=2)
    begins, reward, discount, next_value, *_ = rows.T
    np.testing.assert_array_equal(begins, [t % 5 == 0 for t in range(12)])
    np.testing.assert_array_equal(reward, 1.0)
    np.testing.assert_array_equal(discount, 0.5)  # the clock ends no task
    np.testing.assert_array_equal(next_value, np.arange(12))  # by the parameters that acted
    assert (metrics["episodes"], metrics["return_sum"]) == (2, 10)


def test_observations_and_rewards_are_scaled_by_what_was_seen_so_far():
    """From the first one on, against NumPy; the actions do not depend on them."""

    def stream_of(scaled: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Observations `[T, D]`, rewards `[T]` and where episodes begin, `[T]`."""
        fields: Any = {"num_steps": 40, "total_timesteps": 40, "normalise_obs": scaled, "normalise_reward": scaled}
        config = stream_q.Config(env="classic/acrobot?max_steps=15", **fields)
        rows, _ = rows_of(config, lambda step: (step.observation.obs.ravel(), step.reward, step.begins), actions=3)
        return rows[:, :6], rows[:, 6], rows[:, 7]

    (obs, reward, begins), (scaled_obs, scaled_reward, _) = map(stream_of, (False, True))
    sums, total = [], 0.0
    for t in range(len(obs)):
        total = reward[t] + (0.0 if begins[t] else 0.5 * total)
        sums.append(total)
        mean, variance = (obs[:t].mean(0), obs[:t].var(0) if t > 1 else 1.0) if t else (0.0, 1.0)
        expected = ((obs[t] - mean) / np.sqrt(variance + 1e-8)).clip(-10, 10)
        np.testing.assert_allclose(scaled_obs[t], expected, rtol=1e-3, atol=1e-3)
        variance = np.var(sums) if t else 1.0
        np.testing.assert_allclose(scaled_reward[t], (reward[t] / np.sqrt(variance + 1e-8)).clip(-10, 10), rtol=1e-3)
    assert begins.sum() > 2


# The algorithms


@pytest.fixture(scope="module", params=list(VARIANTS))
def trained(request):
    """An algorithm, and the states of two seeds side by side after three updates."""
    module, config = VARIANTS[request.param]
    algo = module.make(config)
    init, update = jax.jit(algo.init), jax.jit(jax.vmap(algo.update))
    before = [init(key) for key in jax.random.split(jax.random.key(0))]
    states, metrics = jax.tree.map(lambda *leaves: jnp.stack(leaves), *before), {}
    with jax.debug_key_reuse(False):  # it is wrong about keys that are split inside a vmapped scan
        for _ in range(3):
            states, metrics = update(states)
    return config, algo, before, states, metrics


def test_updates_train_and_stay_finite(trained):
    config, _, before, states, metrics = trained
    assert states.update.tolist() == [3, 3]
    assert all(np.all(np.isfinite(leaf)) for leaf in jax.tree.leaves((states.params, metrics)))
    seen = states.normaliser.obs.count[..., 1]
    assert seen.ravel().tolist() == [3 * config.num_steps] * 2  # each observation once
    moved = jax.tree.map(lambda a, b: bool(np.any(a != b[0])), before[0].params, states.params)
    assert all(jax.tree.leaves(moved))


def test_streams_side_by_side_learn_as_they_would_alone(trained):
    _, algo, before, states, _ = trained
    update, alone = jax.jit(algo.update), before[1]
    with jax.debug_key_reuse(False):  # the same beginning for the second time
        for _ in range(3):
            alone, _ = update(alone)
    for name in ("params", "opt_state", "normaliser"):
        own = jax.tree.map(lambda leaf: leaf[1], getattr(states, name))
        chex.assert_trees_all_close(own, getattr(alone, name), rtol=1e-3, atol=1e-4)


def test_act_is_greedy_without_a_key(trained):
    config, algo, before, _, _ = trained
    obs = np.random.default_rng(0).normal(size=(256, *config.make_env().observation_space().shape))
    act = jax.jit(algo.act)
    greedy, _ = act(before[0], obs)
    drawn, _ = act(before[0], obs, None, jax.random.key(4))
    assert greedy.shape == drawn.shape
    assert np.mean(np.asarray(greedy) != np.asarray(drawn)) > 0.4


def test_a_stopped_run_goes_on_exactly(tmp_path):
    """Traces, normaliser and environment among it."""
    module, config = VARIANTS["stream_q"]
    options = {"quiet": True, "pictures": False, "eval_episodes": 4, "log_every": 1, "checkpoint_every_updates": 1}
    algo = module.make(config)
    whole = jaxrl.fit(algo, config, tmp_path / "whole", **options)
    stop_early = lambda row: row["timesteps"] >= 60  # noqa: E731
    stopped = jaxrl.fit(algo, config, tmp_path / "run", callbacks=[stop_early], **options)
    assert int(stopped.state.update) == 3
    resumed = jaxrl.fit(algo, config, tmp_path / "run", resume=True, **options)
    for name in ("params", "opt_state", "normaliser", "runner"):
        chex.assert_trees_all_equal(getattr(resumed.state, name), getattr(whole.state, name))


# Configurations


@pytest.mark.parametrize(
    ("module", "fields", "message"),
    [
        (stream_q, {"num_envs": 2}, r"num_envs must be 1, because .*\(--num-seeds trains many .*\), got 2"),
        (stream_q, {"memory": "gru"}, "memory must be none, because a stream is learned from step by step, got gru"),
        (stream_q, {"kappa": 0.0}, "kappa must be positive"),
        (stream_ac, {"trace_lambda": 1.5}, "trace_lambda must lie between 0 and 1"),
        (stream_ac, {"ent_coef": -1.0}, "ent_coef must not be negative"),
        (stream_ac, {"env": "mpe/simple_spread"}, "has 3 agents and stream_ac trains one; use ippo, mappo or pqn"),
        (stream_q, {"env": "classic/pendulum"}, r"has actions in Box.* and stream_q needs Discrete ones; use sac"),
        (stream_q, {"num_shards": 2}, "num_shards=2 has no effect with num_envs=1; .* or train several seeds"),
        (stream_ac, {"squash": True}, "squash=True has no effect with env=classic/cartpole"),
    ],
)
def test_what_makes_no_sense_is_refused(module, fields, message):
    with pytest.raises((ValueError, TypeError), match=message):
        module.make(module.Config(**fields))


def test_one_stream_cannot_be_split_over_devices():
    with pytest.raises(ValueError, match=r"mesh.data=2 cannot split 1 shard; use mesh.data=1"):
        choose_mesh(stream_q.Config(), 4, MeshShape(data=2))


# Learning


@pytest.mark.slow
@pytest.mark.parametrize(
    ("module", "preset", "total_timesteps", "wanted"),
    [(stream_q, "default", 200_000, 400.0), (stream_ac, "pendulum", 150_000, -250.0)],
)
def test_one_stream_is_enough_to_learn(module, preset, total_timesteps, wanted):
    """Five seeds side by side, and shorter than the presets, which these unoptimised programs make slow."""
    config = dataclasses.replace(module.PRESETS[preset], total_timesteps=total_timesteps)
    returns = greedy_returns(module, config, seed=20)
    assert np.sort(returns)[1:-1].mean() >= wanted, returns  # without the best and the worst
