"""Learning from some of a large team: who is drawn, for whom they stand, and that nothing else changes."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from family import agent_of, collect

from jaxrl.acting.rollout import Observation, Transition
from jaxrl.algos import ippo, mappo, ppo, self_play
from jaxrl.algos.team import draw_agents

T, B, N, KEPT, SHARDS = 20, 60, 6, 3, 2
SMALL: dict[str, Any] = {"num_envs": 4, "num_steps": 8, "total_timesteps": 128, "num_minibatches": 2, "hidden": (16,)}


def drawn(alive, seed=0, count=KEPT, choosing=None):
    """What is kept of a rollout in which everything tells whose it is, and the number of its step.

    All have four actions, or only those that are `choosing`, `[T, B, N]`, and the others one.
    """
    number = np.broadcast_to(np.arange(N, dtype=np.float32) + 10 * np.arange(T)[:, None, None], (T, B, N))
    numbers = jnp.asarray(number)
    choosing = np.ones((T, B, N), bool) if choosing is None else choosing
    mask = jnp.asarray(choosing)[..., None] | (jnp.arange(4) == 3)
    observation = Observation(jnp.stack([numbers, -numbers], -1), None, mask, jnp.asarray(alive))
    extras = {"log_prob": numbers + 1, "value": numbers + 2, "learns": jnp.ones((T, B, N), bool)}
    never = jnp.zeros((T, B), bool)
    traj = Transition(observation, never, (), numbers + 3, extras, numbers, never, never, ())
    keys = jax.random.split(jax.random.key(seed), SHARDS)
    return jax.jit(lambda keys: draw_agents(traj, numbers + 4, keys, count))(keys)


def living():
    """One agent or more of each team."""
    rng = np.random.default_rng(0)
    alive = rng.random((T, B, N)) < 0.6
    return alive | (np.arange(N) == rng.integers(N, size=(T, B, 1)))


def test_everything_that_is_kept_of_an_agent_is_its_own():
    traj, advantage, _ = drawn(living())
    who = np.asarray(traj.observation.obs[..., 0])
    assert who.shape == (T, B, KEPT)
    np.testing.assert_array_equal(who // 10, np.broadcast_to(np.arange(T)[:, None, None], who.shape))
    assert np.all(np.diff(np.sort(who, axis=-1)) > 0)  # nobody twice
    np.testing.assert_array_equal(traj.observation.obs[..., 1], -who)
    assert traj.observation.action_mask is not None
    for offset, kept in ((1, traj.extras["log_prob"]), (2, traj.extras["value"]), (3, traj.action), (4, advantage)):
        np.testing.assert_array_equal(kept, who + offset)


def test_the_living_are_drawn_first_and_stand_for_all_of_them():
    alive = living()
    traj, _, weight = drawn(alive)
    kept, weight = np.asarray(traj.observation.agent_mask), np.asarray(weight)
    np.testing.assert_array_equal(kept.sum(-1), np.minimum(alive.sum(-1), KEPT))
    np.testing.assert_allclose(weight.sum(-1), alive.sum(-1), rtol=1e-6)
    assert np.all(weight[~kept] == 0)


def test_those_who_choose_among_actions_are_drawn_before_those_who_wait():
    """As in a game of turns; the dead come last even if their masks allow more."""
    alive, choosing = living(), np.random.default_rng(1).random((T, B, N)) < 0.4
    traj, _, _ = drawn(alive, choosing=choosing)
    kept = np.asarray(traj.observation.agent_mask)
    kept_choosing = kept & (np.asarray(traj.observation.action_mask).sum(-1) == 4)
    np.testing.assert_array_equal(kept_choosing.sum(-1), np.minimum((alive & choosing).sum(-1), KEPT))
    np.testing.assert_array_equal(kept.sum(-1), np.minimum(alive.sum(-1), KEPT))


def test_sums_over_those_who_are_drawn_are_right_on_average():
    """Each living agent's mean weight over many draws is 1, in every step and environment."""
    alive, seeds = living(), 300
    traj, _, weight = jax.vmap(lambda seed: drawn(alive, seed))(jnp.arange(seeds))
    who = np.asarray(traj.observation.obs[..., 0]).astype(int) % 10
    total = np.zeros((T, B, N))
    for agent in range(N):
        total[..., agent] = (np.asarray(weight) * (who == agent)).sum((0, -1)) / seeds
    assert np.all(total[~alive] == 0)
    np.testing.assert_allclose(total[alive], 1.0, atol=0.35)  # a weight is at most 2: five deviations
    np.testing.assert_allclose([total[..., agent][alive[..., agent]].mean() for agent in range(N)], 1.0, atol=0.01)


@pytest.mark.parametrize("module", [pytest.param(ippo, marks=pytest.mark.slow), mappo])
def test_leaving_out_the_dead_changes_nothing(module):
    """Of three marines at most two live in every step, and two are drawn: the loss and its gradient are the same."""
    algo = module.make(module.Config(env="smax/3m", **SMALL))
    agent, state = agent_of(algo), jax.jit(algo.init)(jax.random.key(0))
    state, _ = jax.jit(algo.update)(state)

    @jax.jit
    def both(state):
        traj = collect(algo, state, jax.random.key(1))
        dead = jax.random.randint(jax.random.key(2), (*traj.reset.shape, 1), 0, 3) == jnp.arange(3)
        traj = traj._replace(observation=traj.observation._replace(agent_mask=~dead))
        advantage = jax.random.normal(jax.random.key(3), dead.shape)
        packed = draw_agents(traj, advantage, jax.random.split(jax.random.key(4), SHARDS), 2)

        def learned_from(traj, advantage, weight=None):
            batch = ppo.normalised_minibatch(ppo.sequences(traj, advantage, 1, weight))
            return jax.grad(lambda p: ppo.loss(agent, state.hyperparams, p, batch), has_aux=True)(state.params)

        return learned_from(traj, advantage), learned_from(*packed)

    plain, packed = both(state)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6), plain, packed)


def test_self_play_draws_from_those_that_learn():
    """Of six marines three fight for a past self, and two of the others are drawn."""
    fields = {"past_share": 1.0, "script_share": 0.0, "torso": "entities", "agents_per_step": 2, "num_opponents": 2}
    algo = self_play.make(self_play.Config(env="smax/3m?mode=selfplay", **SMALL, **fields))
    state = jax.jit(algo.init)(jax.random.key(0))
    lowered = jax.jit(algo.update).lower(state)
    assert "tensor<1x16x2x" in lowered.as_text()  # minibatches of 16 rows with two agents each
    _, metrics = lowered.compile()(state)
    assert np.isfinite(metrics["losses"]["total"])


def test_a_central_critic_wants_one_team():
    with pytest.raises(ValueError, match=r"agents_per_step=2 draws from a single team, and .* has 2; use"):
        mappo.make(mappo.Config(env="smax/3m?mode=selfplay", torso="entities", agents_per_step=2, sharing="all"))


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        (
            {"agents_per_step": 3},
            "agents_per_step=3 leaves out no agent of smax/3m, which has 3; use fewer, or 0 for all",
        ),
        ({"agents_per_step": 2, "sharing": "none"}, "and those of smax/3m have 3 sets; use sharing=all, or"),
        ({"agents_per_step": 2, "memory": "gru"}, "agents_per_step=2 has no effect with memory=gru"),
        ({"agents_per_step": -1}, "agents_per_step must not be negative"),
    ],
)
def test_what_makes_no_sense_is_explained(fields, message):
    with pytest.raises(ValueError, match=message):
        ippo.make(ippo.Config(**{"env": "smax/3m", **SMALL, **fields}))
