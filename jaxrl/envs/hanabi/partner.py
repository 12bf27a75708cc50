"""A partner that follows rules, to evaluate a team with: IGGI.

From Walton-Rivers, Williams, Bartle, Perez-Liebana and Lucas 2017, "Evaluating and modelling Hanabi-playing agents".
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxrl.envs.hanabi import rules
from jaxrl.envs.hanabi.env import Hanabi
from jaxrl.envs.hanabi.game import Game
from jaxrl.envs.hanabi.rules import State

__all__ = ["iggi"]


class _View(NamedTuple):
    """What the player whose turn it is knows."""

    hand: jax.Array  # bool [H, K]: what each own card can be
    others: jax.Array  # [N - 1, H]: the kinds that the next players hold
    hinted: jax.Array  # [N - 1, H]: what they have been told
    playable: jax.Array  # bool [K]: the cards that fit now
    useless: jax.Array  # bool [K]: the cards that can never score again


def iggi(env: Hanabi, key: jax.Array, state: State) -> jax.Array:
    """The moves of N players of this kind: int32 `[N]`, of which all but one is to wait. Consumes `key`.

    The first rule that applies decides: play a card that must fit, the oldest if there are several; tell the next
    player, or the one after …, about a card that fits, first its rank, then its colour; discard a card that can never
    score; discard the oldest card; give any hint, drawn at random. It only uses what the player sees, and takes no
    account of what a hint or its absence may mean.
    """
    game, view = env.game, _view(env.game, state)
    mask = env.action_mask(state).any(0, where=(jnp.arange(game.players) == rules.actor(game, state))[:, None])
    held = mask[game.hand_size : 2 * game.hand_size]
    safe = held & ~(view.hand & ~view.playable).any(1)
    trash = held & ~(view.hand & ~view.useless).any(1)
    hint, has_hint = _useful_hint(game, view)
    hints = mask & (np.arange(game.wait + 1) >= game.first_color_hint)
    can_discard = mask[0]
    any_hint = jax.random.categorical(key, jnp.where(hints, 0.0, -jnp.inf))
    choices = (
        (safe.any(), game.hand_size + jnp.argmax(safe)),
        (has_hint & (state.information > 0), hint),
        (can_discard & trash.any(), jnp.argmax(trash)),
        (can_discard, jnp.int32(0)),
        (hints.any(), any_hint),
    )
    move = jnp.select(
        [applies for applies, _ in choices], [move.astype(jnp.int32) for _, move in choices], game.hand_size
    )
    turn = jnp.arange(game.players) == rules.actor(game, state)
    return jnp.where(turn, move, game.wait).astype(jnp.int32)


def _view(game: Game, state: State) -> _View:
    """What can be known without seeing the own hand."""
    me = rules.actor(game, state)
    hands, possible, hinted = (jnp.roll(a, -me, axis=0) for a in (state.hands, state.possible, state.hinted))
    kinds, ranks = np.arange(game.kinds), np.arange(game.ranks)
    total = np.tile(np.array(game.copies, np.int32), (game.colors, 1))
    gone = state.discards + (ranks < state.fireworks[:, None])
    seen = (hands[1:, :, None] == kinds).sum((0, 1))
    unseen = (total - gone).ravel() - seen
    dead = jnp.cumsum((state.discards == total) & (ranks >= state.fireworks[:, None]), axis=1) > 0
    return _View(
        hand=(possible[0, :, None] >> kinds & 1 != 0) & (unseen > 0),
        others=hands[1:].astype(jnp.int32),
        hinted=hinted[1:],
        playable=(ranks == state.fireworks[:, None]).ravel(),
        useless=((ranks < state.fireworks[:, None]) | dead).ravel(),
    )


def _useful_hint(game: Game, view: _View) -> tuple[jax.Array, jax.Array]:
    """A hint about another player's card that fits, and whether there is one."""
    fits = (view.playable & (view.others[..., None] == np.arange(game.kinds))).any(-1)
    knows_color = (view.hinted & ((1 << game.colors) - 1)) > 0
    knows_rank = (view.hinted >> game.colors) > 0
    ahead = np.arange(game.players - 1)[:, None]
    color = game.first_color_hint + ahead * game.colors + view.others // game.ranks
    rank = game.first_rank_hint + ahead * game.ranks + view.others % game.ranks
    wanted = fits & ~(knows_color & knows_rank)
    moves = jnp.where(knows_rank, color, rank).ravel()
    return moves[jnp.argmax(wanted)], wanted.any()
