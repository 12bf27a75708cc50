"""DQN and what learns from a replay buffer: targets, stored experience, memory, when learning starts, copies."""

import dataclasses
import itertools
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import replayed
from family import agent_of, greedy_returns

import jaxrl
from jaxrl.acting.agent import next_rollout, rollout_policy
from jaxrl.acting.rollout import Observation
from jaxrl.algorithm import field_names
from jaxrl.algos import dqn, iql, qmix, td3, vdn
from jaxrl.algos.off_policy import TrainState
from jaxrl.cli.plan import main as plan
from jaxrl.rl.replay import Index, new_replay, num_stored, take, write
from jaxrl.spaces import Discrete
from jaxrl.train.folder.load import load
from jaxrl.train.programs import member_keys

SMALL: dict[str, Any] = {**replayed.SMALL, "gradient_steps": 2}
GRU: dict[str, Any] = {"memory": "gru", "memory_size": 8, "sequence_length": 2}
TEAM: dict[str, Any] = {**SMALL, **GRU, "env": "probe/death", "burn_in": 2, "n_step": 2, "sharing": "none"}


def updates(config, count, key=0):
    """The states before and after each of the first updates, and their metrics."""
    algo = dqn.make(config)
    update, states, rows = jax.jit(algo.update), [jax.jit(algo.init)(jax.random.key(key))], []
    for _ in range(count):
        state, metrics = update(states[-1])
        states.append(state)
        rows.append(metrics)
    return algo, states, rows


@pytest.fixture(scope="module")
def alone():
    return updates(dqn.Config(**SMALL), 6)


@pytest.fixture(scope="module")
def team():
    return updates(dqn.Config(**TEAM), 6)


def test_values_of_replayed_sequences_are_those_that_acted(team):
    """From the stored memory and its resets on, in every window of a buffer that has wrapped."""
    algo, states, _ = team
    agent, window = agent_of(algo), 7

    @jax.jit
    def act_and_replay(state):
        def one(loop, _):
            state, replay = loop
            state, traj, _, _ = next_rollout(agent, state, rollout_policy(agent, state), 0)
            steps = (traj.observation, traj.reset, traj.extras["value"])
            return (state, write(replay, steps, traj.carry)), None

        traj = jax.eval_shape(lambda state: next_rollout(agent, state, rollout_policy(agent, state), 0)[1], state)
        replay = new_replay((traj.observation, traj.reset, traj.extras["value"]), traj.carry, 3)
        (_, replay), _ = jax.lax.scan(one, (state, replay), length=5)
        every = jnp.meshgrid(jnp.arange(4), jnp.arange(0, 3 * 4 - window + 1, 2), indexing="ij")
        (observation, reset, value), carry = take(replay, Index(*(each.reshape(-1) for each in every)), window)
        _, _, q = agent.networks.apply(state.params, carry, observation, reset)
        return reset, value, agent.team_value(q.max(-1), observation.agent_mask, agent.env.teams)

    reset, acted, replayed = act_and_replay(dataclasses.replace(states[-1], key=jax.random.key(3)))
    assert reset[1:].any()
    np.testing.assert_allclose(replayed, acted, atol=1e-5)


@pytest.mark.parametrize("which", ["alone", "team"])
def test_the_buffer_holds_what_was_seen_and_done(which, request):
    """The first observation, masks, and actions that they allow; rewards follow actions: nothing is moved by a step."""
    algo, states, _ = request.getfixturevalue(which)
    agent, (before, after) = agent_of(algo), states[:2]
    steps = jax.tree.map(lambda leaf: np.asarray(leaf)[:, 0], after.replay.steps)  # [B, T, ...]
    np.testing.assert_array_equal(steps.observation.obs[:, 0], before.runner.obs)
    np.testing.assert_array_equal(after.replay.steps.observation.obs.dtype, agent.env.observation_space().dtype)
    assert steps.reset[:, 0].all()
    allowed = np.take_along_axis(steps.observation.action_mask, steps.action[..., None], axis=-1)[..., 0]
    assert allowed[steps.observation.agent_mask].all()
    assert np.any(steps.observation.obs[:, 1:] != steps.observation.obs[:, :-1])
    ended = steps.terminated | steps.truncated
    np.testing.assert_array_equal(steps.reset[:, 1:], ended[:, :-1])
    np.testing.assert_array_equal(after.runner.reset, ended[:, -1])


@pytest.mark.parametrize(
    ("env", "dtype"),
    [("minatar/breakout", bool), ("toy/alone?seen=picture", np.uint8), ("classic/cartpole", np.float32)],
)
def test_the_buffer_holds_observations_in_their_own_dtype(env, dtype, toys):
    """A bool or a byte takes a quarter of the memory of a float."""
    algo = dqn.make(dqn.Config(**{**SMALL, "env": env}))
    obs = jax.eval_shape(algo.init, jax.random.key(0)).replay.steps.observation.obs
    assert obs.dtype == dtype
    assert obs.shape[1:4] == (4, 4, 1)  # rollouts, steps, agents


def test_learning_starts_when_it_should_and_until_then_actions_are_random(alone):
    """Two rollouts of 16 steps hold the 32 that it waits for, so the second update is the first that learns."""
    _, states, metrics = alone
    first = [np.asarray(jax.tree.leaves(state.params)[0]) for state in states]
    assert np.array_equal(first[0], first[1])
    assert not np.array_equal(first[1], first[2])
    assert [int(state.opt_state.count) for state in states] == [0, 0, 2, 4, 6, 8, 10]
    assert [float(row["losses"]["epsilon"]) for row in metrics] == pytest.approx([1, 1, 0.05, 0.05, 0.05, 0.05])
    assert [float(row["losses"]["buffer"]) for row in metrics] == [0.25, 0.5, 0.75, 1, 1, 1]
    assert [float(row["losses"]["value"]) > 0 for row in metrics] == [False, *[True] * 5]
    assert [int(num_stored(state.replay)) for state in states] == [0, 4, 8, 12, 16, 16, 16]


def test_actions_stay_random_until_the_buffer_has_whole_windows():
    """With `learning_starts=0`, it still waits for the 5 steps of the window in each of the 4 environments."""
    config = dqn.Config(**{**SMALL, "n_step": 4, "learning_starts": 0})
    assert (config.window, config.updates_before_learning) == (5, 2)
    assert [bool(config.waiting(jnp.int32(update))) for update in range(4)] == [True, True, False, False]


def test_the_buffer_is_filled_by_the_policy_without_a_random_start():
    config = dqn.Config(**SMALL, eps_start=0.1, eps_decay=0.5, random_start=False)
    shares = [float(config.epsilon(config.hyperparams, jnp.int32(update))) for update in range(3)]
    assert shares[0] == pytest.approx(0.1)
    assert shares[0] > shares[1] > shares[2]


def test_a_target_begins_as_the_learned_network_and_follows_it():
    config = dqn.Config(**SMALL, tau=0.25, target_update_interval=2)  # two gradient steps an update: one move
    _, states, _ = updates(config, 3)
    jax.tree.map(np.testing.assert_array_equal, states[0].target, states[0].params)
    for before, after in itertools.pairwise(states[1:]):
        moved = jax.tree.map(lambda old, new: 0.75 * old + 0.25 * new, before.target, after.params)
        jax.tree.map(partial(np.testing.assert_allclose, atol=1e-6), after.target, moved)


def test_training_guards_copies_and_spreads_what_it_should():
    """A NaN guard restores, and PBT copies, what is learned; PBT lets members keep their buffers."""
    assert field_names(TrainState, "learned") == ("params", "target", "opt_state", "normaliser")
    assert field_names(TrainState, "replayed") == ("replay",)


def test_a_vmapped_seed_equals_the_seed_alone_and_no_update_copies_the_buffer():
    config = dqn.Config(**{**SMALL, "buffer_size": 16 * 1000})
    train = dqn.make_train(config)
    keys = member_keys(0, 3)
    with jax.debug_key_reuse(False):  # it is wrong about keys that are split inside a vmapped scan
        together = jax.jit(jax.vmap(train)).lower(keys).compile()
        alone = jax.jit(train).lower(keys[1]).compile()
        (states, metrics), (state, alone_metrics) = together(keys), alone(jax.random.clone(keys)[1])
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a[1], b, rtol=1e-3, atol=1e-4), metrics, alone_metrics)
    assert not np.allclose(metrics["losses"]["q"][0], metrics["losses"]["q"][1])
    for compiled, trained in ((together, states), (alone, state)):
        size = sum(leaf.nbytes for leaf in jax.tree.leaves(trained.replay))
        used = compiled.memory_analysis()
        assert used is not None
        assert used.temp_size_in_bytes < 0.1 * size


OPTIONS: dict[str, Any] = {"quiet": True, "pictures": False, "eval_episodes": 4, "log_every": 1}


def stopped_and_resumed(config, folder):
    """The result of a run that was stopped after 7 of 10 updates, or a little later, and resumed."""
    algo = dqn.make(config)
    stop = lambda row: row["timesteps"] >= 7 * config.steps_per_update  # noqa: E731
    jaxrl.fit(algo, config, folder, callbacks=[stop], checkpoint_every_updates=1, eval_every=3, **OPTIONS)
    return jaxrl.fit(algo, config, folder, resume=True, eval_every=3, **OPTIONS)


def test_a_run_resumes_bit_for_bit_across_a_wrap_of_the_buffer(tmp_path):
    config = dqn.Config(**SMALL)
    whole, resumed = jaxrl.fit(dqn.make(config), config, **OPTIONS), stopped_and_resumed(config, tmp_path / "run")
    for a, b in zip(jax.tree.leaves(whole.state), jax.tree.leaves(resumed.state), strict=True):
        is_key = jnp.issubdtype(a.dtype, jax.dtypes.prng_key)
        a, b = (jax.random.key_data(a), jax.random.key_data(b)) if is_key else (a, b)
        np.testing.assert_array_equal(a, b)
    assert load(tmp_path / "run").state.replay.rollouts.tolist() == [10] * 4
    best = load(tmp_path / "run", best=True)
    assert best.state.replay == ()
    action, _ = best.policy(np.zeros(4, np.float32))
    assert np.asarray(action) in (0, 1)


def test_checkpoints_without_the_buffer_are_small_and_training_waits_for_a_new_one(tmp_path):
    config = dqn.Config(**{**SMALL, "buffer_size": 16 * 100}, checkpoint_replay=False)
    resumed = stopped_and_resumed(config, tmp_path / "run")
    events = (tmp_path / "run" / "events.jsonl").read_text()
    assert "Checkpoints leave out the replay buffer" in events
    assert "The replay buffer was not saved, so it begins empty." in events
    assert load(tmp_path / "run").state.replay == ()
    done = int(resumed.state.replay.rollouts[0])
    assert 0 < done < 10
    assert int(resumed.state.opt_state.count) == 2 * (9 - 1)  # one update without learning, twice


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"buffer_size": 0}, "buffer_size must be at least 1"),
        ({"tau": 1.5}, "tau must lie between 0 and 1"),
        ({"n_step": 0}, "n_step must be at least 1"),
        ({"buffer_size": 128, "n_step": 9}, "use at least buffer_size=160"),
        ({"learning_starts": 200_000}, "learning_starts=200000, .* is more than the 100096 steps .* use a lower"),
        ({"value_loss": "l1"}, "value_loss must be one of mse, huber, hlgauss"),
        ({"num_minibatches": 4}, "dqn.Config has no field 'num_minibatches'"),
    ],
)
def test_what_makes_no_sense_is_explained(fields, message):
    with pytest.raises((ValueError, TypeError), match=message):
        dqn.Config(**fields)
    with pytest.raises(ValueError, match="burn_in=4 has no effect with memory=none"):
        dqn.make(dqn.Config(burn_in=4))
    with pytest.raises(ValueError, match=r"value_range=.* has no effect with value_loss=huber"):
        dqn.make(dqn.Config(value_loss="huber", value_range=(0.0, 1.0)))


@pytest.mark.parametrize(("module", "steps"), [(dqn, 20), (td3, 10)])
def test_a_target_that_never_moves_is_told_of(module, steps):
    """That of TD3 follows the actor, which learns half as often."""
    at_last, never = (module.Config(**SMALL, target_update_interval=steps + more) for more in (0, 1))
    assert at_last.warnings() == []
    (said,) = never.warnings()
    assert f"target_update_interval={steps + 1} is more than the {steps} steps" in said
    (said,) = module.Config(**{**SMALL, "tau": 0.0}).warnings()
    assert said == "The target network never moves: tau=0 takes nothing of the learned one; tau=1 copies it."


def test_distributions_of_values_are_compared_by_their_means():
    config = dqn.Config(env="probe/action_mask", value_loss="hlgauss", value_range=(-1.0, 3.0), hidden=(8,))
    agent = agent_of(dqn.make(config))
    space = agent.env.action_space()
    assert isinstance(space, Discrete)
    num_actions = space.n
    mask = jnp.arange(num_actions) % 2 == 0
    obs = jax.random.normal(jax.random.key(1), (2, 3, 1, *agent.env.observation_space().shape))
    observation = Observation(obs, None, jnp.broadcast_to(mask, (2, 3, 1, num_actions)), jnp.ones((2, 3, 1), bool))
    params = jax.jit(agent.networks.init)(jax.random.key(0))
    _, policy, logits = agent.networks.apply(params, (), observation, jnp.zeros((2, 3), bool))
    assert logits.shape == (2, 3, 1, num_actions, 51)
    means = config.value.each.decode(logits)
    np.testing.assert_allclose(means, 1.0, atol=0.1)  # it begins with the middle of the range
    np.testing.assert_array_equal(policy.values, jnp.where(mask, means, -1e18))
    np.testing.assert_array_equal(config.value.decode(logits), means.max(-1))


@pytest.mark.parametrize("module", [vdn, qmix])
def test_bins_are_refused_where_values_are_mixed(module):
    iql.make(iql.Config(value_loss="hlgauss"))
    with pytest.raises(ValueError, match=r"value_loss must be mse or huber, .*; dqn and iql have hlgauss, got hlgauss"):
        module.Config(value_loss="hlgauss")


def test_plan_counts_the_buffer_and_refuses_what_does_not_fit(capsys):
    words = [
        f"--{name.replace('_', '-')}={value}" for name, value in SMALL.items() if name not in ("hidden", "buffer_size")
    ]
    with pytest.raises(ValueError, match=r"try --buffer-size \d+ \(of 1000000\)"):
        plan(["dqn", "--env", "classic/cartpole", *words, "--buffer-size=1000000", "--memory-gb=0.02", "--mesh.data=1"])
    # A step takes 30 bytes: an observation of 4 floats, an action, a reward, a mask of 2 actions, 4 flags.
    assert "train state 30" in capsys.readouterr().out


def test_shards_split_environments_and_minibatches():
    assert dqn.Config(num_envs=16, batch_size=128).shards == 8
    assert dqn.Config(num_envs=16, batch_size=100).shards == 4
    assert dqn.Config(num_envs=1).shards == 1


@pytest.mark.slow
@pytest.mark.parametrize(("preset", "wanted"), [("default", 475.0), ("acrobot", -90.0)])
def test_presets_solve_their_task_with_five_seeds_at_once(preset, wanted):
    returns = greedy_returns(dqn, dqn.PRESETS[preset])
    assert np.all(returns >= wanted), returns


def test_replayed_rewards_are_divided_by_the_deviation_of_returns_so_far():
    """In CartPole, where all of them are 1, so that the loss sees one number."""

    def told(agent, h, params, target, batch):
        total, facts = dqn.loss(agent, h, params, target, batch)
        return total, {**facts, "least": batch.steps.reward.min(), "most": batch.steps.reward.max()}

    algo = dqn.make(dqn.Config(**{**SMALL, "learning_starts": 0}, normalise_reward=True), told)
    state, metrics = jax.jit(algo.update)(jax.jit(algo.init)(jax.random.key(0)))
    scale = 1.0 / np.sqrt(state.normaliser.returns.variance[0])
    assert scale < 0.95
    np.testing.assert_allclose(metrics["losses"]["least"], scale, rtol=1e-5)
    np.testing.assert_allclose(metrics["losses"]["most"], scale, rtol=1e-5)
