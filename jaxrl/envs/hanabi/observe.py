"""The players' observation: that of the Hanabi learning environment, bit for bit, and how it looks in other colours.

Many small sets of bits are written one after the other into words, then spread to an array of booleans: a loop over
words is short and regular; joining dozens of small arrays is what takes the time otherwise.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxrl.environment import Symmetries
from jaxrl.envs.hanabi.rules import Game, State

__all__ = [
    "Field",
    "Seen",
    "global_state",
    "observe",
    "one_hot",
    "parts",
    "renamed_colors",
    "spread",
    "thermometer",
    "widths",
]

Field = tuple[jax.Array, int]
"""Whole numbers `[…]`, whose lowest bits count, and how many of them: at most 32."""

_WORD = 32


def one_hot(number: jax.Array, width: int) -> Field:
    """Bit `number` alone; none if the number is negative."""
    return jnp.where(number >= 0, 1 << jnp.maximum(number, 0), 0), width


def thermometer(number: jax.Array, width: int) -> list[Field]:
    """The first `number` bits."""
    starts = range(0, width, 16)
    return [((1 << jnp.clip(number - first, 0, 16)) - 1, min(16, width - first)) for first in starts]


def spread(fields: Iterable[Field]) -> jax.Array:
    """The bits of all fields, in order and each from the lowest: bool `[…, D]`, D the sum of the widths."""
    words: list[jax.Array] = []
    end = 0
    for value, width in fields:
        value = value.astype(jnp.uint32)
        word, shift = divmod(end, _WORD)
        if word == len(words):
            words.append(value << shift)
        else:
            words[word] |= value << shift
        if shift + width > _WORD:
            words.append(value >> (_WORD - shift))
        end += width
    joined = jnp.stack(jnp.broadcast_arrays(*words), axis=-1)[..., None]
    bits = (joined >> np.arange(_WORD, dtype=np.uint32)) & 1
    return bits.reshape(*bits.shape[:-2], -1)[..., :end] != 0


class Seen(NamedTuple):
    """An observation `[…, D]` in parts, in their order. Players are counted from the observer.

    N players with H cards of C colours and R ranks, K = C R kinds, W cards of each colour.
    """

    hands: Any
    """`[…, N - 1, H, K]`: the other players' cards, one-hot; nothing for a missing one."""
    short: Any
    """`[…, N]`: which players have one card fewer."""
    deck: Any
    """`[…, cards - N H]`: as many True as cards are left to draw."""
    fireworks: Any
    """`[…, C, R]`: the highest rank played, one-hot."""
    information: Any
    """As many True as information tokens are left."""
    lives: Any
    """As many True as life tokens are left."""
    discards: Any
    """`[…, C, W]`: for each rank as many True as cards of it are gone."""
    last: Any
    """`[…, 2 N + 4 + C + R + 2 H + K + 2]`: who moved; played, discarded, named a colour, named a rank; to whom; the
    colour; the rank; the cards that it is about; the place of the card; the card; whether it scored; whether a token
    came back for it."""
    knowledge: Any
    """`[…, N, H, K + C + R]`: what each card can be by what its owner has been told; its colour, its rank, if named."""


def widths(game: Game) -> Seen:
    """The numbers of each part."""
    players, size, kinds = game.players, game.hand_size, game.kinds
    return Seen(
        hands=(players - 1) * size * kinds,
        short=players,
        deck=game.cards - game.dealt,
        fireworks=kinds,
        information=game.information_tokens,
        lives=game.life_tokens,
        discards=game.cards,
        last=2 * players + 4 + game.colors + game.ranks + 2 * size + kinds + 2,
        knowledge=players * size * (kinds + game.colors + game.ranks),
    )


def parts(game: Game, obs: Any) -> Seen:
    """The parts of observations `[…, D]`."""
    ends = np.cumsum(widths(game))
    flat = Seen(*(obs[..., end - width : end] for width, end in zip(widths(game), ends, strict=True)))
    batch, size = obs.shape[:-1], game.hand_size
    return flat._replace(
        hands=flat.hands.reshape(*batch, game.players - 1, size, game.kinds),
        fireworks=flat.fireworks.reshape(*batch, game.colors, game.ranks),
        discards=flat.discards.reshape(*batch, game.colors, -1),
        knowledge=flat.knowledge.reshape(*batch, game.players, size, -1),
    )


def observe(game: Game, state: State) -> jax.Array:
    """The observation of each player: bool `[N, D]`. Players are counted from the observer."""
    hands = _from_each(state.hands)
    return spread(
        [
            *_hands(game, hands, first=1),
            *_board(game, state),
            *_discards(game, state),
            *_last_move(game, state),
            *_knowledge(game, _from_each(state.possible), _from_each(state.hinted)),
        ]
    )


def global_state(game: Game, state: State) -> jax.Array:
    """All there is to see, all hands included, and whose turn it is: float32 `[G]`."""
    fields = [
        *_hands(game, state.hands, first=0),
        *_board(game, state),
        *_discards(game, state),
        *((value[0], width) if value.ndim else (value, width) for value, width in _last_move(game, state)),
        *_knowledge(game, state.possible, state.hinted),
        one_hot(state.step % game.players, game.players),
    ]
    return spread(fields).astype(jnp.float32)


def _from_each(array: jax.Array) -> jax.Array:
    """An array `[N, …]` by player, as `[N, N, …]` by observer and by the number of seats after the observer."""
    return jnp.stack([jnp.roll(array, -player, axis=0) for player in range(array.shape[0])])


def _hands(game: Game, hands: jax.Array, first: int) -> Iterator[Field]:
    """The cards of the players from `first` on, and which players have one card fewer; `hands[…, N, H]`."""
    for player in range(first, game.players):
        for card in range(game.hand_size):
            yield one_hot(hands[..., player, card].astype(jnp.int32), game.kinds)
    for player in range(game.players):
        yield hands[..., player, -1] < 0, 1


def _board(game: Game, state: State) -> Iterator[Field]:
    """The number of cards that are left to draw, the fireworks, and the tokens."""
    yield from thermometer(game.cards - state.drawn, game.cards - game.dealt)
    for color in range(game.colors):
        yield one_hot(state.fireworks[color] - 1, game.ranks)
    yield from thermometer(state.information, game.information_tokens)
    yield from thermometer(state.lives, game.life_tokens)


def _discards(game: Game, state: State) -> Iterator[Field]:
    """The number of each card that are gone."""
    offsets = np.cumsum((0, *game.copies[:-1]))
    bits = (((1 << state.discards) - 1) << offsets).sum(1)  # [C]
    for color in range(game.colors):
        yield bits[color], sum(game.copies)


def _last_move(game: Game, state: State) -> Iterator[Field]:
    """The last move; nothing before the first one. Fields that name players are `[N]`, one entry per observer."""
    last, size = state.last, game.hand_size
    action, viewer = last.action, np.arange(game.players)
    mover = state.step - 1
    moved = state.step > 0
    of_card = moved & (action < game.first_color_hint)
    of_rank = action >= game.first_rank_hint
    of_color = moved & ~of_card & ~of_rank
    number = action - jnp.where(of_rank, game.first_rank_hint, game.first_color_hint)
    values = jnp.where(of_rank, game.ranks, game.colors)
    told = mover + 1 + number // values
    yield one_hot(jnp.where(moved, (mover - viewer) % game.players, -1), game.players)
    yield of_card & (action >= size), 1
    yield of_card & (action < size), 1
    yield of_color, 1
    yield of_rank, 1
    yield one_hot(jnp.where(of_color | of_rank, (told - viewer) % game.players, -1), game.players)
    yield one_hot(jnp.where(of_color, number % values, -1), game.colors)
    yield one_hot(jnp.where(of_rank, number % values, -1), game.ranks)
    yield last.touched, size
    yield one_hot(jnp.where(of_card, action % size, -1), size)
    yield one_hot(last.card, game.kinds)
    yield last.scored, 1
    yield last.regained & (action >= size), 1


def _knowledge(game: Game, possible: jax.Array, hinted: jax.Array) -> Iterator[Field]:
    """The hints to each player about each of its own cards; both `[…, N, H]`."""
    for player in range(game.players):
        for card in range(game.hand_size):
            yield possible[..., player, card], game.kinds
            yield hinted[..., player, card], game.colors + game.ranks


@functools.cache
def renamed_colors(game: Game) -> Symmetries:
    """All C! of them. What is called colour c under the symmetry p is p[c] in the game."""
    orders = [np.array(order) for order in itertools.permutations(range(game.colors))]
    return Symmetries(
        np.stack([_observation(game, order) for order in orders]).astype(np.int32),
        np.stack([_moves(game, order) for order in orders]).astype(np.int32),
    )


def _observation(game: Game, order: np.ndarray) -> np.ndarray:
    """Where each of the D bits comes from."""
    colors, ranks, kinds = game.colors, game.ranks, game.kinds
    own = parts(game, np.arange(sum(widths(game))))

    def of_kinds(bits: np.ndarray) -> np.ndarray:
        """`[…, K]`, colour by colour."""
        return bits.reshape(*bits.shape[:-1], colors, ranks)[..., order, :].reshape(bits.shape)

    last, named = own.last.copy(), 2 * game.players + 4
    last[named : named + colors] = last[named + order]
    card = named + colors + ranks + 2 * game.hand_size
    last[card : card + kinds] = of_kinds(last[card : card + kinds])
    known = own.knowledge.copy()
    known[..., :kinds] = of_kinds(known[..., :kinds])
    known[..., kinds : kinds + colors] = known[..., kinds + order]
    changed = own._replace(
        hands=of_kinds(own.hands),
        fireworks=own.fireworks[order],
        discards=own.discards[order],
        last=last,
        knowledge=known,
    )
    return np.concatenate([np.ravel(part) for part in changed])


def _moves(game: Game, order: np.ndarray) -> np.ndarray:
    """Which move each of the A moves is."""
    moves = np.arange(game.wait + 1)
    hints = slice(game.first_color_hint, game.first_rank_hint)
    moves[hints] = moves[hints].reshape(game.players - 1, game.colors)[:, order].ravel()
    return moves
