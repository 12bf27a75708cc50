"""Cards, dealt one by one: the same as from a shuffled deck, without shuffling one at each reset."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxrl.environment import Environment, Step
from jaxrl.envs.batching import same_key, uniform_rows

__all__ = ["COLORS", "RANKS", "SUITS", "CardGame", "deal", "graded", "one_hot"]

COLORS = ("black", "red")
SUITS = ("spades", "diamonds", "clubs", "hearts")
RANKS = ("ace", "2", "3", "4", "5", "6", "7", "8", "9", "10", "jack", "queen", "king")
DECK = 52
"""Cards of a deck."""


def deal(left: jax.Array, number: jax.Array) -> tuple[jax.Array, jax.Array]:
    """The next card's kind, int32, and how many of each kind are left after it, `[K]`.

    Args:
        left: int32 `[K]`: how many cards of each of K kinds are left; each card is as likely as another.
        number: A draw in [0, 1).
    """
    below = jnp.cumsum(left)
    kind = jnp.sum(below <= jnp.floor(number * below[-1]), dtype=jnp.int32)
    kind = jnp.minimum(kind, left.size - 1)  # of an empty deck there is nothing to deal
    return kind, left - one_hot(kind, left.size)


def one_hot(kind: jax.Array, count: int) -> jax.Array:
    """Bool `[count]`; nothing is true for the kind -1."""
    return np.arange(count) == kind


def graded(action: jax.Array, answer: jax.Array) -> jax.Array:
    """int8: 1 for the right answer, -1 for a wrong one, 0 where there is nothing to answer yet (`answer` is -1)."""
    return jnp.where(answer < 0, 0, jnp.where(action == answer, 1, -1)).astype(jnp.int8)


class CardGame(Environment):
    """The part that the games with cards share.

    Args:
        num_cards: Cards in all.
        kinds: What tells one card from another.
    """

    def __init__(self, num_cards: int, kinds: tuple[str, ...]) -> None:
        self.num_cards, self.kinds = num_cards, kinds

    split_key = same_key  # steps and starts draw different rows of a key

    def full_deck(self) -> Any:
        """int32 `[K]`: as many cards of each kind."""
        return np.full(len(self.kinds), self.num_cards // len(self.kinds), np.int32)

    def begun(self, key: jax.Array) -> tuple[jax.Array, jax.Array]:
        """The first card and how many are left. Consumes one row of `key`."""
        return deal(jnp.asarray(self.full_deck()), uniform_rows(key, 1, 1)[0])

    def stepped(self, after: Any, num_answers: int, num_steps: int) -> Step:
        """The results of a step that led to the state `after`.

        Args:
            after: With `right`, whether the answer was, and `step`.
            num_answers: The answers of an episode, which share its reward.
            num_steps: The steps of an episode.
        """
        reward = after.right / jnp.float32(num_answers)
        return self.observation(after), after, reward, after.step >= num_steps, jnp.zeros((), bool), {}

    def text(self, state: Any, viewer: int = 0, params: Any = None) -> str:
        """One state as text, as the player knows it: without the cards that pictures show again."""
        last = {1: "Right. ", -1: "Wrong. "}.get(int(state.right), "")
        return f"{last}{self.sight(state)}"

    def sight(self, state: Any) -> str:
        """The observation of a state, in words."""
        raise NotImplementedError

    def next_card(self, key: jax.Array, left: jax.Array) -> tuple[jax.Array, jax.Array]:
        """The card of a step and how many are left. Consumes another row of `key`."""
        return deal(left, uniform_rows(key, 1, 0)[0])
