"""Games of the Hanabi learning environment, recorded, and the same games replayed here."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

pyhanabi = pytest.importorskip("hanabi_learning_environment.pyhanabi")

LONGEST = 100
"""More moves than any game here has; all records have this length, so that one compiled program replays them."""
Policy = Callable[[np.random.Generator, Any, list[int]], int]
"""A choice among the legal moves of a state of theirs."""


@dataclasses.dataclass
class Record:
    """G games of theirs, T = LONGEST moves each; what is after a game's end is zero."""

    deck: np.ndarray  # [G, cards, 2]
    actions: np.ndarray  # [G, T]
    seen: np.ndarray  # bool [G, T + 1, N, D]
    legal: np.ndarray  # bool [G, T + 1, A - 1], of the player whose turn it is
    rewards: np.ndarray  # [G, T]
    lengths: np.ndarray  # [G], moves
    scores: np.ndarray  # [G]


class Theirs:
    """Their game of the same sizes."""

    def __init__(self, env: Any, seed: int) -> None:
        game = env.game
        self.sizes = game
        self.game = pyhanabi.HanabiGame(
            {
                "players": game.players,
                "colors": game.colors,
                "ranks": game.ranks,
                "hand_size": game.hand_size,
                "max_information_tokens": game.information_tokens,
                "max_life_tokens": game.life_tokens,
                "observation_type": 1,
                "random_start_player": False,
                "seed": seed,
            }
        )
        self.encoder = pyhanabi.ObservationEncoder(self.game, pyhanabi.ObservationEncoderType.CANONICAL)

    def observations(self, state: Any) -> np.ndarray:
        """Bool `[N, D]`."""
        views = [state.observation(player) for player in range(self.sizes.players)]
        return np.array([self.encoder.encode(view) for view in views], bool)

    def legal(self, state: Any) -> list[int]:
        return [self.game.get_move_uid(move) for move in state.legal_moves()]

    def deck(self, state: Any) -> np.ndarray:
        """The cards in the order dealt, and then those never dealt, in any order: `[cards, 2]`."""
        moves = [item.move() for item in state.move_history()]
        dealt = [(m.color(), m.rank()) for m in moves if m.type() == pyhanabi.HanabiMoveType.DEAL]
        rest = [divmod(kind, self.sizes.ranks) for kind in self.sizes.deck.tolist()]
        for card in dealt:
            rest.remove(card)
        return np.array(dealt + rest, np.int32)


def deal(state: Any) -> None:
    while state.cur_player() == pyhanabi.CHANCE_PLAYER_ID:
        state.deal_random_card()


def play_theirs(env: Any, policies: Sequence[Policy], games: int, seed: int) -> Record:
    """So many games of theirs under each policy."""
    theirs, rng = Theirs(env, seed + 1), np.random.default_rng(seed)
    played = [_one_game(theirs, policy, rng) for policy in policies for _ in range(games)]
    games = len(played)
    legal = np.zeros((games, LONGEST + 1, env.game.wait), bool)
    seen = np.zeros((games, LONGEST + 1, *played[0][2][0].shape), bool)
    actions, rewards = np.zeros((games, LONGEST), np.int32), np.zeros((games, LONGEST), np.float32)
    for g, (_, moves, views, legals, scores) in enumerate(played):
        actions[g, : len(moves)] = moves
        seen[g, : len(views)] = views
        rewards[g, : len(moves)] = np.diff(scores)
        for t, options in enumerate(legals):
            legal[g, t, options] = True
    lengths = np.array([len(game[1]) for game in played])
    return Record(
        np.stack([g[0] for g in played]), actions, seen, legal, rewards, lengths, np.array([g[4][-1] for g in played])
    )


def _one_game(theirs: Theirs, policy: Policy, rng: np.random.Generator) -> tuple[Any, ...]:
    state = theirs.game.new_initial_state()
    deal(state)
    moves, views, legals, scores = [], [theirs.observations(state)], [], [state.score()]
    while not state.is_terminal():
        legals.append(theirs.legal(state))
        moves.append(policy(rng, state, legals[-1]))
        state.apply_move(theirs.game.get_move(moves[-1]))
        deal(state)
        views.append(theirs.observations(state))
        scores.append(state.score())
    return theirs.deck(state), moves, views, legals, scores


@functools.partial(jax.jit, static_argnums=0)
def replay(env: Any, decks: jax.Array, actions: jax.Array) -> Any:
    """Our games with the decks `[G, cards, 2]` and moves `[G, T]`.

    Returns states, masks and observations `[G, T + 1, …]`, then what the steps return, `[G, T, …]`.
    """
    return jax.vmap(functools.partial(_replay_one, env))(decks, actions)


def _replay_one(env: Any, deck: jax.Array, actions: jax.Array) -> Any:
    first = env.state_from_deck(deck)
    key = jax.random.key(0)  # never used: only starts draw

    def step(state: Any, action: jax.Array) -> Any:
        turn = jnp.arange(env.num_agents) == state.step % env.num_agents
        everyone = jnp.where(turn, action, env.game.wait)
        obs, state, reward, terminated, truncated, _ = env.step_env(key, state, everyone, env.default_params)
        return state, ((obs, state), reward, terminated, truncated)

    _, (after, *returned) = jax.lax.scan(step, first[1], actions)
    seen, states = jax.tree.map(lambda a, b: jnp.concatenate([a[None], b]), first, after)
    return states, jax.vmap(env.action_mask)(states), seen, *returned


def assert_equal(env: Any, record: Record) -> Any:
    """Replay the games here and assert that all is the same; returns our states, NumPy leaves `[G, T + 1, …]`."""
    ours = replay(env, record.deck, record.actions)
    states, masks, seen, reward, terminated, truncated = jax.tree.map(np.asarray, ours)
    assert not truncated.any()
    for g, length in enumerate(record.lengths):
        np.testing.assert_array_equal(seen[g, : length + 1], record.seen[g, : length + 1], err_msg=f"game {g}")
        for player in range(env.num_agents):
            np.testing.assert_array_equal(reward[g, :length, player], record.rewards[g, :length])
        assert terminated[g, :length].tolist() == [False] * (length - 1) + [True]
        turn = np.arange(length) % env.num_agents
        mine = masks[g, np.arange(length), turn]
        np.testing.assert_array_equal(mine[:, :-1], record.legal[g, :length])
        assert not mine[:, -1].any()
        others = masks[g, :length][np.arange(env.num_agents) != turn[:, None]]
        assert (others[:, -1] & ~others[:, :-1].any(axis=1)).all()
    return states
