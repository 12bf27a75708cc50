"""Episodes of our tasks for memory, and the same episodes in POPGym, with the same cards and ships."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import jaxrl


class Episode(NamedTuple):
    """T steps; states and observations have one more, that of the beginning."""

    states: Any
    obs: np.ndarray
    action: np.ndarray
    reward: np.ndarray
    terminated: np.ndarray
    truncated: np.ndarray


class Fixed:
    """In place of POPGym's random numbers: cards in the order in which ours were dealt, and pulls that pay as ours."""

    def __init__(self, orders: Sequence[np.ndarray], numbers: Sequence[float] = ()) -> None:
        self.orders, self.numbers = list(orders), list(numbers)

    def shuffle(self, cards: np.ndarray) -> None:
        cards[:] = self.orders.pop(0)

    def random(self, *args: Any, **kwargs: Any) -> Any:
        return self.numbers.pop(0)


def play(name: str, seed: int, steps: int) -> Episode:
    """An episode of ours by random play that knows half of the answers, without a new start at its end."""
    env: Any = jaxrl.make(name)
    key_reset, key_play = jax.random.split(jax.random.key(seed))

    def step(state: Any, key: jax.Array) -> tuple[Any, Any]:
        key_action, key_step, key_knows = jax.random.split(key, 3)
        action = env.action_space().sample(key_action)
        if hasattr(env, "answer"):
            answer = jnp.clip(env.answer(state), 0).astype(action.dtype)
            action = jnp.where(jax.random.bernoulli(key_knows), answer, action)
        obs, after, reward, terminated, truncated, _ = env.step_env(key_step, state, action, env.default_params)
        return after, (after, obs, action, reward, terminated, truncated)

    def episode() -> Any:
        obs, state = env.reset(key_reset)
        after, seen, *rest = jax.lax.scan(step, state, jax.random.split(key_play, steps))[1]
        join = jax.tree.map(lambda one, many: jnp.concatenate([one[None], many]), (state, obs), (after, seen))
        return *join, *rest

    return Episode(*jax.tree.map(np.asarray, jax.jit(episode)()))


def order(kinds: np.ndarray, of_card: np.ndarray) -> np.ndarray:
    """Numbers of cards that show these kinds when dealt from the last to the first, as POPGym deals.

    Args:
        kinds: `[N]`, in the order of dealing.
        of_card: `[N]`: the kind of each card of a new deck.
    """
    left = {kind: list(np.flatnonzero(of_card == kind)) for kind in set(of_card.tolist())}
    return np.array([left[kind].pop() for kind in kinds.tolist()])[::-1]
