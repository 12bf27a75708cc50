"""Move for move the same as the Hanabi learning environment."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import jaxrl
from tests.envs.hanabi.reference import assert_equal, play_theirs, pyhanabi

SHORT = 12  # games of each kind


def at_random(rng: np.random.Generator, state: Any, legal: list[int]) -> int:
    return int(rng.choice(legal))


def by_rules(rng: np.random.Generator, state: Any, legal: list[int]) -> int:
    """A player who looks at its own cards: it plays what fits, else hints or discards, so that games last to the end.

    Now and then it plays anything.
    """
    player, size = state.cur_player(), len(state.player_hands()[state.cur_player()])
    hand = state.player_hands()[player]
    most = legal_hand_size(state)
    fits = [i for i in range(size) if state.card_playable_on_fireworks(hand[i].color(), hand[i].rank())]
    if fits and rng.random() < 0.9:
        return most + int(rng.choice(fits))
    if rng.random() < 0.02:
        return int(rng.choice(legal))
    gentle = [move for move in legal if not most <= move < 2 * most]
    return int(rng.choice(gentle)) if gentle else int(rng.choice(legal))


def legal_hand_size(state: Any) -> int:
    return pyhanabi.lib.HandSize(state._game)


def variants() -> list[tuple[str, dict[str, int]]]:
    return [
        ("hanabi/2p", {"colors": 2, "ranks": 3, "hand_size": 2, "information_tokens": 3, "life_tokens": 1}),
        ("hanabi/3p", {"colors": 3, "ranks": 4, "hand_size": 3, "information_tokens": 5, "life_tokens": 2}),
        ("hanabi/2p", {"colors": 1, "ranks": 5, "hand_size": 3, "information_tokens": 0}),
        ("hanabi/2p", {"colors": 4, "ranks": 1, "hand_size": 5}),
        ("hanabi/5p", {"ranks": 3, "hand_size": 5, "information_tokens": 20, "life_tokens": 17}),
    ]


def check(env: Any, games: int, seed: int = 0) -> None:
    """Random games and games by rules, so many of each."""
    record = play_theirs(env, (at_random, by_rules), games, seed)
    states = assert_equal(env, record)
    ends = np.arange(2 * games), record.lengths
    np.testing.assert_array_equal(record.scores, np.where(states.lives[ends] > 0, states.fireworks[ends].sum(-1), 0))


@pytest.mark.parametrize("players", [2, 4])
def test_some_games(players):
    check(jaxrl.make(f"hanabi/{players}p"), SHORT)


@pytest.mark.slow
@pytest.mark.parametrize("players", [2, 3, 4, 5])
def test_a_thousand_games(players):
    env = jaxrl.make(f"hanabi/{players}p")
    for seed in range(20):
        check(env, 50, 1 + seed)


@pytest.mark.parametrize(
    ("name", "options"), [v if i == 1 else pytest.param(*v, marks=pytest.mark.slow) for i, v in enumerate(variants())]
)
def test_small_variants(name, options):
    check(jaxrl.make(name, **options), SHORT)
