"""Cards to repeat: the first one, or the one some steps ago."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp

from jaxrl.environment import Step
from jaxrl.envs.memory.cards import DECK, SUITS, CardGame, graded, one_hot
from jaxrl.envs.memory.draw import draw_repeat_first, draw_repeat_previous
from jaxrl.envs.options import whole
from jaxrl.render.scene import Scene
from jaxrl.spaces import Box, Discrete

__all__ = ["RepeatFirst", "RepeatPrevious", "State"]


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class State:
    """The cards that count."""

    left: jax.Array
    """int32 `[4]`: the cards of each suit that are still to come."""
    shown: jax.Array
    """int8 `[L]`: the last L suits that were shown, the newest first; -1 before the first card."""
    first: jax.Array
    """int8: the suit of the first card."""
    step: jax.Array
    right: jax.Array
    """int8: 1 if the last answer was right, -1 if it was wrong, 0 if there was none."""


class _Repeat(CardGame):
    """What both games share; `lag` says how many cards must be kept."""

    action_names = SUITS

    def __init__(self, num_decks: int, lag: int) -> None:
        super().__init__(DECK * num_decks, SUITS)
        self.lag = lag

    def observation_space(self, params: Any = None) -> Box:
        return Box(0, 1, (4,), bool)

    def action_space(self, params: Any = None) -> Discrete:
        return Discrete(4)

    def reset_env(self, key: jax.Array, params: Any) -> tuple[jax.Array, State]:
        card, left = self.begun(key)
        first = card.astype(jnp.int8)
        shown = jnp.full(self.lag, -1, jnp.int8).at[0].set(first)
        state = State(left, shown, first, jnp.zeros((), jnp.int32), jnp.zeros((), jnp.int8))
        return self.observation(state), state

    def step_env(self, key: jax.Array, state: State, action: jax.Array, params: Any) -> Step:
        right = graded(self.action_space().clip(action), self.answer(state))
        card, left = self.next_card(key, state.left)
        shown = jnp.concatenate([card.astype(jnp.int8)[None], state.shown])[: self.lag]
        after = State(left, shown, state.first, state.step + 1, right)
        return self.stepped(after, self.num_cards - self.lag, self.num_cards - 1)

    def observation(self, state: State, params: Any = None) -> jax.Array:
        """Bool `[4]`: the suit of the newest card."""
        return one_hot(state.shown[0], 4)

    def answer(self, state: State) -> jax.Array:
        """The suit to name now, or -1."""
        raise NotImplementedError

    def sight(self, state: State) -> str:
        return f"The card is of {SUITS[int(state.shown[0])]}."


class RepeatPrevious(_Repeat):
    """Name the suit of the card before, or of one that is longer ago. Equal to POPGym's RepeatPrevious.

    Observation bool `[4]`: the suit of the newest card, one-hot.
    Action Discrete(4): the suit of the card that was shown `lag - 1` cards before this one.
    Reward: 1 for perfect play and -1 if all answers are wrong, in equal parts for each answer; nothing before there are
    `lag` cards. Terminated when the last card is shown.

    Args:
        num_decks: Decks of 52 cards.
        lag: How many of the last cards must be kept in mind, the one that is seen included (POPGym's k).

    Raises:
        ValueError: An option is out of its range.
    """

    def __init__(self, *, num_decks: int = 1, lag: int = 4) -> None:
        num_decks = whole("num_decks", num_decks)
        super().__init__(num_decks, whole("lag", lag, 1, DECK * num_decks - 1))

    def answer(self, state: State) -> jax.Array:
        return state.shown[-1]

    def draw(self, states: State, params: Any = None) -> Scene:
        return draw_repeat_previous(self.name, states)


class RepeatFirst(_Repeat):
    """Name the suit of the first card at each step. Equal to POPGym's RepeatFirst.

    Observation bool `[4]`: the suit of the newest card, one-hot.
    Action Discrete(4): the suit of the first card of the episode.
    Reward: 1 for perfect play and -1 if all answers are wrong, in equal parts for each step. Terminated when the last
    card is shown.

    Args:
        num_decks: Decks of 52 cards.

    Raises:
        ValueError: An option is out of its range.
    """

    def __init__(self, *, num_decks: int = 1) -> None:
        super().__init__(whole("num_decks", num_decks), lag=1)

    def answer(self, state: State) -> jax.Array:
        return state.first

    def draw(self, states: State, params: Any = None) -> Scene:
        return draw_repeat_first(self.name, states)
