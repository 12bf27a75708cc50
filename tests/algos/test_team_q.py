"""IQL, VDN and QMIX: what one value for a team means for the loss, and what it can and cannot learn."""

import dataclasses
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from family import MODULES, agent_of
from probed import REPLAY_FIELDS, check, greedy_score, train
from slow_mixing import slow_mixer

from jaxrl.acting.rollout import Observation
from jaxrl.algos import qmix, vdn
from jaxrl.algos.off_policy import Batch, Steps
from jaxrl.nn.distributions import EpsilonGreedy

FIELDS: dict[str, Any] = REPLAY_FIELDS | {"total_timesteps": 64 * 200, "eps_finish": 1.0}


def linear_agent(algo: Any) -> Any:
    """The agent with values that are linear in the observation; its parameters are `{"agents": [D, A], "mixer": …}`."""
    agent = agent_of(algo)

    def apply(params: Any, carry: Any, observation: Observation, reset: jax.Array) -> Any:
        values = observation.obs @ params["agents"]
        return carry, EpsilonGreedy(values), values

    return dataclasses.replace(agent, networks=agent.networks._replace(apply=apply))


@pytest.mark.parametrize("name", ["vdn", "qmix"])
def test_the_loss_and_its_gradient_are_those_of_a_loop(name: str) -> None:
    """One error a team, of which only the living are part; gradients by finite differences of the loop, in float64."""
    own = {"mixer_size": 3, "mixer_hidden": (4,)} if name == "qmix" else {}
    module = {"vdn": vdn, "qmix": qmix}[name]
    config = module.Config(env="probe/death", n_step=2, gamma=0.9, layer_norm=False, **own)
    algo = module.make(config)
    rng, rows = np.random.default_rng(0), 12
    shape = (3, rows, 2)
    obs, reward = rng.normal(size=(*shape, 3)), np.repeat(rng.normal(size=(3, rows, 1)), 2, axis=-1)
    action, alive = rng.integers(0, 2, shape), rng.random(shape) < 0.7
    alive[0, 0] = False  # a team without members teaches nothing
    state = rng.normal(size=(3, rows, 2))
    ends = rng.choice(["", "terminated", "truncated"], (3, rows), p=[0.6, 0.2, 0.2])
    mixing = [{}, {}]
    if name == "qmix":
        init = jax.jit(agent_of(algo).networks.init)
        drawn = [init(jax.random.key(seed))["mixer"] for seed in (0, 1)]
        mixing = [jax.tree.map(lambda leaf: np.asarray(leaf, np.float64), each) for each in drawn]
    params, target = ({"agents": rng.normal(size=(3, 2)), "mixer": each} for each in mixing)

    def team(params: Any, value: np.ndarray, alive: np.ndarray, state: np.ndarray) -> float:
        if name == "vdn":
            return float(value @ alive)
        return float(slow_mixer(params["mixer"], (0, 0), value, alive, state)[0])

    def slow(params: Any) -> float:
        errors = []
        for row in range(rows):
            if ends[0, row] == "truncated" or not alive[0, row].any():
                continue
            total, factor = 0.0, 1.0
            for t in range(3):
                if t == 2 or (t and ends[t, row] == "truncated"):
                    best = (obs[t, row] @ online["agents"]).argmax(-1)  # double: the learned values choose
                    value = (obs[t, row] @ target["agents"])[np.arange(2), best]
                    total += factor * team(target, value, alive[t, row], state[t, row])
                    break
                total += factor * reward[t, row, 0]
                if ends[t, row] == "terminated":
                    break
                factor *= 0.9
            chosen = (obs[0, row] @ params["agents"])[np.arange(2), action[0, row]]
            errors.append(team(params, chosen, alive[0, row], state[0, row]) - total)
        return float(np.mean(0.5 * np.square(errors)))

    online = params
    mask = jnp.ones((*shape, 2), bool)
    observation = Observation(jnp.float32(obs), jnp.float32(state), mask, jnp.asarray(alive))
    flags = (jnp.asarray(ends == "terminated"), jnp.asarray(ends == "truncated"))
    steps = Steps(observation, jnp.zeros((3, rows), bool), jnp.asarray(action), jnp.float32(reward), *flags)
    agent = linear_agent(algo)
    loss = partial(agent.loss, agent, config.hyperparams)
    narrow = partial(jax.tree.map, jnp.float32)
    value_of = jax.jit(jax.value_and_grad(lambda p: loss(p, narrow(target), Batch(steps, ()))[0]))
    got, slopes = value_of(narrow(params))
    np.testing.assert_allclose(got, slow(params), rtol=1e-5)
    leaves, tree = jax.tree.flatten(params)
    for number, leaf in enumerate(leaves):
        for place in np.ndindex(leaf.shape):
            sides = []
            for side in (1e-6, -1e-6):
                moved = [each.copy() for each in leaves]
                moved[number][place] += side
                sides.append(slow(jax.tree.unflatten(tree, moved)))
            found = jax.tree.leaves(slopes)[number][place]
            np.testing.assert_allclose(found, (sides[0] - sides[1]) / 2e-6, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize(
    ("algorithm", "probe", "fields"),
    [
        pytest.param("iql", "death", {"eps_finish": 0.0, "double": False}, marks=pytest.mark.slow),
        pytest.param("iql", "credit", {"eps_finish": 0.3}, marks=pytest.mark.slow),
        pytest.param("iql", "roles", {"eps_finish": 0.3, "sharing": "none"}, marks=pytest.mark.slow),
    ],
)
def test_independent_learners_find_values_and_actions(algorithm: str, probe: str, fields: dict[str, Any]) -> None:
    solution, algo, state = train(algorithm, probe, **FIELDS | fields)
    check(solution, algo, state, solution.cases)


@pytest.mark.parametrize(("algorithm", "score"), [("vdn", 7.0), ("qmix", 8.0)])
def test_a_sum_of_values_plays_safe_where_a_mixer_finds_the_best(algorithm: str, score: float) -> None:
    """With exploration at random throughout, as in the paper of QMIX."""
    _, algo, state = train(algorithm, "two_step", **FIELDS)
    assert greedy_score(algo, state) == pytest.approx(score)


@pytest.mark.parametrize("algorithm", [pytest.param("vdn", marks=pytest.mark.slow), "qmix"])
def test_a_team_whose_member_dies_still_learns(algorithm: str) -> None:
    solution, algo, state = train(algorithm, "death", **FIELDS)
    assert greedy_score(algo, state) == pytest.approx(solution.score)


@pytest.mark.slow
@pytest.mark.parametrize("algorithm", ["iql", "vdn", "qmix"])
def test_memory_recalls_a_cue(algorithm: str) -> None:
    fields = {"memory": "gru", "memory_size": 16, "hidden": (16,), "sequence_length": 4, "burn_in": 4}
    solution, algo, state = train(algorithm, "memory_recall", **FIELDS | fields | {"total_timesteps": 64 * 250})
    assert greedy_score(algo, state) > 0.95 * solution.score


@pytest.mark.parametrize("algorithm", ["iql", "vdn", "qmix"])
def test_a_single_agent_is_a_team_of_one(algorithm: str) -> None:
    module = MODULES[algorithm]
    algo = module.make(module.Config(env="probe/action_reward"))
    assert jax.eval_shape(algo.act, jax.eval_shape(algo.init, jax.random.key(0)), jnp.zeros((5, 1, 1)))[0].shape == (
        5,
        1,
    )
