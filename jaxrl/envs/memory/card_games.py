"""The games in which cards are shown one by one: to repeat, to recite backwards, to count."""

from __future__ import annotations

import dataclasses
from typing import Any, Literal

import jax
import jax.numpy as jnp

from jaxrl.environment import Step
from jaxrl.envs.batching import uniform_rows
from jaxrl.envs.memory.cards import COLORS, DECK, RANKS, SUITS, CardGame, deal, graded, one_hot
from jaxrl.envs.memory.draw import (
    draw_autoencode,
    draw_count_recall,
    draw_higher_lower,
    draw_repeat_first,
    draw_repeat_previous,
)
from jaxrl.envs.options import one_of, whole
from jaxrl.render.scene import Scene
from jaxrl.spaces import Box, Discrete

__all__ = [
    "Autoencode",
    "AutoencodeState",
    "CountRecall",
    "CountState",
    "HigherLower",
    "HigherLowerState",
    "RepeatFirst",
    "RepeatPrevious",
    "RepeatState",
]


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class RepeatState:
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
    """The part that both games share; `lag` says how many cards must be kept."""

    action_names = SUITS

    def __init__(self, num_decks: int, lag: int) -> None:
        super().__init__(DECK * num_decks, SUITS)
        self.lag = lag

    def observation_space(self, params: Any = None) -> Box:
        return Box(0, 1, (4,), bool)

    def action_space(self, params: Any = None) -> Discrete:
        return Discrete(4)

    def reset_env(self, key: jax.Array, params: Any) -> tuple[jax.Array, RepeatState]:
        card, left = self.begun(key)
        first = card.astype(jnp.int8)
        shown = jnp.full(self.lag, -1, jnp.int8).at[0].set(first)
        state = RepeatState(left, shown, first, jnp.zeros((), jnp.int32), jnp.zeros((), jnp.int8))
        return self.observation(state), state

    def step_env(self, key: jax.Array, state: RepeatState, action: jax.Array, params: Any) -> Step:
        right = graded(self.action_space().clip(action), self.answer(state))
        card, left = self.next_card(key, state.left)
        shown = jnp.concatenate([card.astype(jnp.int8)[None], state.shown])[: self.lag]
        after = RepeatState(left, shown, state.first, state.step + 1, right)
        return self.stepped(after, self.num_cards - self.lag, self.num_cards - 1)

    def observation(self, state: RepeatState, params: Any = None) -> jax.Array:
        """Bool `[4]`: the suit of the newest card."""
        return one_hot(state.shown[0], 4)

    def answer(self, state: RepeatState) -> jax.Array:
        """The suit to name now, or -1."""
        raise NotImplementedError

    def sight(self, state: RepeatState) -> str:
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

    def answer(self, state: RepeatState) -> jax.Array:
        return state.shown[-1]

    def draw(self, states: RepeatState, params: Any = None) -> Scene:
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

    def answer(self, state: RepeatState) -> jax.Array:
        return state.first

    def draw(self, states: RepeatState, params: Any = None) -> Scene:
        return draw_repeat_first(self.name, states)


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class AutoencodeState:
    """A pile of N cards."""

    left: jax.Array
    """int32 `[4]`: the cards of each suit that are still to come."""
    pile: jax.Array
    """int8 `[N]`: the suits of the cards to recite, the next one first; -1 where there is none."""
    step: jax.Array
    right: jax.Array
    """int8: 1 if the last answer was right, -1 if it was wrong, 0 if there was none."""


class Autoencode(CardGame):
    """Watch all cards, then name their suits, the last card first. Equal to POPGym's Autoencode.

    Observation bool `[5]`: whether there is still something to watch, and the suit of the card that is shown, one-hot;
    no suit while reciting. (POPGym shows spades then.) With the last card, reciting begins.
    Action Discrete(4): the suit of the next card; without effect while watching.
    Reward: 1 for perfect play and -1 if all answers are wrong, in equal parts for each answer. Terminated after the
    last answer, which is step 2 N - 1 with N cards.

    Args:
        num_decks: Decks of 52 cards.

    Raises:
        ValueError: An option is out of its range.
    """

    action_names = SUITS

    def __init__(self, *, num_decks: int = 1) -> None:
        super().__init__(DECK * whole("num_decks", num_decks), SUITS)

    def observation_space(self, params: Any = None) -> Box:
        return Box(0, 1, (5,), bool)

    def action_space(self, params: Any = None) -> Discrete:
        return Discrete(4)

    def reset_env(self, key: jax.Array, params: Any) -> tuple[jax.Array, AutoencodeState]:
        card, left = self.begun(key)
        pile = jnp.full(self.num_cards, -1, jnp.int8).at[0].set(card.astype(jnp.int8))
        state = AutoencodeState(left, pile, jnp.zeros((), jnp.int32), jnp.zeros((), jnp.int8))
        return self.observation(state), state

    def step_env(self, key: jax.Array, state: AutoencodeState, action: jax.Array, params: Any) -> Step:
        watching = self._watching(state)
        right = graded(self.action_space().clip(action), jnp.where(watching, -1, state.pile[0]))
        card, left = self.next_card(key, state.left)
        put_on = jnp.concatenate([card.astype(jnp.int8)[None], state.pile[:-1]])
        taken_off = jnp.concatenate([state.pile[1:], jnp.full(1, -1, jnp.int8)])
        left, pile = jnp.where(watching, left, state.left), jnp.where(watching, put_on, taken_off)
        after = AutoencodeState(left, pile, state.step + 1, right)
        return self.stepped(after, self.num_cards, 2 * self.num_cards - 1)

    def observation(self, state: AutoencodeState, params: Any = None) -> jax.Array:
        """Bool `[5]`: whether there is something to watch, and the suit that is shown."""
        shown = jnp.where(state.step < self.num_cards, state.pile[0], -1)
        return jnp.concatenate([self._watching(state)[None], one_hot(shown, 4)])

    def sight(self, state: AutoencodeState) -> str:
        shown = f"The card is of {SUITS[int(state.pile[0])]}. " if state.step < self.num_cards else ""
        return f"{shown}{'Watch on.' if self._watching(state) else 'Recite.'}"

    def draw(self, states: AutoencodeState, params: Any = None) -> Scene:
        return draw_autoencode(self.name, states)

    def _watching(self, state: AutoencodeState) -> jax.Array:
        """True if cards are still to come."""
        return state.step < self.num_cards - 1


_KINDS = {"colors": COLORS, "suits": SUITS, "ranks": RANKS}


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class CountState:
    """Two decks of K kinds of cards: those that are dealt, and those that are asked for."""

    left: jax.Array
    """int32 `[2, K]`: the cards of each kind that are still to come, dealt and asked for."""
    card: jax.Array
    """int32 `[2]`: the kinds of the newest card and of the one that is asked for."""
    step: jax.Array
    right: jax.Array
    """int8: 1 if the last answer was right, -1 if it was wrong, 0 before the first."""


class CountRecall(CardGame):
    """A card is dealt, and another kind is asked for: how many of these have been dealt? Equal to POPGym's CountRecall.

    Observation bool `[2 K]`: the kind of the card that is dealt and the kind that is asked for, one-hot.
    Action Discrete(N / K + 1): how many of that kind have been dealt, the card of this observation included.
    Reward: 1 for perfect play and -1 if all answers are wrong, in equal parts for each step. Terminated when the last
    card is dealt.

    Args:
        num_decks: Decks of 52 cards, N cards in all.
        kinds: What tells one card from another: two `"colors"`, four `"suits"` or thirteen `"ranks"`.

    Raises:
        ValueError: An option is out of its range.
    """

    def __init__(self, *, num_decks: int = 1, kinds: Literal["colors", "suits", "ranks"] = "colors") -> None:
        kinds = one_of("kinds", kinds, tuple(_KINDS))
        super().__init__(DECK * whole("num_decks", num_decks), _KINDS[kinds])
        self.each = self.num_cards // len(self.kinds)

    def observation_space(self, params: Any = None) -> Box:
        return Box(0, 1, (2 * len(self.kinds),), bool)

    def action_space(self, params: Any = None) -> Discrete:
        return Discrete(self.each + 1)

    def reset_env(self, key: jax.Array, params: Any) -> tuple[jax.Array, CountState]:
        full = jnp.stack([self.full_deck()] * 2)
        card, left = jax.vmap(deal)(full, uniform_rows(key, 2, 2))
        state = CountState(left, card, jnp.zeros((), jnp.int32), jnp.zeros((), jnp.int8))
        return self.observation(state), state

    def step_env(self, key: jax.Array, state: CountState, action: jax.Array, params: Any) -> Step:
        right = graded(self.action_space().clip(action), self.answer(state))
        card, left = jax.vmap(deal)(state.left, uniform_rows(key, 2, 0))
        after = CountState(left, card, state.step + 1, right)
        return self.stepped(after, self.num_cards - 1, self.num_cards - 1)

    def observation(self, state: CountState, params: Any = None) -> jax.Array:
        """Bool `[2 K]`: what is dealt, and what is asked for."""
        return jnp.concatenate([one_hot(state.card[i], len(self.kinds)) for i in range(2)])

    def answer(self, state: CountState) -> jax.Array:
        """int32: how many of the kind that is asked for have been dealt."""
        return self.each - jnp.sum(jnp.where(one_hot(state.card[1], len(self.kinds)), state.left[0], 0))

    def sight(self, state: CountState) -> str:
        dealt, asked = (self.kinds[int(kind)] for kind in state.card)
        return f"The card is {dealt}. How many {asked} so far?"

    def draw(self, states: CountState, params: Any = None) -> Scene:
        return draw_count_recall(self.name, states, self.kinds, self.each)


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class HigherLowerState:
    """A deck, and the card on the table."""

    left: jax.Array
    """int32 `[13]`: the cards of each rank that are still to come."""
    rank: jax.Array
    """int32: the rank of the newest card, the ace lowest."""
    step: jax.Array
    right: jax.Array
    """int8: 1 if the last guess was right, -1 if it was wrong, 0 after equal cards and before the first guess."""


class HigherLower(CardGame):
    """Guess whether the next card is higher or lower; who counts cards guesses better. Equal to POPGym's HigherLower.

    Observation bool `[13]`: the rank of the newest card, one-hot, the ace lowest.
    Action Discrete(2): higher, lower.
    Reward: 1 / N for a right guess and -1 / N for a wrong one, with N cards; nothing if the cards are equal. Terminated
    when the last card is shown.

    Args:
        num_decks: Decks of 52 cards.

    Raises:
        ValueError: An option is out of its range.
    """

    action_names = ("higher", "lower")

    def __init__(self, *, num_decks: int = 1) -> None:
        super().__init__(DECK * whole("num_decks", num_decks), RANKS)

    def observation_space(self, params: Any = None) -> Box:
        return Box(0, 1, (len(RANKS),), bool)

    def action_space(self, params: Any = None) -> Discrete:
        return Discrete(2)

    def reset_env(self, key: jax.Array, params: Any) -> tuple[jax.Array, HigherLowerState]:
        rank, left = self.begun(key)
        state = HigherLowerState(left, rank, jnp.zeros((), jnp.int32), jnp.zeros((), jnp.int8))
        return self.observation(state), state

    def step_env(self, key: jax.Array, state: HigherLowerState, action: jax.Array, params: Any) -> Step:
        rank, left = self.next_card(key, state.left)
        guess = 1 - 2 * self.action_space().clip(action)  # 1 for higher, -1 for lower
        right = (guess * jnp.sign(rank - state.rank)).astype(jnp.int8)
        after = HigherLowerState(left, rank, state.step + 1, right)
        return self.stepped(after, self.num_cards, self.num_cards - 1)

    def observation(self, state: HigherLowerState, params: Any = None) -> jax.Array:
        """Bool `[13]`: the rank of the newest card."""
        return one_hot(state.rank, len(RANKS))

    def sight(self, state: HigherLowerState) -> str:
        return f"The card is {RANKS[int(state.rank)]}. Is the next one higher or lower?"

    def draw(self, states: HigherLowerState, params: Any = None) -> Scene:
        return draw_higher_lower(self.name, states, self.num_cards // len(RANKS))
