"""The symmetry of colours: the observation and the moves under each renaming of the colours."""

from __future__ import annotations

import functools
import itertools

import numpy as np

from jaxrl.envs.hanabi.game import Game
from jaxrl.envs.hanabi.observe import parts, widths
from jaxrl.symmetries import Symmetries

__all__ = ["renamed_colors"]


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
