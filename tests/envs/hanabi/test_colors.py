"""A game whose colours are renamed is the same game: what is seen, what can be done and what it pays."""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxrl.envs.hanabi import Hanabi

STEPS = 24


def play(env: Hanabi, deck: jax.Array, actions: jax.Array | None, key: jax.Array) -> tuple[Any, ...]:
    """Actions `[T, N]`, by default possible ones at random, and what is seen, possible and paid. Consumes `key`."""

    def step(carry: Any, inputs: Any) -> tuple[Any, Any]:
        obs, state = carry
        key, given = inputs
        mask = env.action_mask(state)
        key_action, key_step = jax.random.split(key)
        action = jax.random.categorical(key_action, jnp.where(mask, 0.0, -jnp.inf))
        action = action if actions is None else given
        after, new, reward, terminated, _, _ = env.step_env(key_step, state, action, env.default_params)
        return (after, new), (action, obs, mask, reward, terminated)

    given = jnp.zeros((STEPS, env.num_agents), jnp.int32) if actions is None else actions
    return jax.lax.scan(step, env.state_from_deck(deck), (jax.random.split(key, STEPS), given))[1]


@pytest.mark.parametrize(
    ("options", "tried"),
    [
        ({"players": 2, "colors": 3, "ranks": 3, "hand_size": 3}, range(6)),
        ({"players": 3, "colors": 5}, (0, 1, 37, 119)),
    ],
)
def test_a_game_with_other_names_is_the_same_game(options: dict[str, int], tried: Any):
    env = Hanabi(**options)
    renamed = env.symmetries
    rng = np.random.default_rng(0)
    kinds = rng.permutation(env.game.deck)
    deck = np.stack([kinds // env.game.ranks, kinds % env.game.ranks], axis=-1)
    run = jax.jit(partial(play, env))
    action, obs, mask, reward, terminated = map(np.asarray, run(deck, None, jax.random.key(1)))
    assert reward.any() or terminated.any()
    assert len(renamed) == {3: 6, 5: 120}[env.game.colors]
    first = env.game.first_color_hint
    for k in tried:
        order = renamed.action[k][first : first + env.game.colors] - first
        called = np.argsort(order)  # the name of each colour
        other = np.stack([called[deck[:, 0]], deck[:, 1]], axis=-1)
        actions = np.argsort(renamed.action[k])[action]
        _, seen, possible, paid, ended = run(other, actions, jax.random.key(1))
        np.testing.assert_array_equal(seen, obs[..., renamed.observation[k]])
        np.testing.assert_array_equal(possible, mask[..., renamed.action[k]])
        np.testing.assert_array_equal(paid, reward)
        np.testing.assert_array_equal(ended, terminated)


def test_the_first_symmetry_changes_nothing_and_all_differ():
    renamed = Hanabi(2).symmetries
    np.testing.assert_array_equal(renamed.observation[0], np.arange(658))
    np.testing.assert_array_equal(renamed.action[0], np.arange(21))
    for table in (renamed.observation, renamed.action):
        np.testing.assert_array_equal(np.sort(table), np.broadcast_to(np.arange(table.shape[1]), table.shape))
        assert len(np.unique(table, axis=0)) == 120
