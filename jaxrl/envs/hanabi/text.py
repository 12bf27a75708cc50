"""A game as text, to read or to play from in a terminal."""

from __future__ import annotations

import jax
import numpy as np

from jaxrl.envs.hanabi.game import COLORS, Game
from jaxrl.envs.hanabi.rules import State

__all__ = ["describe", "last_move", "may_be", "points", "told"]


def describe(game: Game, state: State, viewer: int | None = None, *, lost_share: float) -> str:
    """The board, the last move, and each hand with what its owner has been told, some lines of text.

    Args:
        game: The sizes.
        state: One state.
        viewer: The player whose own cards are hidden; None shows all.
        lost_share: The share of the points that is lost with the last life.
    """
    state = jax.tree.map(np.asarray, state)
    piles = " ".join(f"{COLORS[color]}{rank}" for color, rank in enumerate(state.fireworks.tolist()))
    gone = [game.card(kind) for kind, count in enumerate(state.discards.ravel().tolist()) for _ in range(count)]
    left, player = game.cards - int(state.drawn), int(state.step) % game.players
    lines = [
        f"score {points(state, lost_share):g}, {int(state.information)} information, {int(state.lives)} lives, "
        f"{left} cards to draw, player {player} to move",
        f"fireworks  {piles}",
        f"discarded  {' '.join(gone) or 'none'}",
        f"last move  {last_move(game, state)}",
    ]
    for owner, hand in enumerate(state.hands.tolist()):
        rows = {
            f"player {owner}": ["??" if owner == viewer else game.card(kind) for kind in hand if kind >= 0],
            "  told": [told(game, int(bits)) for bits in state.hinted[owner]],
            "  may be": [may_be(game, int(bits)) for bits in state.possible[owner]],
        }
        lines += [f"{label:11}{''.join(f'{cell:14}' for cell in cells)}".rstrip() for label, cells in rows.items()]
    return "\n".join(lines)


def points(states: State, lost_share: float) -> np.ndarray:
    """What the team has, of which a share is lost with the last life: float `[…]` from states `[…]`."""
    return np.asarray(states.fireworks).sum(-1) * (1 - lost_share * (np.asarray(states.lives) <= 0))


def last_move(game: Game, state: State) -> str:
    """What the last move was and what came of it."""
    if state.step == 0:
        return "none"
    mover, action = (int(state.step) - 1) % game.players, int(state.last.action)
    card = f", {game.card(int(state.last.card))}" if state.last.card >= 0 else ""
    misplayed = action >= game.hand_size and card and not state.last.scored
    return f"player {mover} {game.move(action, mover)}{card}{': it does not fit' if misplayed else ''}"


def told(game: Game, hinted: int) -> str:
    """What a card's owner has been told it is, such as `R?`; `hinted` is that of the state."""
    color = next((COLORS[c] for c in range(game.colors) if hinted >> c & 1), "?")
    rank = next((str(r + 1) for r in range(game.ranks) if hinted >> (game.colors + r) & 1), "?")
    return color + rank


def may_be(game: Game, possible: int) -> str:
    """The colours and ranks that a card can have, such as `RYB 123`; `possible` is that of the state."""
    kinds = [divmod(kind, game.ranks) for kind in range(game.kinds) if possible >> kind & 1]
    colors, ranks = ({kind[i] for kind in kinds} for i in (0, 1))
    return f"{''.join(COLORS[c] for c in sorted(colors))} {''.join(str(r + 1) for r in sorted(ranks))}".strip()
