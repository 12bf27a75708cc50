"""Behaviour cloning finds the probabilities of recorded actions, and learners of values learn from recorded steps."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from family import agent_of
from replayed import SMALL

from jaxrl.algos import bc, dqn, qmix, sac
from jaxrl.algos.off_policy import Steps, draw_beside, draw_recorded, recorded, take_beside, take_recorded
from jaxrl.cli import main
from jaxrl.data import Writer
from jaxrl.rl.devices import shard_keys

LENGTH, ENVS = 40, 6
CLONE: dict[str, Any] = {
    "num_envs": 4,
    "num_steps": 4,
    "total_timesteps": 16 * 20,
    "gradient_steps": 20,
    "batch_size": 64,
    "hidden": (16,),
    "lr": 1e-2,
    "anneal_lr": False,
}


def record(path: Path, env: str, obs: Any, action: Any, reward: Any = None, **more: Any) -> str:
    """Recorded steps `[T, B, …]` of episodes that take one step each, unless `more` says otherwise."""
    lead = action.shape[:2]
    ends = {"terminated": np.ones(lead, bool), "truncated": np.zeros(lead, bool), "reset": np.ones(lead, bool)}
    reward = (
        np.zeros(action.shape[: more.get("agent_mask", np.zeros(lead)).ndim], np.float32) if reward is None else reward
    )
    final = {"final_index": np.zeros((0, 2), np.int32), "final_observation": obs[:0, 0]}
    steps = {
        "obs": obs.astype(np.float32),
        "action": action.astype(np.int32),
        "reward": reward,
        **ends,
        **final,
        **more,
    }
    Writer(path, env, lead[1], {}).write(steps)
    return str(path)


@pytest.fixture(scope="module")
def choices(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Action 1 three times in four where -1 is observed, and never where 1 is; rewards are 10 and 20."""
    rng = np.random.default_rng(0)
    obs = rng.choice([-1.0, 1.0], (LENGTH, ENVS, 1))
    quarter = np.arange(LENGTH * ENVS).reshape(LENGTH, ENVS) % 4 > 0
    rng.shuffle(quarter.reshape(-1))
    reward = np.where(obs[..., 0] < 0, 10.0, 20.0).astype(np.float32)
    path = tmp_path_factory.mktemp("data") / "choices"
    return record(path, "probe/observation_action", obs, (obs[..., 0] < 0) & quarter, reward)


def trained(config: Any) -> tuple[Any, Any, dict[str, jax.Array]]:
    state, metrics = jax.jit(bc.make_train(config))(jax.random.key(0))
    return agent_of(bc.make(config)), state, metrics


def test_a_clone_has_the_probabilities_of_recorded_actions_and_the_value_of_recorded_returns(choices: str) -> None:
    agent, state, metrics = trained(bc.Config(env="probe/observation_action", data=choices, **CLONE))
    obs = jnp.array([[[-1.0]], [[1.0]]])
    policy, value, _ = agent.evaluate(state, obs)
    data = recorded(agent, choices).steps
    first = np.asarray(data.observation.obs)[..., 0] < 0
    expected = [np.asarray(data.action)[which].mean() for which in (first, ~first)]
    np.testing.assert_allclose(policy.probs[0, :, 0, 1], expected, atol=0.03)
    np.testing.assert_allclose(value[:, 0], [10.0, 20.0], atol=0.5)

    # The entropy of what was recorded is the least possible.
    share, p = first.mean(), expected[0]
    least = -share * (p * np.log(p) + (1 - p) * np.log(1 - p))
    assert metrics["losses"]["nll"][-1] == pytest.approx(least, abs=0.06)
    best = share * max(p, 1 - p) + 1 - share
    assert metrics["losses"]["accuracy"][-1] == pytest.approx(best, abs=0.06)
    assert metrics["episodes"].sum() == 320  # it plays as well


def test_a_mask_counts_as_the_environment_means_it(tmp_path: Path) -> None:
    """Of two actions that were possible, one was chosen; the third was not possible, so it says nothing."""
    obs = np.zeros((LENGTH, ENVS, 1))
    mask = np.broadcast_to([True, False, True], (LENGTH, ENVS, 3))
    action = np.full((LENGTH, ENVS), 2)
    data = record(tmp_path / "d", "probe/action_mask", obs, action, action_mask=mask)
    agent, state, metrics = trained(bc.Config(env="probe/action_mask", data=data, **CLONE))
    policy, *_ = agent.evaluate(state, obs[0, :1, None], action_mask=mask[0, :1, None])
    assert policy.probs[0, 0, 0, 2] > 0.97
    assert metrics["losses"]["nll"][0] < np.log(2)  # among three, it would begin with log 3


def test_the_dead_are_no_example(tmp_path: Path) -> None:
    """The second agent is dead where it is recorded with another action."""
    obs = np.zeros((LENGTH, ENVS, 2, 1))
    action = np.broadcast_to([1, 0], (LENGTH, ENVS, 2))
    alive = np.broadcast_to([True, False], (LENGTH, ENVS, 2))
    mask = np.ones((LENGTH, ENVS, 2, 2), bool)
    data = record(tmp_path / "d", "probe/death", obs, action, agent_mask=alive, action_mask=mask)
    agent, state, _ = trained(bc.Config(env="probe/death", data=data, **CLONE))
    policy, *_ = agent.evaluate(state, obs[0, :1])
    assert policy.probs[0, 0, :, 1].min() > 0.97


def test_memory_begins_empty_and_is_filled_before_anything_is_learned(tmp_path: Path) -> None:
    """The action repeats the first observation of the episode, of which the last steps see nothing."""
    rng = np.random.default_rng(1)
    cue = np.repeat(rng.choice([-1.0, 1.0], (LENGTH // 4, ENVS)), 4, axis=0)
    step = np.tile(np.arange(4)[:, None], (LENGTH // 4, ENVS))
    obs = np.stack([np.where(step == 0, cue, 0), step / 3], axis=-1)
    ends = {"reset": step == 0, "terminated": step == 3}
    data = record(tmp_path / "d", "probe/memory_recall", obs, cue > 0, **ends)
    memory = {"memory": "gru", "memory_size": 16, "sequence_length": 4, "burn_in": 3}
    config = bc.Config(env="probe/memory_recall", data=data, **{**CLONE, **memory, "gradient_steps": 60})
    _, _, metrics = trained(config)
    assert metrics["losses"]["accuracy"][-1] > 0.97  # from any window, since three steps before it fill the memory
    assert metrics["return_sum"][-1] / metrics["episodes"][-1] > 0.9


def test_returns_to_go_are_discounted_sums_up_to_recorded_ends() -> None:
    rng = np.random.default_rng(2)
    reward = rng.normal(size=(2, 1, 9, 2)).astype(np.float32)
    terminated, truncated = rng.random((2, 1, 9)) < 0.3, rng.random((2, 1, 9)) < 0.3
    truncated &= ~terminated
    unused: Any = None
    recorded: Any = (reward, terminated, truncated)
    returns, known = bc.returns_to_go(Steps(unused, unused, unused, *recorded), 0.9)
    for env in range(2):
        for t in range(9):
            end = next((k for k in range(t, 9) if terminated[env, 0, k] or truncated[env, 0, k]), None)
            assert known[env, 0, t] == (end is not None and terminated[env, 0, end])
            if known[env, 0, t]:
                expected = sum(0.9 ** (k - t) * reward[env, 0, k] for k in range(t, int(end or 0) + 1))
                np.testing.assert_allclose(returns[env, 0, t], expected, rtol=1e-5)


def test_a_clone_is_where_ppo_begins(choices: str, tmp_path: Path) -> None:
    sizes = ["--num-envs", "4", "--num-steps", "4", "--total-timesteps", "16", "--hidden", "8", "--quiet"]
    env = ["--env", "probe/observation_action", "--no-pictures"]
    main(["train", "bc", *env, *sizes, "--data", choices, "--run-dir", str(tmp_path / "clone")])
    main(["train", "ppo", *env, *sizes, "--init-from", str(tmp_path / "clone"), "--run-dir", str(tmp_path / "ppo")])


def beside(module: Any, env: str, data: str, **fields: Any) -> tuple[Any, Any]:
    config = module.Config(env=env, prior_data=data, **{**SMALL, "num_shards": 2, **fields})
    algo = module.make(config)
    return agent_of(algo), algo.init(jax.random.key(0))


@pytest.mark.parametrize("share", [0.25, 0.5])
def test_each_shard_has_its_share_of_recorded_steps(choices: str, share: float) -> None:
    """Everything in the buffer is 0 yet, and what was recorded is not."""
    agent, state = beside(dqn, "probe/observation_action", choices, prior_share=share, n_step=2)
    _, keys = shard_keys(jax.random.key(1), 2)
    index = draw_beside(agent, state.replay, keys[0], 5, 4, agent.config.window)
    for number in range(5):
        one = jax.tree.map(lambda leaf, number=number: leaf[number], index)
        steps, _ = take_beside(agent, state.replay, one, agent.config.window)
        given = np.asarray(steps.observation.obs)[..., 0, 0] != 0
        expected = [False] * round(4 * (1 - share)) + [True] * round(4 * share)
        np.testing.assert_array_equal(given, [expected * 2] * 3)
        np.testing.assert_array_equal(np.asarray(steps.reward)[..., 0] >= 10, given)


def test_windows_of_recorded_steps_are_successive_and_from_everywhere(tmp_path: Path) -> None:
    number = np.arange(LENGTH * ENVS).reshape(LENGTH, ENVS)
    data = record(tmp_path / "d", "classic/cartpole", np.repeat(number[..., None], 4, -1), number % 2)
    agent, _ = beside(dqn, "classic/cartpole", data)
    replay = recorded(agent, data)
    index = draw_recorded(replay, jax.random.split(jax.random.key(0), 2), 50, 40, 3)
    steps, carry = take_recorded(agent, replay, jax.tree.map(jnp.ravel, index), 3)
    found = np.asarray(steps.observation.obs)[:, :, 0, 0]
    np.testing.assert_array_equal(np.diff(found, axis=0), ENVS)
    assert set(found[0].astype(int)) == set(number[:-2].reshape(-1))
    assert jax.tree.leaves(carry) == []


@pytest.mark.parametrize("module", [qmix, sac], ids=["qmix", "sac"])
def test_global_states_and_boxes_are_learned_from(module: Any, tmp_path: Path) -> None:
    """Teams whose mixer sees the global state, and actions in a box: an update is finite."""
    rng = np.random.default_rng(3)
    if module is qmix:
        env, obs = "probe/two_step", rng.normal(size=(LENGTH, ENVS, 2, 3))
        action, alive = rng.integers(0, 2, (LENGTH, ENVS, 2)), np.ones((LENGTH, ENVS, 2), bool)
        more = {"agent_mask": alive, "action_mask": np.ones((LENGTH, ENVS, 2, 2), bool)}
        data = record(tmp_path / "d", env, obs, action, **more, global_state=obs[:, :, 0].astype(np.float32))
    else:
        env, obs, action = "classic/pendulum", rng.normal(size=(LENGTH, ENVS, 3)), rng.uniform(-2, 2, (LENGTH, ENVS, 1))
        reward = np.zeros((LENGTH, ENVS), np.float32)
        data = record(tmp_path / "d", env, obs, action, reward)
    config = module.Config(env=env, prior_data=data, **{**SMALL, "learning_starts": 0})
    algo = module.make(config)
    state = algo.init(jax.random.key(0))
    state, metrics = jax.jit(algo.update)(state)
    losses = metrics["losses"]
    assert all(np.isfinite(loss) for loss in jax.tree.leaves(losses))
    assert any(loss != 0 for name, loss in losses.items() if name != "buffer")  # it has learned


def _no_data(_: Path, choices: str) -> Any:
    return bc, {"env": "probe/observation_action"}


def _other_env(_: Path, choices: str) -> Any:
    return bc, {"env": "classic/cartpole", "data": choices}


def _other_shape(path: Path, _: str) -> Any:
    data = record(path / "d", "classic/cartpole", np.zeros((4, 2, 3)), np.zeros((4, 2)))
    return bc, {"env": "classic/cartpole", "data": data}


def _no_states(path: Path, _: str) -> Any:
    alive, action = np.ones((4, 2, 2), bool), np.zeros((4, 2, 2))
    data = record(path / "d", "probe/two_step", np.zeros((4, 2, 2, 3)), action, agent_mask=alive)
    return qmix, {**SMALL, "env": "probe/two_step", "prior_data": data}


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (_no_states, r"holds no global states, which the critic sees; record the steps again"),
        (_no_data, r"give --data FOLDER, from jaxrl record RUN"),
        (_other_env, r"holds steps of probe/observation_action, not of classic/cartpole: train with --env probe/obs"),
        (_other_shape, r"have other shapes than those of classic/cartpole here; record them again"),
    ],
)
def test_data_that_does_not_fit_is_refused(
    wrong: Callable[[Path, str], Any], message: str, choices: str, tmp_path: Path
) -> None:
    module, fields = wrong(tmp_path, choices)
    algo = module.make(module.Config(**{**CLONE, **fields}))
    with pytest.raises(ValueError, match=message):
        jax.eval_shape(algo.update, jax.eval_shape(algo.init, jax.random.key(0)))


def test_a_share_of_nothing_is_refused(choices: str) -> None:
    with pytest.raises(ValueError, match=r"prior_share=0.01 leaves nothing to draw from one of the two"):
        dqn.Config(prior_data=choices, prior_share=0.01)
    with pytest.raises(ValueError, match=r"prior_share=0.25 has no effect with prior_data=.*name a folder"):
        dqn.make(dqn.Config(prior_share=0.25))
