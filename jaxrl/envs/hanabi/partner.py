"""A partner that follows rules, to evaluate a team with: IGGI.

From Walton-Rivers, Williams, Bartle, Perez-Liebana and Lucas 2017, "Evaluating and modelling Hanabi-playing agents".
"""

from __future__ import annotations

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxrl.envs.hanabi.observe import parts
from jaxrl.envs.hanabi.rules import Game

__all__ = ["iggi"]


class _View(NamedTuple):
    """The knowledge of one player. The other players are in the order in which they sit after this one."""

    hand: jax.Array  # bool [H, K]: what each own card can be
    others: jax.Array  # bool [N - 1, H, K]: the cards they hold, one-hot
    knows_color: jax.Array  # bool [N - 1, H]: whether they have been told the colour of a card
    knows_rank: jax.Array  # bool [N - 1, H]
    playable: jax.Array  # bool [K]: the cards that fit now
    useless: jax.Array  # bool [K]: the cards that can never score again


def iggi(game: Game, key: jax.Array, obs: jax.Array, mask: jax.Array) -> jax.Array:
    """The moves of players who all follow these rules; the first rule that applies decides.

    1. Play a card that must fit, the oldest if there are several.
    2. Tell the next player, or the one after …, about a card that fits: its rank, or if that is known, its colour.
    3. Discard a card that can never score.
    4. Discard the oldest card.
    5. Give any hint, drawn at random.

    It takes account of the cards that it sees and of what it has been told, but not of what a hint may mean.

    Args:
        game: The sizes, `env.game`.
        key: Consumed.
        obs: bool `[N, D]`, the observations of the players. Each player's move depends only on its own row.
        mask: bool `[N, A]`, their legal moves.

    Returns:
        int32 `[N]`.
    """
    noise = jax.random.gumbel(key, mask.shape[1:])
    return jax.vmap(functools.partial(_move, game, noise))(obs, mask)


def _move(game: Game, noise: jax.Array, obs: jax.Array, mask: jax.Array) -> jax.Array:
    """One player's move; `noise[A]` draws the random hint."""
    view = _view(game, obs)
    held = mask[game.hand_size : game.first_color_hint]
    safe = held & ~(view.hand & ~view.playable).any(1)
    trash = held & ~(view.hand & ~view.useless).any(1)
    hints = mask & (np.arange(game.wait + 1) >= game.first_color_hint)
    hint, is_useful = _useful_hint(game, view)
    waits, can_hint, can_discard = mask[game.wait], hints.any(), mask[0]
    rules = (
        (waits, jnp.int32(game.wait)),
        (safe.any(), game.hand_size + jnp.argmax(safe)),
        (is_useful & can_hint, hint),
        (trash.any() & can_discard, jnp.argmax(trash)),
        (can_discard, jnp.int32(0)),
        (can_hint, jnp.argmax(jnp.where(hints, noise, -jnp.inf))),
    )
    applies, moves = zip(*rules, strict=True)
    oldest = jnp.int32(game.hand_size)  # nothing else is legal
    return jnp.select(applies, [move.astype(jnp.int32) for move in moves], oldest)


def _view(game: Game, obs: jax.Array) -> _View:
    """The knowledge in one player's observation `[D]`."""
    seen = parts(game, obs)
    ranks = np.arange(game.ranks)
    copies = np.array(game.copies)
    ends = np.cumsum(copies)
    gone = jnp.stack([seen.discards[:, end - n : end].sum(1) for n, end in zip(copies, ends, strict=True)], axis=1)
    played = (seen.fireworks * (1 + ranks)).sum(1)[:, None]  # [C, 1]: how many cards of the colour
    unseen = (copies - gone - (ranks < played)).ravel() - seen.hands.sum((0, 1))
    lost = jnp.cumsum((gone == copies) & (ranks >= played), axis=1) > 0  # a card below is missing for ever
    possible, colors, named = jnp.split(seen.knowledge, (game.kinds, game.kinds + game.colors), axis=-1)
    return _View(
        hand=possible[0] & (unseen > 0),
        others=seen.hands,
        knows_color=colors[1:].any(-1),
        knows_rank=named[1:].any(-1),
        playable=(ranks == played).ravel(),
        useless=((ranks < played) | lost).ravel(),
    )


def _useful_hint(game: Game, view: _View) -> tuple[jax.Array, jax.Array]:
    """A hint about another player's card that fits, and whether there is one to give."""
    kind = jnp.argmax(view.others, axis=-1)
    ahead = np.arange(game.players - 1)[:, None]
    color = game.first_color_hint + ahead * game.colors + kind // game.ranks
    rank = game.first_rank_hint + ahead * game.ranks + kind % game.ranks
    wanted = (view.others & view.playable).any(-1) & ~(view.knows_color & view.knows_rank)
    moves = jnp.where(view.knows_rank, color, rank).ravel()
    return moves[jnp.argmax(wanted)], wanted.any()
