"""Good and bad play of Concentration and MineSweeper, of (environment, state, key)."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp


def draw_one(key: jax.Array, *choices: jax.Array) -> jax.Array:
    """One of the things that the first choice allows, bool `[N]`; if it allows none, one of the next, and so on."""
    rank = jnp.select(choices, range(len(choices), 0, -1), 0)
    return jnp.argmax(rank + jax.random.uniform(key, rank.shape)).astype(jnp.int32)


def remember(env: Any, state: Any, key: jax.Array) -> jax.Array:
    """In Concentration, turn a pair that was seen, and cards that were not seen until there is one."""
    known = (state.kind >= 0) & ~state.found
    twin = known & (state.kind[:, None] == state.kind) & known[:, None] & ~jnp.eye(env.num_cards, dtype=bool)
    wanted = jnp.where(state.first.any(), (twin & state.first[:, None]).any(0), twin.any(0))
    return draw_one(key, wanted, state.kind < 0)


def turn_again(env: Any, state: Any, key: jax.Array) -> jax.Array:
    """In Concentration, turn each card twice: the worst play."""
    return draw_one(key, state.first, jnp.ones(env.num_cards, bool))


def forget(env: Any, state: Any, key: jax.Array) -> jax.Array:
    """In Concentration, turn what was seen, what is found already, the same again, or anything."""
    key_which, *keys = jax.random.split(key, 5)
    found, anything = draw_one(keys[0], state.found), env.action_space().sample(keys[1])
    choices = jnp.stack([remember(env, state, keys[2]), found, turn_again(env, state, keys[3]), anything])
    return choices[jax.random.choice(key_which, 4, p=jnp.array([0.7, 0.1, 0.1, 0.1]))]


def sweep(env: Any, state: Any, key: jax.Array) -> jax.Array:
    """In MineSweeper, open a cell without a mine that is not open yet."""
    return draw_one(key, ~state.mine & ~state.opened)


def dawdle(env: Any, state: Any, key: jax.Array) -> jax.Array:
    """In MineSweeper, open a cell that is open already now and then."""
    key_again, key_cell = jax.random.split(key)
    again = (state.step > 0) & jax.random.bernoulli(key_again, 0.15)
    return draw_one(key_cell, jnp.where(again, state.opened, ~state.mine & ~state.opened))


def spoil(env: Any, state: Any, key: jax.Array) -> jax.Array:
    """In MineSweeper, open one cell again and again, and a mine at last: the worst play."""
    at_last = state.step == env.num_clear - 1
    return draw_one(key, jnp.where(at_last, state.mine, state.opened), ~state.mine)
