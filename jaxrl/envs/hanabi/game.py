"""The sizes of a game of Hanabi: how many players, cards, tokens and moves."""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Iterable

import numpy as np

from jaxrl.envs.options import whole

__all__ = ["COLORS", "COLOR_NAMES", "Game"]

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
        """How many cards there are of each rank, in each colour."""
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
