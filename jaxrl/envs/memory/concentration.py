"""Concentration: find the pairs among cards that lie face down."""

from __future__ import annotations

import dataclasses
from typing import Literal

import jax
import jax.numpy as jnp
import numpy as np

from jaxrl.environment import Step, as_arrays
from jaxrl.envs.memory.board import Params
from jaxrl.envs.memory.cards import COLORS, DECK, RANKS, CardGame, one_hot
from jaxrl.envs.memory.draw import ROW, draw_concentration
from jaxrl.envs.options import one_of, whole
from jaxrl.render.scene import Scene
from jaxrl.spaces import Box, Discrete

__all__ = ["Concentration", "State"]

_KINDS = {"colors": COLORS, "ranks": RANKS}  # of each suit there are 13 cards, which are no pairs


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class State:
    """N cards on a table, of K kinds. What a card is, is drawn when it is turned for the first time."""

    left: jax.Array
    """int32 `[K]`: the cards of each kind among those that were never turned."""
    kind: jax.Array
    """int8 `[N]`: the kind of each card; -1 if it was never turned."""
    found: jax.Array
    """Bool `[N]`: the cards of pairs, which stay face up."""
    first: jax.Array
    """Bool `[N]`: the first card of a try, while the second is still to come."""
    shown: jax.Array
    """Bool `[N]`: the cards that lie face up."""
    step: jax.Array
    right: jax.Array
    """int8: 1 if the last card makes a pair, -1 if a try fails by it, 0 if it is the first of a try."""


class Concentration(CardGame):
    """Turn two cards that are alike, again and again, until all lie face up. Equal to POPGym's Concentration.

    Two cards of a kind stay face up. Others still show in the observation after the second card, and lie face down in
    the next. A try also fails by turning the same card twice, or one that is face up for good; if that is the first of
    a try, no second follows.

    Observation bool `[N K]`: for each of N cards its kind, one-hot; nothing for a card that lies face down. (In POPGym,
    face down is one more kind.) The card that turns tells the last action, so no option adds it.
    Action Discrete(N): the card to turn.
    Reward: 2 / N for a pair, so 1 for all pairs; in episodes of T steps, -1 / T for each card of a try that fails.
    Terminated when all cards are face up.

    Args:
        num_decks: Decks of 52 cards, N cards in all.
        kinds: What makes cards alike: two `"colors"` or thirteen `"ranks"`.
        max_steps: T; None for two for each card.

    Raises:
        ValueError: An option is out of its range.
    """

    intended = ("same_start",)  # all cards face down

    def __init__(
        self, *, num_decks: int = 1, kinds: Literal["colors", "ranks"] = "colors", max_steps: int | None = None
    ) -> None:
        kinds = one_of("kinds", kinds, tuple(_KINDS))
        super().__init__(DECK * whole("num_decks", num_decks), _KINDS[kinds])
        # POPGym's formula rounds 2 N - N / (2 N - 1) up, which is always 2 N.
        steps = 2 * self.num_cards if max_steps is None else whole("max_steps", max_steps)
        self._default_params = as_arrays(Params(steps))

    @property
    def default_params(self) -> Params:
        return self._default_params

    def observation_space(self, params: Params | None = None) -> Box:
        return Box(0, 1, (self.num_cards * len(self.kinds),), bool)

    def action_space(self, params: Params | None = None) -> Discrete:
        return Discrete(self.num_cards)

    def reset_env(self, key: jax.Array, params: Params) -> tuple[jax.Array, State]:
        none = jnp.zeros(self.num_cards, bool)
        state = State(
            left=jnp.asarray(self.full_deck()),
            kind=jnp.full(self.num_cards, -1, jnp.int8),
            found=none,
            first=none,
            shown=none,
            step=jnp.zeros((), jnp.int32),
            right=jnp.zeros((), jnp.int8),
        )
        return self.observation(state), state

    def step_env(self, key: jax.Array, state: State, action: jax.Array, params: Params) -> Step:
        card = one_hot(self.action_space().clip(action), self.num_cards)
        drawn, left = self.next_card(key, state.left)
        new = card & (state.kind < 0)
        kind = jnp.where(new, drawn.astype(jnp.int8), state.kind)
        second, lay_up = jnp.any(state.first), jnp.any(card & state.found)
        alike = kind == jnp.max(jnp.where(card, kind, -1))
        pair = jnp.any(state.first & alike & ~card) & ~lay_up
        ends = second | lay_up  # the try
        after = State(
            left=jnp.where(jnp.any(new), left, state.left),
            kind=kind,
            found=state.found | (pair & (state.first | card)),
            first=card & ~ends,
            shown=state.found | state.first | card,
            step=state.step + 1,
            right=jnp.where(pair, 1, jnp.where(ends, -1, 0)).astype(jnp.int8),
        )
        cost = (1 + second) / params.max_steps
        reward = jnp.where(pair, 2 / self.num_cards, jnp.where(ends, -cost, 0.0))
        terminated = jnp.all(after.found)
        truncated = (after.step >= params.max_steps) & ~terminated
        return self.observation(after), after, reward.astype(jnp.float32), terminated, truncated, {}

    def observation(self, state: State, params: Params | None = None) -> jax.Array:
        """Bool `[N K]`: the kinds of the cards that lie face up."""
        return (state.shown[:, None] & (state.kind[:, None] == np.arange(len(self.kinds)))).reshape(-1)

    def sight(self, state: State) -> str:
        """The table in rows: numbers are cards that lie face down."""
        cards = [
            f"[{self.kinds[kind]}]" if shown else str(number)
            for number, (kind, shown) in enumerate(zip(state.kind.tolist(), state.shown.tolist(), strict=True))
        ]
        rows = ["".join(f"{card:>8}" for card in cards[i : i + ROW]) for i in range(0, self.num_cards, ROW)]
        return "\n".join([f"Turn {'another' if state.first.any() else 'a'} card.", *rows])

    def draw(self, states: State, params: Params | None = None) -> Scene:
        return draw_concentration(self.name, states, self.kinds)
