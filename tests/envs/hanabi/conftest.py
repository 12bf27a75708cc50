"""Games of ours for the tests: states of whole games of random legal moves."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import pytest

import jaxrl

T, B = 60, 16  # moves, games


@pytest.fixture(scope="session")
def env() -> Any:
    return jaxrl.make("hanabi/3p")


@pytest.fixture(scope="session")
def games(env: Any) -> Any:
    """States `[B, T + 1, …]` of random games that go on after their end, and the moves `[B, T, N]`."""

    def move(key: jax.Array, state: Any) -> Any:
        mask = env.action_mask(state)
        weight = jnp.where(jnp.arange(mask.shape[1]) < env.game.hand_size, 0.5, 1.0)  # rarely a discard
        action = jnp.argmax(jnp.where(mask, jax.random.uniform(key, mask.shape) * weight, -1), axis=1)
        _, after, reward, terminated, _, _ = env.step_env(key, state, action, env.default_params)
        return after, action, reward, terminated

    def step(states: Any, key: jax.Array) -> Any:
        after = jax.vmap(move)(jax.random.split(key, B), states)
        return after[0], after

    @jax.jit
    def whole(key: jax.Array) -> Any:
        key_start, key_moves = jax.random.split(key)
        _, first = env.batch_reset(jax.random.split(key_start, B))
        _, (states, *rest) = jax.lax.scan(step, first, jax.random.split(key_moves, T))
        states = jax.tree.map(lambda a, b: jnp.concatenate([a[None], b]), first, states)
        return jax.tree.map(lambda leaf: leaf.swapaxes(0, 1), (states, *rest))

    return jax.device_get(whole(jax.random.key(0)))
