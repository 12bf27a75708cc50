"""Other-play: who sees what under which name, and that only what needs no agreement is learned."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxrl
from jaxrl.algos import ippo
from jaxrl.check import check_env
from jaxrl.envs.hanabi import Hanabi
from jaxrl.train.programs import member_keys
from jaxrl.wrappers import FrameStack, ObservationFunction, OtherPlay, TimeLimit

SMALL = Hanabi(colors=3, ranks=2, hand_size=2)
KEYS = jax.random.split(jax.random.key(0), 4)


def test_it_keeps_the_contract():
    check_env(OtherPlay(jaxrl.make("probe/levers")), num_steps=40)  # pyright: ignore[reportArgumentType]


def test_every_agent_sees_and_acts_under_its_own_names():
    env, found = OtherPlay(SMALL), SMALL.symmetries
    params = env.default_params
    obs, state = jax.jit(env.reset_env)(KEYS[0], params)
    state = state._replace(own=jnp.array([1, 4]))
    for key in jax.random.split(jax.random.key(1), 6):
        inside, mask = jax.jit(SMALL.observation)(state.env), SMALL.action_mask(state.env)
        for agent, k in enumerate((1, 4)):
            np.testing.assert_array_equal(env.observation(state)[agent], inside[agent][found.observation[k]])
            np.testing.assert_array_equal(env.action_mask(state)[agent], mask[agent][found.action[k]])
        key_action, key_env, key_inside = jax.random.split(key, 3)
        action = jax.random.categorical(key_action, jnp.where(env.action_mask(state), 0.0, -jnp.inf))
        meant = jnp.array([found.action[k][action[agent]] for agent, k in enumerate((1, 4))])
        after = jax.jit(SMALL.step_env)(key_inside, state.env, meant, params)[1]
        obs, state, *_ = env.step_env(key_env, state, action, params)
        jax.tree.map(np.testing.assert_array_equal, state.env, after)
        np.testing.assert_array_equal(obs, env.observation(state))
        np.testing.assert_array_equal(state.own, [1, 4])


def test_names_are_drawn_for_each_agent_and_episode():
    env = OtherPlay(jaxrl.make("probe/levers"))  # pyright: ignore[reportArgumentType]
    _, state = jax.jit(env.batch_reset)(jax.random.split(jax.random.key(2), 8100))
    counts = np.zeros((9, 9), int)
    np.add.at(counts, tuple(np.asarray(state.own).T), 1)
    assert ((counts - 100.0) ** 2 / 100.0).sum() < 124.8  # chi-square with 80 degrees of freedom, p = 0.001


def test_what_describes_no_symmetries_is_refused():
    with pytest.raises(ValueError, match="smax/3m describes no symmetries, as hanabi/2p does"):
        OtherPlay(jaxrl.make("smax/3m"))  # pyright: ignore[reportArgumentType]
    for inside in (FrameStack(SMALL, 2), OtherPlay(SMALL)):
        with pytest.raises(ValueError, match=r"has symmetries, .*, as in FrameStack\(OtherPlay\(env\), 2\)"):
            OtherPlay(inside)  # pyright: ignore[reportArgumentType]
    with pytest.raises(ValueError, match=r"other_play.* has no effect with env=.*an environment with symmetries"):
        ippo.Config(env="smax/3m", other_play=True).make_env()


def test_symmetries_are_known_through_wrappers_that_change_no_space():
    assert TimeLimit(SMALL, 5).symmetries is SMALL.symmetries
    assert FrameStack(SMALL, 2).symmetries is None
    assert ObservationFunction(SMALL, lambda obs: ~obs).symmetries is None
    assert OtherPlay(SMALL).symmetries is None


def chosen(other_play: bool) -> tuple[np.ndarray, np.ndarray]:
    """The lever that each of eight seeds chooses at the end, and its return."""
    fields: dict[str, Any] = {"num_envs": 64, "num_steps": 4, "hidden": (8,), "total_timesteps": 64 * 4 * 60}
    config = ippo.Config(env="probe/levers", other_play=other_play, lr=0.01, optimizer="adam", **fields)
    algo, train = ippo.make(config), ippo.make_train(config)
    with jax.debug_key_reuse(False):  # it is wrong about keys that are split inside a vmapped scan
        state, metrics = jax.jit(jax.vmap(train))(member_keys(0, 8))
    action, _ = jax.vmap(lambda own: algo.act(own, jnp.zeros((1, 2, 1))))(state)
    return np.asarray(action)[:, 0, 0], np.asarray(metrics["return_sum"] / metrics["episodes"])[:, -10:].mean(-1)


def test_by_other_play_only_the_lever_that_strangers_agree_upon_pays():
    levers, returns = chosen(other_play=False)
    assert np.all(returns > 0.85)  # each seed agrees with itself
    assert len(np.unique(levers[levers < 9])) > 1  # and not with the others
    levers, returns = chosen(other_play=True)
    assert np.any(levers == 9)  # who leaves it out at first never finds it: it pays less than one of nine, untried
    np.testing.assert_allclose(returns[levers == 9], 0.9, atol=0.05)
    np.testing.assert_allclose(returns[levers < 9], 1 / 9, atol=0.05)
