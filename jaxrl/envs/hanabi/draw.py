"""A game as pictures and as text.

Fireworks, tokens and discards are at the top, and below them each hand with what its owner knows. The text is to read
or to play from in a terminal.
"""

from __future__ import annotations

from typing import Any

import jax
import numpy as np

from jaxrl.envs.hanabi.rules import COLORS, Game, State
from jaxrl.render.scene import Caption, Circle, Rect, Scene, Shape, Text, Tip

__all__ = ["describe", "draw", "last_move", "may_be", "points", "told"]

_COLORS = ("#e5534b", "#e9c63b", "#57ab5a", "#e6edf7", "#4da3ff")
_AROUND, _TABLE, _SLOT, _INK, _PALE, _BRIGHT = "#0f141d", "#151c28", "#232d3d", "#10151e", "#8a97ab", "#ffffff"
_WIDTH, _BOARD, _ROW = 15.0, 4.0, 3.0  # of the picture; of the board above the hands; of each hand
_FADED = 0.1  # what a card cannot be


def draw(game: Game, name: str, states: State, lost_share: float) -> Scene:
    """The episode `states` (NumPy leaves `[F, …]`) as a scene; the last life costs a `lost_share` of the points."""
    states = jax.tree.map(np.asarray, states)
    frames = len(states.step)
    height = _BOARD + _ROW * game.players
    top = height - 0.3
    shapes = [Rect(x=0.0, y=0.0, width=_WIDTH, height=height, fill=_TABLE)]
    shapes += [*_fireworks(game, states, top), *_tokens(game, states, top), *_discards(game, states, top)]
    for player in range(game.players):
        shapes += _hand(game, states, player, height - _BOARD - _ROW * player)
    steps = [jax.tree.map(lambda leaf, frame=frame: leaf[frame], states) for frame in range(frames)]
    captions = (
        Caption(name),
        Caption(np.array([last_move(game, state) if state.step else "" for state in steps])),
        Caption(np.array([f"score {score:g}" for score in points(states, lost_share).tolist()])),
    )
    return Scene(frames, (0.0, 0.0, _WIDTH, height), tuple(shapes), captions, _AROUND, step_seconds=0.8)


def _card(x: float, y: float, size: float, fill: Any, text: Any, alpha: Any, tip: Tip | None = None) -> list[Shape]:
    """A card with its upper left corner at a place."""
    width, height = 0.75 * size, size
    face = Rect(x=x, y=y - height, width=width, height=height, fill=fill, alpha=alpha, corner=0.12 * size, tip=tip)
    number = Text(x=x + width / 2, y=y - height / 2, text=text, size=0.55 * size, fill=_INK, alpha=alpha)
    return [face, number]


def _fireworks(game: Game, states: State, top: float) -> list[Shape]:
    """The highest card of each colour."""
    shapes: list[Shape] = [Text(x=0.4, y=top - 0.1, text="fireworks", size=0.36, fill=_PALE, align="left")]
    for color in range(game.colors):
        rank, x = states.fireworks[:, color], 0.4 + 1.3 * color
        shapes.append(Rect(x=x, y=top - 2.0, width=1.125, height=1.5, fill=_SLOT, corner=0.18))
        shapes += _card(x, top - 0.5, 1.5, _COLORS[color], rank.astype(str), (rank > 0).astype(float))
    return shapes


def _tokens(game: Game, states: State, top: float) -> list[Shape]:
    """Information, lives, and the cards left to draw."""
    shapes: list[Shape] = []
    rows = (
        ("information", states.information, game.information_tokens, _COLORS[4]),
        ("lives", states.lives, game.life_tokens, _COLORS[0]),
    )
    for row, (label, left, count, fill) in enumerate(rows):
        y = top - 2.45 - 0.55 * row
        shapes.append(Text(x=0.4, y=y, text=label, size=0.36, fill=_PALE, align="left"))
        for token in range(count):
            x = 2.6 + min(0.42, 3.6 / count) * token
            shapes.append(Circle(x=x, y=y, radius=0.15, fill=_SLOT))
            shapes.append(Circle(x=x, y=y, radius=0.15, fill=fill, alpha=(left > token).astype(float)))
    deck = np.array([f"{cards} cards to draw" for cards in (game.cards - states.drawn).tolist()])
    return [*shapes, Text(x=_WIDTH - 0.4, y=top - 0.1, text=deck, size=0.36, fill=_PALE, align="right")]


def _discards(game: Game, states: State, top: float) -> list[Shape]:
    """A place for each card that can be discarded; it fills up as they are."""
    shapes: list[Shape] = [Text(x=7.4, y=top - 0.1, text="discarded", size=0.36, fill=_PALE, align="left")]
    ranks = [(rank, copy) for rank, copies in enumerate(game.copies) for copy in range(copies)]
    for color in range(game.colors):
        for place, (rank, copy) in enumerate(ranks):
            x, y = 7.4 + 0.72 * place, top - 0.45 - 0.62 * color
            gone = (states.discards[:, color, rank] > copy).astype(float)
            shapes.append(Text(x=x + 0.2, y=y - 0.27, text=str(rank + 1), size=0.3, fill=_SLOT))
            shapes += _card(x, y, 0.54, _COLORS[color], str(rank + 1), gone)
    return shapes


def _hand(game: Game, states: State, player: int, top: float) -> list[Shape]:
    """A player's cards, and under each the colours and ranks that it can have for all the player has been told.

    What has been named is underlined. A white edge is around the cards that the last hint was about.
    """
    turn = states.step % game.players == player
    last = states.last
    target = _told_player(game, states)
    shapes: list[Shape] = [
        Text(x=0.4, y=top - 0.7, text=f"player {player}", size=0.4, fill=np.where(turn, _BRIGHT, _PALE), align="left"),
        Circle(x=0.55, y=top - 1.3, radius=0.12, fill=_BRIGHT, alpha=turn.astype(float)),
    ]
    room = (_WIDTH - 3.0) / game.hand_size
    for card in range(game.hand_size):
        x = 2.8 + room * card
        kind, here = states.hands[:, player, card].astype(int), states.hands[:, player, card] >= 0
        possible, hinted = (np.asarray(bits)[:, player, card] for bits in (states.possible, states.hinted))
        touched = (target == player) & (last.touched >> card & 1 != 0)
        fill = np.array(_COLORS)[np.maximum(kind, 0) // game.ranks]
        number = (np.maximum(kind, 0) % game.ranks + 1).astype(str)
        knows = {
            "told": np.array([told(game, int(bits)) for bits in hinted]),
            "may be": np.array([may_be(game, int(bits)) for bits in possible]),
        }
        edge = {"width": 1.325, "height": 1.7, "corner": 0.24, "fill": _BRIGHT}
        shapes.append(Rect(x=x - 0.1, y=top - 1.8, alpha=touched.astype(float), **edge))
        shapes += _card(x, top - 0.2, 1.5, fill, number, here.astype(float), Tip(f"card {card + 1}", knows))
        shapes += _known(game, possible, hinted, x, top - 2.05, min(0.34, 0.9 * room / 5))
    return shapes


def _known(game: Game, possible: np.ndarray, hinted: np.ndarray, x: float, y: float, pitch: float) -> list[Shape]:
    """Two lines: the colours that a card can have, and the ranks; one that has been named is underlined."""
    kinds = np.arange(game.kinds)
    can = (possible[:, None] >> kinds & 1 != 0).reshape(-1, game.colors, game.ranks)
    shapes: list[Shape] = []

    def mark(first: float, line: float, named: np.ndarray) -> None:
        under = Rect(x=first - 0.12, y=line - 0.24, width=0.24, height=0.05, fill=_BRIGHT, alpha=named.astype(float))
        shapes.append(under)

    for color in range(game.colors):
        shown = np.where(can.any(2)[:, color], 1.0, np.where(possible > 0, _FADED, 0.0))
        shapes.append(Circle(x=x + pitch * color, y=y, radius=0.12, fill=_COLORS[color], alpha=shown))
        mark(x + pitch * color, y, hinted >> color & 1 != 0)
    for rank in range(game.ranks):
        fill = np.where(can.any(1)[:, rank], _BRIGHT, _SLOT)
        here = (possible > 0).astype(float)
        shapes.append(Text(x=x + pitch * rank, y=y - 0.5, text=str(rank + 1), size=0.32, fill=fill, alpha=here))
        mark(x + pitch * rank, y - 0.5, hinted >> (game.colors + rank) & 1 != 0)
    return shapes


def _told_player(game: Game, states: State) -> np.ndarray:
    """Whom the last hint was for, `[F]`, or -1."""
    action = states.last.action
    is_rank = action >= game.first_rank_hint
    ahead = np.where(
        is_rank, (action - game.first_rank_hint) // game.ranks, (action - game.first_color_hint) // game.colors
    )
    return np.where(action >= game.first_color_hint, (states.step + ahead) % game.players, -1)


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
    """The points of the team, of which a share is lost with the last life: float `[…]` from states `[…]`."""
    return np.asarray(states.fireworks).sum(-1) * (1 - lost_share * (np.asarray(states.lives) <= 0))


def last_move(game: Game, state: State) -> str:
    """The last move and what came of it."""
    if state.step == 0:
        return "none"
    mover, action = (int(state.step) - 1) % game.players, int(state.last.action)
    card = f", {game.card(int(state.last.card))}" if state.last.card >= 0 else ""
    misplayed = action >= game.hand_size and card and not state.last.scored
    return f"player {mover} {game.move(action, mover)}{card}{': it does not fit' if misplayed else ''}"


def told(game: Game, hinted: int) -> str:
    """The hints about a card, such as `R?`; `hinted` is that of the state."""
    color = next((COLORS[c] for c in range(game.colors) if hinted >> c & 1), "?")
    rank = next((str(r + 1) for r in range(game.ranks) if hinted >> (game.colors + r) & 1), "?")
    return color + rank


def may_be(game: Game, possible: int) -> str:
    """The colours and ranks that a card can have, such as `RYB 123`; `possible` is that of the state."""
    kinds = [divmod(kind, game.ranks) for kind in range(game.kinds) if possible >> kind & 1]
    colors, ranks = ({kind[i] for kind in kinds} for i in (0, 1))
    return f"{''.join(COLORS[c] for c in sorted(colors))} {''.join(str(r + 1) for r in sorted(ranks))}".strip()
