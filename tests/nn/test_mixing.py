"""QMIX's mixer: exact against a loop, monotone, and greedy for a team where each member is greedy."""

import itertools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from slow_mixing import slow_mixer

from jaxrl.nn.mixing import MonotonicMixer
from jaxrl.spaces import Discrete

TEAMS = (0, 1, 0)


@pytest.fixture(scope="module")
def mixer() -> Any:
    """The mixer of two teams, its parameters, and 50 states `[50, 4]`."""
    module = MonotonicMixer(TEAMS, size=5, sizes=(32,))
    state = jax.random.normal(jax.random.key(1), (50, 4))
    params: Any = jax.jit(module.init)(jax.random.key(0), jnp.zeros(3), jnp.ones(3, bool), state[0])
    for name in ("weights", "output_weights"):  # as after some training, when what is read off has both signs
        params["params"][name]["kernel"] *= 8.0
    return module, params, state


def test_it_is_the_formula(mixer: Any) -> None:
    module, params, state = mixer
    value = jax.random.normal(jax.random.key(2), (50, 3))
    alive = jax.random.bernoulli(jax.random.key(3), 0.7, (50, 3))
    mixed = jax.jit(module.apply)(params, value, alive, state)
    assert mixed.shape == (50, 2)
    slow = [slow_mixer(params, TEAMS, *row) for row in zip(value, alive, np.asarray(state), strict=True)]
    np.testing.assert_allclose(mixed, slow, atol=1e-5)


def test_a_teams_value_rises_with_its_living_members_only(mixer: Any) -> None:
    module, params, state = mixer
    value, alive = jnp.zeros((50, 3)), jnp.ones((50, 3), bool)
    for member, team in enumerate(TEAMS):
        more = module.apply(params, value.at[:, member].add(1.0), alive, state)
        before = module.apply(params, value, alive, state)
        assert np.all(more[:, team] > before[:, team])
        np.testing.assert_array_equal(more[:, 1 - team], before[:, 1 - team])
        dead = alive.at[:, member].set(False)
        higher = module.apply(params, value.at[:, member].add(1.0), dead, state)
        np.testing.assert_array_equal(higher, module.apply(params, value, dead, state))


def test_a_team_without_living_members_is_worth_nothing(mixer: Any) -> None:
    """Whatever the state: no step of such a team is learned from, but what came before bootstraps from its value."""
    module, params, state = mixer
    alive = jnp.broadcast_to(jnp.array([False, True, False]), (50, 3))
    mixed = module.apply(params, jnp.ones((50, 3)), alive, state)
    np.testing.assert_array_equal(mixed[:, 0], 0.0)
    assert np.all(mixed[:, 1] != 0)


def test_the_members_greedy_actions_are_the_best_of_all_joint_actions(mixer: Any) -> None:
    module, params, state = mixer
    values = jax.random.normal(jax.random.key(4), (50, 3, 4))  # of four actions each
    joint = np.array(list(itertools.product(range(4), repeat=3)))  # [64, N]
    chosen = values[:, np.arange(3), joint]  # [50, 64, N]
    mixed = jax.jit(module.apply)(
        params, chosen, jnp.ones(chosen.shape, bool), jnp.broadcast_to(state[:, None], (50, 64, 4))
    )
    greedy = module.apply(params, values.max(-1), jnp.ones((50, 3), bool), state)
    np.testing.assert_allclose(greedy, mixed.max(axis=1), rtol=1e-6)


def test_a_single_team_needs_no_name_and_states_may_be_of_any_kind() -> None:
    module: Any = MonotonicMixer((0, 0), size=3, sizes=(4,), space=Discrete(6))
    inputs = (jnp.ones((7, 2)), jnp.ones((7, 2), bool), jnp.arange(7) % 6)
    params = jax.jit(module.init)(jax.random.key(0), *inputs)
    assert params["params"]["torso"]["MLP_0"]["Dense_0"]["kernel"].shape == (6, 4)
    assert module.apply(params, *inputs).shape == (7, 1)
