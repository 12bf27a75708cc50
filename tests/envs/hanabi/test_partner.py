"""IGGI, rule by rule, and its score."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxrl
from jaxrl.envs.hanabi.partner import iggi


def deck_of(env: Any, *cards: str) -> np.ndarray:
    """A deck that begins with these cards, the rest in order: `[cards, 2]`."""
    kinds = ["RYGWB".index(card[0]) * env.game.ranks + int(card[1]) - 1 for card in cards]
    rest = env.game.deck.tolist()
    for kind in kinds:
        rest.remove(kind)
    return np.stack(np.divmod(kinds + rest, env.game.ranks), axis=1)


@functools.partial(jax.jit, static_argnums=0)
def decide(env: Any, key: jax.Array, state: Any) -> jax.Array:
    return iggi(env.game, key, env.observation(state), env.action_mask(state))


def act(env: Any, state: Any, key: int = 0) -> list[int]:
    return decide(env, jax.random.key(key), state).tolist()


def change(state: Any, what: str, place: tuple[int, int], bits: int) -> Any:
    """The state with other bits of what a player has been told about a card."""
    changed = np.array(getattr(state, what))
    changed[place] = bits
    return dataclasses.replace(state, **{what: changed})


@pytest.fixture(scope="module")
def pair() -> Any:
    return jaxrl.make("hanabi/2p")


@pytest.fixture(scope="module")
def start(pair: Any) -> Any:
    return jax.jit(lambda deck: pair.state_from_deck(deck)[1])


@pytest.fixture(scope="module")
def step(pair: Any) -> Any:
    return jax.jit(lambda state, moves: pair.step_env(jax.random.key(0), state, moves, pair.default_params)[1])


def test_each_rule_in_turn(pair, start, step):
    hand0 = ("R3", "B1", "R4", "W1", "W4")
    hand1 = ("Y5", "G1", "R2", "W3", "Y2")
    game = pair.game
    state = start(deck_of(pair, *hand0, *hand1, "Y1"))
    moves = act(pair, state)
    assert moves == [game.first_rank_hint + 0, game.wait]  # about G1, first its rank
    state = step(state, np.array(moves))
    moves = act(pair, state)
    assert moves == [game.wait, game.hand_size + 1]  # a 1 must fit while there are no fireworks
    state = step(state, np.array(moves))
    assert state.fireworks.tolist() == [0, 0, 1, 0, 0]
    moves = act(pair, state)
    assert moves == [game.first_rank_hint + 1 - 1, game.wait]  # Y1 was drawn: again its rank
    none_left = dataclasses.replace(state, information=np.int32(0))
    assert act(pair, none_left) == [0, game.wait]  # no hint to give: the oldest card
    known = change(none_left, "possible", (0, 3), 1 << 10)  # G1 is played already
    assert act(pair, known) == [3, game.wait]
    either = change(none_left, "possible", (0, 2), 1 << 15 | 1 << 20)
    assert act(pair, either) == [game.hand_size + 2, game.wait]  # W1 or B1: either fits


def test_a_colour_follows_a_rank_and_chance_decides_if_there_is_nothing_to_say(pair, start):
    game = pair.game
    state = start(deck_of(pair, "R3", "B2", "R4", "W4", "W4", "Y5", "G1", "R2", "W3", "Y2"))
    told = change(state, "hinted", (1, 1), 1 << 5)
    assert act(pair, told) == [game.first_color_hint + 2, game.wait]  # G
    idle = start(deck_of(pair, "R3", "B2", "R4", "W4", "W4", "Y5", "G2", "R2", "W3", "Y2"))
    drawn = {act(pair, idle, key)[0] for key in range(30)}
    legal = np.flatnonzero(jax.jit(pair.action_mask)(idle)[0])
    assert drawn == set(legal[legal >= game.first_color_hint].tolist())


def scores(env: Any, games: int) -> np.ndarray:
    """The scores of games of its kind: `[games]`."""

    def move(key: jax.Array, obs: jax.Array, state: Any) -> Any:
        moves = iggi(env.game, jax.random.clone(key), obs, env.action_mask(state))
        return env.step_env(key, state, moves, env.default_params)[:4]  # it draws nothing

    def step(carry: Any, key: jax.Array) -> Any:
        obs, states, over, total = carry
        obs, states, reward, terminated = jax.vmap(move)(jax.random.split(key, games), obs, states)
        return (obs, states, over | terminated, total + jnp.where(over, 0.0, reward[:, 0])), None

    @jax.jit
    def whole(key: jax.Array) -> Any:
        key_start, key_moves = jax.random.split(key)
        carry = (*env.batch_reset(jax.random.split(key_start, games)), jnp.zeros(games, bool), jnp.zeros(games))
        return jax.lax.scan(step, carry, jax.random.split(key_moves, 100))[0][2:]

    over, total = whole(jax.random.key(0))
    assert over.all()
    return np.asarray(total)


def test_it_never_loses_a_life_and_scores(pair):
    found = scores(pair, 64)
    assert found.min() > 8
    assert found.mean() == pytest.approx(17.7, abs=0.8)


@pytest.mark.slow
@pytest.mark.parametrize(("players", "published"), [(2, 17.7), (3, 17.0), (4, 16.3), (5, 15.2)])
def test_scores_of_a_thousand_games(players, published):
    """The numbers of docs/hanabi.md."""
    assert scores(jaxrl.make(f"hanabi/{players}p"), 1000).mean() == pytest.approx(published, abs=0.25)
