"""What always holds: cards and tokens are conserved, nobody sees the own hand, the reward is the score."""

from __future__ import annotations

import dataclasses
import re
from typing import Any

import jax
import numpy as np
import pytest

import jaxrl
from jaxrl.envs.hanabi import Hanabi
from jaxrl.envs.hanabi.observe import parts

SIZES = {2: (658, 21), 3: (956, 31), 4: (1041, 39), 5: (1280, 49)}


@pytest.mark.quick
@pytest.mark.parametrize("players", SIZES)
def test_sizes_are_those_of_the_papers(players):
    env = jaxrl.make(f"hanabi/{players}p")
    assert (env.observation_space().shape[0], env.action_space().n) == SIZES[players]
    assert jaxrl.make("hanabi").name == "hanabi/2p"
    assert env.teams == (0,) * players


@pytest.mark.quick
@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"players": 6}, "players must be a whole number from 2 to 5, got 6"),
        ({"colors": 0}, "colors must be"),
        ({"ranks": 2.5}, "ranks must be"),
        ({"life_tokens": 0}, "life_tokens must be"),
        (
            {"players": 5, "colors": 2, "hand_size": 5},
            "5 players with 5 cards each need 25 cards, but 2 colours and 5 ranks make 20",
        ),
    ],
)
def test_options_out_of_range(options, sentence):
    with pytest.raises(ValueError, match=re.escape(sentence)):
        Hanabi(**options)


def test_whole_floats_are_whole_numbers():
    assert jaxrl.make("hanabi/2p?colors=3.0&hand_size=3e0").game == jaxrl.make("hanabi/2p?colors=3&hand_size=3").game


def counted(env: Any, kinds: np.ndarray) -> np.ndarray:
    """How many cards of each kind there are among `[…, n]`, of which -1 is none: `[…, K]`."""
    return (kinds[..., None] == np.arange(env.game.kinds)).sum(-2)


def test_cards_are_conserved(env, games):
    states = games[0]
    in_deck = np.where(np.arange(env.game.cards) >= states.drawn[..., None], states.deck, -1)
    played = np.arange(env.game.ranks) < states.fireworks[..., None]
    held = states.hands.reshape(*states.hands.shape[:2], -1)
    discards = states.discards.reshape(*states.discards.shape[:2], -1)
    total = counted(env, in_deck) + counted(env, held) + played.reshape(discards.shape) + discards
    np.testing.assert_array_equal(total, np.broadcast_to(counted(env, env.game.deck), total.shape))
    assert (states.drawn[:, -1] == env.game.cards).any()  # some games reach the end of the deck


def test_tokens_are_conserved(env, games):
    """Each hint costs one, each discard and completed colour gives one back; each misplay costs a life."""
    states, actions = games[:2]
    turn = (states.step[:, :-1] % env.num_agents)[..., None]
    move = np.take_along_axis(actions, turn, axis=2)[..., 0]
    size = env.game.hand_size
    discards, plays, hints = move < size, (move >= size) & (move < 2 * size), move >= 2 * size
    scored = np.diff(states.fireworks.sum(-1), axis=1)
    completed = np.diff((states.fireworks == env.game.ranks).sum(-1), axis=1)
    full = states.information[:, :-1] == env.game.information_tokens
    np.testing.assert_array_equal(np.diff(states.information, axis=1), discards + completed * ~full - 1 * hints)
    np.testing.assert_array_equal(np.diff(states.lives, axis=1), scored - 1 * plays)
    assert hints.any()
    assert discards.any()


def test_what_is_known_is_true(games):
    """A card can always be what it is, and a missing card nothing."""
    states = games[0]
    held = states.hands >= 0
    kind = np.maximum(states.hands, 0).astype(int)
    assert (states.possible >> kind & 1 == held).all()
    assert (states.possible[~held] == 0).all()
    assert (states.hinted[~held] == 0).all()


def test_rewards_add_up_to_the_score(env, games):
    states, _, reward, over = games
    assert (reward == reward[..., :1]).all()
    played = 0
    for g in range(len(over)):
        if not over[g].any():
            continue
        end = int(np.argmax(over[g]))
        score = states.fireworks[g, end + 1].sum() * (states.lives[g, end + 1] > 0)
        assert reward[g, : end + 1, 0].sum() == score
        played += 1
    assert played >= 8


def test_nobody_sees_the_own_hand(env, games):
    """Other cards in a player's hand change what the others see, not what the player sees."""
    states = jax.tree.map(lambda leaf: leaf[:, 1:40:7], games[0])
    observe = jax.jit(jax.vmap(jax.vmap(env.observation)))
    before = np.asarray(observe(states))
    for player in range(env.num_agents):
        hands = states.hands.copy()
        own = hands[:, :, player]
        hands[:, :, player] = np.where(own >= 0, (own + 7) % env.game.kinds, own)
        deck = states.deck[..., ::-1]  # nor does anybody see the deck
        after = np.asarray(observe(dataclasses.replace(states, hands=hands, deck=deck)))
        same = (before == after).all(-1)
        assert same[..., player].all()
        assert not np.delete(same, player, axis=-1).any()


def test_parts_are_the_observation(env, games):
    state = jax.tree.map(lambda leaf: leaf[3, 25], games[0])
    obs = jax.jit(env.observation)(state)
    seen = jax.tree.map(np.asarray, jax.jit(lambda obs: parts(env.game, obs))(obs))
    for viewer in range(env.num_agents):
        others = [(viewer + ahead) % env.num_agents for ahead in (1, 2)]
        np.testing.assert_array_equal(seen.hands[viewer].argmax(-1), state.hands[np.array(others)])
    np.testing.assert_array_equal(seen.fireworks.sum(-1), np.broadcast_to(state.fireworks > 0, (3, 5)))
    np.testing.assert_array_equal(seen.discards.sum((1, 2)), [state.discards.sum()] * 3)
    np.testing.assert_array_equal(seen.deck.sum(-1), [env.game.cards - state.drawn] * 3)
    np.testing.assert_array_equal(seen.information.sum(-1), [state.information] * 3)
    assert sum(part[0].size for part in seen) == obs.shape[1]


def test_an_illegal_move_is_the_first_legal_one(env):
    """To hint without a token, to discard with all of them, to wait in turn: the oldest card goes."""
    first = jax.jit(env.reset)(jax.random.key(4))[1]
    step, masks = jax.jit(env.step_env), jax.jit(env.action_mask)
    game, key, wait = env.game, jax.random.key(0), env.game.wait
    empty = dataclasses.replace(first, information=np.int32(0))
    for state, move, instead in (
        (first, 2, game.hand_size),  # all tokens are there, so the oldest card is played
        (first, game.wait, game.hand_size),
        (first, 1000, game.hand_size),
        (empty, game.first_color_hint, 0),
        (empty, game.wait, 0),
    ):
        mask = masks(state)[0]
        assert mask.argmax() == instead
        assert not mask[min(move, game.wait)]
        done = step(key, state, np.array([move, wait, wait]), env.default_params)[1]
        wanted = step(key, state, np.array([instead, wait, wait]), env.default_params)[1]
        assert jax.tree.all(jax.tree.map(np.array_equal, done, wanted))


def test_parameters_start_with_fewer_tokens_and_keep_the_points(env):
    params = dataclasses.replace(
        env.default_params, information_tokens=np.int32(2), life_tokens=np.int32(1), lost_share=np.float32(0.0)
    )
    deck = np.stack(np.divmod(env.game.deck, env.game.ranks), axis=1)  # the first player holds R1 R1 R1 R2 R2
    obs, state = jax.jit(env.state_from_deck)(deck, params)
    assert (int(state.information), int(state.lives)) == (2, 1)
    assert jax.jit(lambda obs: parts(env.game, obs).information.sum())(obs) == 2 * 3
    step = jax.jit(env.step_env)
    moves = (env.game.hand_size, env.game.hand_size)  # R1, then the second player's R3, which does not fit
    terminated = False
    for move in moves:
        assert not terminated
        action = np.where(np.arange(3) == int(state.step) % 3, move, env.game.wait)
        _, after, reward, terminated, _, _ = step(jax.random.key(0), state, action, params)
        usual = step(jax.random.key(0), state, action, env.default_params)[2]
        assert reward[0] == (1 if state.step == 0 else 0)
        assert usual[0] == (1 if state.step == 0 else -1)
        state = after
    assert terminated


def test_a_deck_of_another_size_is_refused(env):
    with pytest.raises(ValueError, match=r"shape \(50, 2\), got \(49, 2\)"):
        env.state_from_deck(np.zeros((49, 2), np.int32))


def test_decks_are_drawn_evenly(env):
    """Each card is equally often first, in the middle and last: 2,000 decks."""
    decks = jax.jit(jax.vmap(lambda key: env.reset(key)[1].deck))(jax.random.split(jax.random.key(1), 2000))
    assert (np.sort(decks, axis=1) == env.game.deck).all()
    for place in (0, 25, 49):
        share = counted(env, np.asarray(decks)[:, place]) / 2000
        expected = counted(env, env.game.deck) / env.game.cards
        assert (np.abs(share - expected) < 4.5 * np.sqrt(expected / 2000)).all()


def test_global_state_has_every_hand_and_the_turn(env, games):
    states = jax.tree.map(lambda leaf: leaf[0, :4], games[0])
    view = np.asarray(jax.jit(jax.vmap(env.global_state))(states))
    game = env.game
    hands = view[:, : game.dealt * game.kinds].reshape(4, game.players, game.hand_size, game.kinds)
    np.testing.assert_array_equal(hands.argmax(-1), states.hands)
    np.testing.assert_array_equal(view[:, -3:].argmax(-1), states.step % 3)
