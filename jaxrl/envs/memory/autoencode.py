"""Cards to recite backwards."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp

from jaxrl.environment import Step
from jaxrl.envs.memory.cards import DECK, SUITS, CardGame, graded, one_hot
from jaxrl.envs.memory.draw import draw_autoencode
from jaxrl.envs.options import whole
from jaxrl.render.scene import Scene
from jaxrl.spaces import Box, Discrete

__all__ = ["Autoencode", "State"]


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class State:
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

    def reset_env(self, key: jax.Array, params: Any) -> tuple[jax.Array, State]:
        card, left = self.begun(key)
        pile = jnp.full(self.num_cards, -1, jnp.int8).at[0].set(card.astype(jnp.int8))
        state = State(left, pile, jnp.zeros((), jnp.int32), jnp.zeros((), jnp.int8))
        return self.observation(state), state

    def step_env(self, key: jax.Array, state: State, action: jax.Array, params: Any) -> Step:
        watching = self._watching(state)
        right = graded(self.action_space().clip(action), jnp.where(watching, -1, state.pile[0]))
        card, left = self.next_card(key, state.left)
        put_on = jnp.concatenate([card.astype(jnp.int8)[None], state.pile[:-1]])
        taken_off = jnp.concatenate([state.pile[1:], jnp.full(1, -1, jnp.int8)])
        left, pile = jnp.where(watching, left, state.left), jnp.where(watching, put_on, taken_off)
        after = State(left, pile, state.step + 1, right)
        return self.stepped(after, self.num_cards, 2 * self.num_cards - 1)

    def observation(self, state: State, params: Any = None) -> jax.Array:
        """Bool `[5]`: whether there is something to watch, and the suit that is shown."""
        shown = jnp.where(state.step < self.num_cards, state.pile[0], -1)
        return jnp.concatenate([self._watching(state)[None], one_hot(shown, 4)])

    def sight(self, state: State) -> str:
        shown = f"The card is of {SUITS[int(state.pile[0])]}. " if state.step < self.num_cards else ""
        return f"{shown}{'Watch on.' if self._watching(state) else 'Recite.'}"

    def draw(self, states: State, params: Any = None) -> Scene:
        return draw_autoencode(self.name, states)

    def _watching(self, state: State) -> jax.Array:
        """Whether cards are still to come."""
        return state.step < self.num_cards - 1
