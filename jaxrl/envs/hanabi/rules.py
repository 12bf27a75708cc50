"""The rules of Hanabi (Bauza 2010) as pure functions, and the sizes of a game: players, cards, tokens and moves.

Sets of cards are the bits of a number, which needs no gathers. Equal to the Hanabi learning environment (Bard et al.
2019, https://arxiv.org/abs/1902.00506).
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Iterable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxrl.envs.options import whole

__all__ = ["COLORS", "COLOR_NAMES", "Game", "Move", "State", "actor", "is_over", "legal", "play", "score", "start"]

COLOR_NAMES = ("red", "yellow", "green", "white", "blue")
COLORS = "RYGWB"
"""The letters of the colours, in order."""


@dataclasses.dataclass(frozen=True)
class Game:
    """The sizes of a variant. A card's kind is a number: K = colours x ranks of them, colour by colour.

    The moves are numbered as in the Hanabi learning environment: discard a card (oldest first), play a card, name a
    colour to the next player, to the one after …, name a rank, and last, here, to wait.

    Raises:
        ValueError: A size is out of its range, or there are too few cards to deal.
    """

    players: int
    colors: int
    ranks: int
    hand_size: int
    information_tokens: int
    life_tokens: int

    def __post_init__(self) -> None:
        for name, low, high in (
            ("players", 2, 5),
            ("colors", 1, 5),
            ("ranks", 1, 5),
            ("hand_size", 1, 10),
            ("information_tokens", 0, 30),
            ("life_tokens", 1, 30),
        ):
            object.__setattr__(self, name, whole(name, getattr(self, name), low, high))
        if self.dealt > self.cards:
            raise ValueError(
                f"{self.players} players with {self.hand_size} cards each need {self.dealt} cards, but {self.colors} "
                f"colours and {self.ranks} ranks make {self.cards}; give them fewer."
            )

    @property
    def kinds(self) -> int:
        """K, the number of different cards."""
        return self.colors * self.ranks

    @property
    def copies(self) -> tuple[int, ...]:
        """The number of cards that there are of each rank, in each colour."""
        return tuple(3 if rank == 0 else 1 if rank == self.ranks - 1 else 2 for rank in range(self.ranks))

    @property
    def cards(self) -> int:
        """The number of cards in the deck before any is dealt."""
        return self.colors * sum(self.copies)

    @property
    def dealt(self) -> int:
        """The number of cards that the players hold at first."""
        return self.players * self.hand_size

    @functools.cached_property
    def deck(self) -> np.ndarray:
        """The kinds of all cards, in order: int32 `[cards]`."""
        return np.repeat(np.arange(self.kinds, dtype=np.int32), np.tile(self.copies, self.colors))

    @property
    def first_color_hint(self) -> int:
        """The number of the first move that names a colour; those before discard and play."""
        return 2 * self.hand_size

    @property
    def first_rank_hint(self) -> int:
        """The number of the first move that names a rank."""
        return self.first_color_hint + (self.players - 1) * self.colors

    @property
    def wait(self) -> int:
        """The number of the last move: to do nothing."""
        return self.first_rank_hint + (self.players - 1) * self.ranks

    @property
    def action_names(self) -> tuple[str, ...]:
        """The moves as somebody types them: `play 1` the oldest card, `hint red`, `hint +2 red` to the second next."""
        ahead = [f"+{number} " if self.players > 2 else "" for number in range(1, self.players)]
        cards = [str(number) for number in range(1, self.hand_size + 1)]
        ranks = [str(rank + 1) for rank in range(self.ranks)]
        named = [*_product(ahead, COLOR_NAMES[: self.colors]), *_product(ahead, ranks)]
        return (*_product(("discard ", "play "), cards), *_product(("hint ",), named), "wait")

    def card(self, kind: int) -> str:
        """A card in two characters, such as `R1`."""
        return f"{COLORS[kind // self.ranks]}{kind % self.ranks + 1}"

    def move(self, action: int, player: int) -> str:
        """A move in words; cards are counted from 1, the oldest, players from 0."""
        size = self.hand_size
        if action < self.first_color_hint:
            return f"{'discards' if action < size else 'plays'} card {action % size + 1}"
        if action >= self.wait:
            return "waits"
        first, values = (
            (self.first_rank_hint, self.ranks) if action >= self.first_rank_hint else (2 * size, self.colors)
        )
        ahead, value = divmod(action - first, values)
        named = str(value + 1) if action >= self.first_rank_hint else COLORS[value]
        return f"tells player {(player + 1 + ahead) % self.players} about {named}"


def _product(starts: Iterable[str], ends: Iterable[str]) -> list[str]:
    """Each start with each end."""
    return [start + end for start, end in itertools.product(starts, ends)]


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Move:
    """The facts that everybody has seen of the last move; all fields are -1, 0 or False before the first one."""

    action: jax.Array
    """The number of the action, from the view of the player who moved."""
    card: jax.Array
    """The kind that was played or discarded, or -1."""
    touched: jax.Array
    """Bit i: whether the hint is about card i of the player who received it."""
    scored: jax.Array
    """True if the played card fits."""
    regained: jax.Array
    """True if an information token came back."""


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class State:
    """A game of N players with H cards each, of C colours and R ranks. All numbers are int32, except those of cards.

    Cards in a hand are ordered from the oldest to the newest; a missing one is last and has the kind -1.
    """

    deck: jax.Array
    """int8 `[cards]`: the kinds in the order in which they are dealt."""
    drawn: jax.Array
    """The number of them that have been dealt."""
    hands: jax.Array
    """int8 `[N, H]`: the kinds that the players hold."""
    possible: jax.Array
    """`[N, H]`, bit k: whether the card can be of kind k by what its owner has been told about it."""
    hinted: jax.Array
    """`[N, H]`, bit c: whether the owner has been told that it is of colour c; bit C + r: of rank r."""
    fireworks: jax.Array
    """`[C]`: the highest rank that has been played, from 1; 0 if none has."""
    discards: jax.Array
    """`[C, R]`: how many have been discarded or misplayed."""
    information: jax.Array
    """Information tokens left."""
    lives: jax.Array
    """Life tokens left."""
    turns_left: jax.Array
    """Turns until the end once the deck is empty; N before."""
    step: jax.Array
    """The number of moves made; player `step % N` makes the next one."""
    last: Move


def actor(game: Game, state: State) -> jax.Array:
    """The player whose turn it is."""
    return state.step % game.players


def score(state: State) -> jax.Array:
    """The number of cards in the fireworks, whether or not a life is left."""
    return state.fireworks.sum(dtype=jnp.int32)


def is_over(game: Game, state: State) -> jax.Array:
    """True if the game has ended: no life is left, all is played, or everybody had a turn after the last card."""
    return (state.lives <= 0) | (score(state) >= game.kinds) | (state.turns_left <= 0)


def start(game: Game, deck: jax.Array, information: jax.Array, lives: jax.Array) -> State:
    """The start of a game.

    Args:
        game: The sizes.
        deck: The kinds in the order dealt, `[cards]`: the first player's hand, then the next player's …
        information: Information tokens.
        lives: Life tokens.
    """
    deck = deck.astype(jnp.int8)
    shape = (game.players, game.hand_size)
    none = jnp.int32(-1)
    no, zero = jnp.zeros((), bool), jnp.zeros((), jnp.int32)
    return State(
        deck=deck,
        drawn=jnp.int32(game.dealt),
        hands=deck[: game.dealt].reshape(shape),
        possible=jnp.full(shape, (1 << game.kinds) - 1, jnp.int32),
        hinted=jnp.zeros(shape, jnp.int32),
        fireworks=jnp.zeros(game.colors, jnp.int32),
        discards=jnp.zeros((game.colors, game.ranks), jnp.int32),
        information=information,
        lives=lives,
        turns_left=jnp.int32(game.players),
        step=zero,
        last=Move(action=none, card=none, touched=zero, scored=no, regained=no),
    )


def legal(game: Game, state: State, max_information: jax.Array) -> jax.Array:
    """Which moves each player may make: bool `[N, A]`. Players whose turn it is not can only wait."""
    turn = jnp.arange(game.players) == actor(game, state)
    held = state.hands >= 0
    discards = held & (state.information < max_information)
    colors, ranks = state.hands // game.ranks, state.hands % game.ranks
    has_color = (held[..., None] & (colors[..., None] == np.arange(game.colors))).any(1)
    has_rank = (held[..., None] & (ranks[..., None] == np.arange(game.ranks))).any(1)
    hints = [
        jnp.roll(has, -ahead, axis=0) & (state.information > 0)
        for has in (has_color, has_rank)
        for ahead in range(1, game.players)
    ]
    moves = jnp.concatenate([discards, held, *hints], axis=1) & turn[:, None]
    return jnp.concatenate([moves, ~turn[:, None]], axis=1)


class _Hint(NamedTuple):
    """The hint that a move gives; meaningless if the move is not a hint."""

    is_rank: jax.Array
    value: jax.Array  # the colour or rank
    told: jax.Array  # bool [N, 1]: to whom
    touched: jax.Array  # bool [N, H]: about which cards


def _hint(game: Game, state: State, action: jax.Array) -> _Hint:
    is_rank = action >= game.first_rank_hint
    number = action - jnp.where(is_rank, jnp.int32(game.first_rank_hint), game.first_color_hint)
    values = jnp.where(is_rank, jnp.int32(game.ranks), game.colors)
    ahead, value = number // values, number % values
    told = (np.arange(game.players) == (actor(game, state) + 1 + ahead) % game.players)[:, None]
    shown = jnp.where(is_rank, state.hands % game.ranks, state.hands // game.ranks)
    return _Hint(is_rank, value, told, told & (state.hands >= 0) & (shown == value))


def play(game: Game, state: State, action: jax.Array, max_information: jax.Array) -> State:
    """The game after the move of the player whose turn it is.

    A move that is not legal stands for the first legal one: to discard the oldest card, or else to play it.
    """
    turn = (np.arange(game.players) == actor(game, state))[:, None]
    hint = _hint(game, state, action)
    held = _pick(state.hands, turn & (np.arange(game.hand_size) == action % game.hand_size)) >= 0
    of_card = action < game.first_color_hint
    can_discard = state.information < max_information
    allowed = jnp.where(of_card, held & ((action >= game.hand_size) | can_discard), state.information > 0)
    allowed &= of_card | (hint.touched.any() & (action < game.wait))
    action = jnp.where(allowed, action, jnp.where(can_discard, jnp.int32(0), game.hand_size))
    of_card |= ~allowed
    state = _tell(game, state, hint, ~of_card)
    state = _use_card(game, state, turn, action, of_card, max_information)
    touched = jnp.where(of_card, 0, (hint.touched.any(0) << np.arange(game.hand_size)).sum(dtype=jnp.int32))
    last = dataclasses.replace(state.last, action=action, touched=touched)
    return dataclasses.replace(state, step=state.step + 1, last=last)


def _tell(game: Game, state: State, hint: _Hint, tells: jax.Array) -> State:
    """The game after the hint, if it is one."""
    one_of_each = sum(1 << color * game.ranks for color in range(game.colors))  # the cards of the lowest rank
    color = ((1 << game.ranks) - 1) << hint.value * game.ranks
    named = jnp.where(hint.is_rank, one_of_each << hint.value, color)
    after = state.possible & jnp.where(hint.touched, named, ~named)
    bit = 1 << jnp.where(hint.is_rank, game.colors + hint.value, hint.value)
    return dataclasses.replace(
        state,
        possible=jnp.where(hint.told & tells, after, state.possible),
        hinted=jnp.where(hint.touched & tells, state.hinted | bit, state.hinted),
        information=state.information - tells,
    )


def _use_card(
    game: Game, state: State, turn: jax.Array, action: jax.Array, uses: jax.Array, max_information: jax.Array
) -> State:
    """The game after a card was played or discarded and another one drawn, if that is the move."""
    slot = np.arange(game.hand_size) == action % game.hand_size
    kind = _pick(state.hands, turn & slot)
    color = np.arange(game.colors) == kind // game.ranks
    rank = kind % game.ranks
    plays = uses & (action >= game.hand_size)
    scored = plays & (_pick(state.fireworks, color) == rank)
    lost = uses & ~scored
    regained = (uses & ~plays) | (scored & (rank == game.ranks - 1) & (state.information < max_information))

    new = jnp.where(state.drawn < game.cards, _pick(state.deck, np.arange(game.cards) == state.drawn), -1)
    moved = turn & uses & (np.arange(game.hand_size) >= action % game.hand_size)

    def refilled(old: jax.Array, drawn: jax.Array) -> jax.Array:
        last = jnp.broadcast_to(drawn.astype(old.dtype), (game.players, 1))
        return jnp.where(moved, jnp.concatenate([old[:, 1:], last], axis=1), old)

    return dataclasses.replace(
        state,
        drawn=state.drawn + (uses & (new >= 0)),
        hands=refilled(state.hands, new),
        possible=refilled(state.possible, jnp.where(new >= 0, (1 << game.kinds) - 1, 0)),
        hinted=refilled(state.hinted, jnp.int32(0)),
        fireworks=state.fireworks + (color & scored),
        discards=state.discards + (lost & color[:, None] & (np.arange(game.ranks) == rank)),
        information=state.information + regained,
        lives=state.lives - (plays & ~scored),
        turns_left=state.turns_left - (state.drawn >= game.cards),
        last=dataclasses.replace(
            state.last, card=jnp.where(uses, kind, jnp.int32(-1)), scored=scored, regained=regained
        ),
    )


def _pick(values: jax.Array, where: jax.Array) -> jax.Array:
    """The one value where `where` is True, as int32."""
    return jnp.where(where, values, 0).sum(dtype=jnp.int32)
