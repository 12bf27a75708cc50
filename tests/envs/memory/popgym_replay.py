"""Episodes of our tasks for memory, and the same episodes in POPGym, with the same cards, ships and mines."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import jaxrl

Policy = Callable[[Any, Any, jax.Array], jax.Array]
"""(environment, state, key) -> action; it may know the whole state."""


class Episode(NamedTuple):
    """T steps; states and observations have one more, that of the beginning."""

    states: Any
    obs: np.ndarray
    action: np.ndarray
    reward: np.ndarray
    terminated: np.ndarray
    truncated: np.ndarray


class Fixed:
    """In place of POPGym's random numbers: cards as ours were dealt, pulls that pay as ours, mines where ours are."""

    def __init__(self, orders: Sequence[np.ndarray], numbers: Sequence[float] = ()) -> None:
        self.orders, self.numbers = list(orders), list(numbers)

    def shuffle(self, cards: np.ndarray) -> None:
        cards[:] = self.orders.pop(0)

    def choice(self, cells: np.ndarray, size: int, replace: bool) -> np.ndarray:
        chosen = self.orders.pop(0)
        assert set(chosen.tolist()) <= set(cells.tolist())
        assert (len(chosen), replace) == (size, False)
        return chosen

    def random(self, *args: Any, **kwargs: Any) -> Any:
        return self.numbers.pop(0)


def half_right(env: Any, state: Any, key: jax.Array) -> jax.Array:
    """Random play that knows half of the answers."""
    key_action, key_knows = jax.random.split(key)
    action = env.action_space().sample(key_action)
    if not hasattr(env, "answer"):
        return action
    answer = jnp.clip(env.answer(state), 0).astype(action.dtype)
    return jnp.where(jax.random.bernoulli(key_knows), answer, action)


def play(name: str, seed: int, steps: int) -> Episode:
    """An episode of ours by play that is half right, without a new start at its end."""
    return play_many(name, [seed], steps)[0]


def play_many(name: str, seeds: Iterable[int], steps: int, policy: Policy = half_right) -> list[Episode]:
    """Such an episode for each of the seeds, by any policy."""
    env: Any = jaxrl.make(name)

    def step(state: Any, key: jax.Array) -> tuple[Any, Any]:
        key_action, key_step = jax.random.split(key)
        action = policy(env, state, key_action)
        obs, after, reward, terminated, truncated, _ = env.step_env(key_step, state, action, env.default_params)
        return after, (after, obs, action, reward, terminated, truncated)

    def episode(key: jax.Array) -> Any:
        key_reset, key_play = jax.random.split(key)
        obs, state = env.reset(key_reset)
        after, seen, *rest = jax.lax.scan(step, state, jax.random.split(key_play, steps))[1]
        join = jax.tree.map(lambda one, many: jnp.concatenate([one[None], many]), (state, obs), (after, seen))
        return *join, *rest

    compiled = jax.jit(episode)
    return [Episode(*jax.tree.map(np.asarray, compiled(jax.random.key(seed)))) for seed in seeds]


def until_end(episode: Episode) -> Episode:
    """An episode up to the first step that ends it."""
    steps = int(np.argmax(episode.terminated | episode.truncated)) + 1
    before = jax.tree.map(lambda leaf: leaf[: steps + 1], (episode.states, episode.obs))
    return Episode(*before, *(leaf[:steps] for leaf in episode[2:]))


def order(kinds: np.ndarray, of_card: np.ndarray) -> np.ndarray:
    """Numbers of cards that show these kinds when dealt from the last to the first, as POPGym deals.

    Args:
        kinds: `[N]`, in the order of dealing.
        of_card: `[N]`: the kind of each card of a new deck.
    """
    left = {kind: list(np.flatnonzero(of_card == kind)) for kind in set(of_card.tolist())}
    return np.array([left[kind].pop() for kind in kinds.tolist()])[::-1]
