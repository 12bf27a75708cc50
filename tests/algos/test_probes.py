"""Algorithms find the right value and the right action of every probe task (see `jaxrl.envs.probe`)."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from family import MODULES, agent_of
from probed import check, greedy_score, train

import jaxrl
from jaxrl.algos import mappo, ppo
from jaxrl.check import check_env
from jaxrl.environment import Step
from jaxrl.envs.probe.base import Solution, State, coin, outcome
from jaxrl.envs.probe.single import ObservationReward
from jaxrl.envs.probe.team import Follow
from jaxrl.spaces import Discrete
from jaxrl.wrappers import TimeLimit

FEED_FORWARD = {
    "num_envs": 32,
    "num_steps": 8,
    "total_timesteps": 32 * 8 * 120,
    "num_minibatches": 2,
    "update_epochs": 4,
    "lr": 1e-2,
    "gae_lambda": 0.95,
    "ent_coef": 0.02,
    "normalise_reward": False,  # values are to be those of the solutions
    "hidden": (32,),
    "activation": "relu",  # tanh without biases is odd at first, and stuck where an even function is asked for
}
RECURRENT = FEED_FORWARD | {"memory": "gru", "memory_size": 16, "num_steps": 16, "hidden": (16,)}

STREAM = {
    "num_steps": 100,
    "total_timesteps": 20_000,
    "normalise_obs": False,
    "normalise_reward": False,
    "hidden": (32,),
}

# algorithm, probe, fields: what the suite runs, and MORE of it among the slow tests; recurrent networks are below.
SINGLE = ["constant_reward", "observation_reward", "discounting", "action_reward", "observation_action", "truncation"]
TEAM = ["credit", "roles", "death"]
CASES = [
    ("ppo", "discounting", {}),
    ("ppo", "observation_action", {}),
    ("ppo", "multi_discrete_action", {}),
    ("ppo", "continuous_action", {"ent_coef": 0.0}),
    ("ppo", "truncation", {"normalise_obs": True}),
    ("ippo", "credit", {}),
    ("mappo", "death", {}),
    ("mat", "death", {"lr": 3e-3}),
]
MORE = [
    *(("ppo", probe, {}) for probe in SINGLE if probe not in ("discounting", "observation_action")),
    ("ppo", "discounting", {"value_loss": "hlgauss", "value_range": (-2.0, 2.0)}),
    ("ippo", "roles", {"sharing": "none"}),
    ("ippo", "death", {}),
    ("mappo", "hidden_state", {}),  # its critic is looked at below
    ("mappo", "credit", {}),
    ("mappo", "roles", {"sharing": "none"}),
    ("mappo", "truncation", {}),
]


@pytest.mark.parametrize(
    ("algorithm", "probe", "fields"), [*CASES, *(pytest.param(*case, marks=pytest.mark.slow) for case in MORE)]
)
def test_feed_forward(algorithm, probe, fields):
    solution, algo, state = train(algorithm, probe, **FEED_FORWARD | fields)
    check(solution, algo, state, solution.cases)


@pytest.mark.parametrize(
    ("algorithm", "probe", "fields"),
    [
        ("stream_q", "truncation", {"normalise_obs": True}),
        ("stream_ac", "continuous_action", {"ent_coef": 0.0}),
        *(
            pytest.param(algorithm, probe, {}, marks=pytest.mark.slow)
            for algorithm in ("stream_q", "stream_ac")
            for probe in SINGLE
        ),
        pytest.param("stream_ac", "multi_discrete_action", {}, marks=pytest.mark.slow),
    ],
)
def test_one_stream(algorithm, probe, fields):
    solution, algo, state = train(algorithm, probe, **STREAM | fields)
    check(solution, algo, state, solution.cases)


@pytest.mark.slow
@pytest.mark.parametrize("memory", ["gru", "lstm", "s5", "gtrxl"])
@pytest.mark.parametrize(
    ("algorithm", "probe"),
    [("ppo", p) for p in SINGLE] + [(a, p) for a in ("ippo", "mappo") for p in (*SINGLE, *TEAM)],
)
def test_recurrent(algorithm, probe, memory):
    # An agent's credit is an exclusive or: a larger bonus keeps the policy from settling early on half of it.
    fields = {"roles": {"sharing": "none"}, "credit": {"ent_coef": 0.1}}.get(probe, {})
    solution, algo, state = train(algorithm, probe, **RECURRENT | {"memory": memory, **fields})
    first = [c for c in solution.cases if not (any(c.observation[:1]) and probe in ("discounting", "death"))]
    check(solution, algo, state, first)  # what does not begin an episode is known by memory, not by sight


@pytest.mark.slow
@pytest.mark.parametrize("sharing", ["all", "none", "roles"])
@pytest.mark.parametrize("algorithm", ["ippo", "mappo"])
@pytest.mark.parametrize("probe", ["credit", "death"])
def test_sharing(algorithm, probe, sharing):
    solution, algo, state = train(algorithm, probe, **FEED_FORWARD | {"sharing": sharing})
    check(solution, algo, state, solution.cases)


@pytest.mark.parametrize(
    "memory",
    ["gru", "deltanet", *(pytest.param(name, marks=pytest.mark.slow) for name in ("s5", "gtrxl", "retention"))],
)
def test_memory_recalls_a_cue(memory):
    solution, algo, state = train("ppo", "memory_recall", **RECURRENT | {"memory": memory})
    assert greedy_score(algo, state) > 0.95 * solution.score


@pytest.mark.slow
def test_feed_forward_cannot_recall_a_cue():
    solution, algo, state = train("ppo", "memory_recall", **FEED_FORWARD)
    assert abs(greedy_score(algo, state) - solution.score_without_memory) < 0.2


@pytest.mark.slow
def test_memory_does_not_leak_into_the_next_episode():
    solution, algo, state = train("ppo", "memory_leak", **RECURRENT | {"total_timesteps": 32 * 16 * 300})
    assert greedy_score(algo, state) > solution.score_if_leaking + 0.5 * (solution.score - solution.score_if_leaking)


def test_a_central_critic_is_better_where_only_the_global_state_tells():
    """The squared error of IPPO's critic stays at the coin's variance of 1, that of MAPPO's vanishes."""
    loss = {}
    for algorithm in ("ippo", "mappo"):
        module = MODULES[algorithm]
        config = module.Config(env="probe/hidden_state", gamma=0.9, **FEED_FORWARD)
        _, metrics = jax.jit(module.make_train(config))(jax.random.key(0))
        loss[algorithm] = 2 * float(metrics["losses"]["value"][-10:].mean())
    assert loss["ippo"] > 0.9
    assert loss["mappo"] < 0.05


@pytest.mark.parametrize(
    ("algorithm", "probe", "score"),
    [
        ("mat", "follow", 1.0),
        ("mat", "overhear", 1.0),
        *(
            pytest.param(*case, marks=pytest.mark.slow)
            for case in (("ippo", "follow", 0.25), ("mappo", "follow", 0.25), ("ippo", "overhear", 0.0))
        ),
    ],
)
def test_only_a_team_that_decides_in_turn_follows_and_overhears(algorithm, probe, score):
    """An action is known to the next member, and an observation to all; a critic for the team does not help others."""
    _, algo, state = train(algorithm, probe, **FEED_FORWARD | {"lr": 3e-3})
    assert abs(greedy_score(algo, state) - score) < 0.15


class FollowOrOppose(Follow):
    """Two steps: both see a coin in the first; in the second, of two actions the mask leaves the first agent a drawn
    one, and the second agent should do the same if the coin was 1, and the other one if it was -1.
    """

    intended = ()
    observation_size = 2
    solution = Solution((), score=1.0, score_without_memory=0.5)

    def action_space(self, params: Any = None) -> Discrete:
        return Discrete(2)

    def action_mask(self, state: State, params: None = None) -> jax.Array:
        drawn = (state.step == 0) | (np.arange(2) == (state.cue[1] > 0))
        return jnp.stack([drawn, jnp.ones(2, bool)])

    def new_cue(self, key: jax.Array) -> jax.Array:
        return coin(key, (2,))

    def see(self, state: State) -> jax.Array:
        seen = jnp.where(state.step == 0, jnp.stack([state.cue[0], 0.0]), jnp.asarray([0.0, 1.0]))
        return jnp.broadcast_to(seen, (2, 2))

    def advance(self, key: jax.Array, state: State, action: jax.Array) -> Step:
        last = state.step == 1
        right = (action[0] == action[1]) == (state.cue[0] > 0)
        return outcome(self, state, reward=jnp.broadcast_to(last & right, (2,)).astype(jnp.float32), terminated=last)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("probe", "algorithm", "memory", "score"),
    [
        ("overheard_before", "mat", "retention", 1.0),
        ("overheard_before", "mat", "none", 0.0),
        ("overheard_before", "ippo", "gru", 0.0),
        ("follow_or_oppose", "mat", "retention", 1.0),
        ("follow_or_oppose", "mat", "gru", 1.0),
        ("follow_or_oppose", "mat", "none", 0.5),
        ("follow_or_oppose", "ippo", "retention", 0.5),
    ],
)
@pytest.mark.usefixtures("toys")
def test_members_with_a_memory_recall_and_decide_in_turn(probe, algorithm, memory, score):
    """Who only remembers, or only knows what mates see and do now, is right by chance."""
    jaxrl.register("probe/follow_or_oppose", FollowOrOppose)
    fields = FEED_FORWARD if memory == "none" else RECURRENT | {"memory": memory, "total_timesteps": 32 * 16 * 120}
    _, algo, state = train(algorithm, probe, **fields | {"lr": 3e-3})
    assert abs(greedy_score(algo, state) - score) < 0.15


class HiddenCoin(ObservationReward):
    """The reward is a coin that only the global state shows, for a single agent."""

    intended = ("same_start",)

    def see(self, state: State) -> jax.Array:
        return jnp.zeros(1, jnp.float32)

    def global_state(self, state: State, params: None = None) -> jax.Array:
        return state.cue[None]


@pytest.mark.slow
def test_a_central_critic_sees_more_than_a_single_agent_too():
    env, loss = TimeLimit(HiddenCoin(), 5), {}
    check_env(env)
    for module in (ppo, mappo):
        config = module.Config(env=env, gamma=0.9, **FEED_FORWARD)
        _, metrics = jax.jit(module.make_train(config))(jax.random.key(0))
        loss[module] = 2 * float(metrics["losses"]["value"][-10:].mean())
    assert loss[ppo] > 0.9
    assert loss[mappo] < 0.05


@pytest.mark.parametrize(
    ("algorithm", "fields"), [("ppo", FEED_FORWARD), pytest.param("stream_q", STREAM, marks=pytest.mark.slow)]
)
def test_masked_actions_are_never_chosen(algorithm, fields):
    solution, algo, state = train(algorithm, "action_mask", **fields)
    env = agent_of(algo).config.make_env()
    obs, env_state = env.batch_reset(jax.random.split(jax.random.key(2), 64))
    mask = jax.vmap(env.action_mask)(env_state)
    for key in (None, jax.random.key(3)):
        action, _ = algo.act(state, obs, None, key, action_mask=mask)
        assert not np.isin(action, solution.never).any()
