"""Hanabi under the contract: turns by masks, one reward for all."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxrl.environment import MultiAgentEnvironment, Script, Step, Symmetries, as_arrays
from jaxrl.envs.batching import same_key, uniform_rows
from jaxrl.envs.hanabi import rules
from jaxrl.envs.hanabi.draw import describe, draw
from jaxrl.envs.hanabi.observe import global_state, observe, renamed_colors, widths
from jaxrl.envs.hanabi.partner import iggi
from jaxrl.envs.hanabi.rules import Game, State
from jaxrl.render.scene import Scene
from jaxrl.spaces import Box, Discrete

__all__ = ["Hanabi", "Params"]


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Params:
    """The numbers that may vary without changing a shape."""

    information_tokens: Any
    """Information tokens at the start, and the most there can be; at most as many as the game has."""
    life_tokens: Any
    """Life tokens at the start, at most as many as the game has."""
    lost_share: Any = 1.0
    """The share of the points that is lost with the last life: 1 by the rules, 0 to keep them."""


class Hanabi(MultiAgentEnvironment):
    """A team plays the cards of each colour in order, and each player sees all hands except its own.

    Equal to the Hanabi learning environment: observation, moves, legal moves, rewards, ends.

    Args:
        players: N, 2 to 5.
        colors: 1 to 5.
        ranks: 1 to 5.
        hand_size: Cards a player, by default 5 for two or three players and 4 for more.
        information_tokens: How many there are.
        life_tokens: How many there are.

    Raises:
        ValueError: An option is out of its range.
    """

    def __init__(
        self,
        players: int = 2,
        *,
        colors: int = 5,
        ranks: int = 5,
        hand_size: int | None = None,
        information_tokens: int = 8,
        life_tokens: int = 3,
    ) -> None:
        if hand_size is None:
            hand_size = 5 if players < 4 else 4
        self.game = Game(players, colors, ranks, hand_size, information_tokens, life_tokens)
        self.agents = tuple(f"player_{player}" for player in range(players))
        self.action_names = self.game.action_names
        self._default_params = as_arrays(Params(information_tokens, life_tokens))
        if colors * ranks == 1:  # no deal differs from another
            self.intended = ("same_start",)

    @property
    def default_params(self) -> Params:
        return self._default_params

    @property
    def teams(self) -> tuple[int, ...]:
        return (0,) * self.num_agents

    @property
    def symmetries(self) -> Symmetries:
        """The colours can be renamed."""
        return renamed_colors(self.game)

    @property
    def scripted_policy(self) -> Script:
        """The rules of `iggi`."""
        return lambda obs, mask, key: iggi(self.game, key, obs, mask)

    def observation_space(self, params: Params | None = None) -> Box:
        return Box(0, 1, (sum(widths(self.game)),), bool)

    def action_space(self, params: Params | None = None) -> Discrete:
        return Discrete(self.game.wait + 1)

    split_key = same_key  # only starts draw numbers

    def reset_env(self, key: jax.Array, params: Params) -> tuple[jax.Array, State]:
        # Cards sorted by random numbers; the lowest five bits of each carry the kind along.
        draws = (uniform_rows(key, self.game.cards) * 2**24).astype(jnp.int32)
        state = self._start(jnp.sort(draws << 5 | self.game.deck) & 31, params)
        return self.observation(state), state

    def state_from_deck(self, deck: jax.Array, params: Params | None = None) -> tuple[jax.Array, State]:
        """Start a game with the given deck: `(observation, state)`.

        Args:
            deck: int32 `[cards, 2]`, colour and rank from 0 in the order dealt: the first player's hand, the next
                player's, …, then the cards drawn.
            params: The parameters.

        Raises:
            ValueError: The deck has another shape.
        """
        deck = jnp.asarray(deck)
        if deck.shape != (self.game.cards, 2):
            raise ValueError(f"The deck must have the shape {(self.game.cards, 2)}, got {deck.shape}.")
        state = self._start(deck[:, 0] * self.game.ranks + deck[:, 1], self._params(params))
        return self.observation(state), state

    def step_env(self, key: jax.Array, state: State, action: jax.Array, params: Params) -> Step:
        turn = jnp.arange(self.num_agents) == rules.actor(self.game, state)
        move = jnp.where(turn, self.action_space().clip(action), 0).sum(dtype=jnp.int32)
        after = rules.play(self.game, state, move, self._max_information(params))
        points = rules.score(after) - rules.score(state)
        lost = jnp.where(after.lives <= 0, params.lost_share, 0.0) * rules.score(after)
        reward = jnp.broadcast_to(points - lost, (self.num_agents,)).astype(jnp.float32)
        terminated = rules.is_over(self.game, after)
        return self.observation(after), after, reward, terminated, jnp.zeros_like(terminated), {}

    def observation(self, state: State, params: Params | None = None) -> jax.Array:
        """Bool `[N, D]`."""
        return observe(self.game, state)

    def batch_observation(self, state: State, params: Params | None = None, *, own_params: bool = False) -> jax.Array:
        """Bool `[B, N, D]`; that it is written here saves a step from making two of them."""
        return jax.vmap(self.observation)(state)

    def action_mask(self, state: State, params: Params | None = None) -> jax.Array:
        return rules.legal(self.game, state, self._max_information(self._params(params)))

    def global_state(self, state: State, params: Params | None = None) -> jax.Array:
        """float32 `[G]`: all hands, what everybody knows, and whose turn it is; see `observe.global_state`."""
        return global_state(self.game, state)

    def draw(self, states: State, params: Params | None = None) -> Scene:
        return draw(self.game, self.name, states, self._lost_share(params))

    def text(self, state: State, viewer: int | None = None, params: Params | None = None) -> str:
        """One state as text; `viewer` is the player whose own cards are hidden, None sees all."""
        return describe(self.game, state, viewer, lost_share=self._lost_share(params))

    def _lost_share(self, params: Params | None) -> float:
        return float(np.asarray(self._params(params).lost_share))

    def _max_information(self, params: Params) -> jax.Array:
        return jnp.clip(params.information_tokens, 0, self.game.information_tokens)

    def _start(self, deck: jax.Array, params: Params) -> State:
        lives = jnp.clip(params.life_tokens, 1, self.game.life_tokens)
        return rules.start(self.game, deck, self._max_information(params), lives)
