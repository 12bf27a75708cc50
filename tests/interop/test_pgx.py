"""Games of pgx as ours, against pgx itself."""

import warnings
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxrl

pytest.importorskip("pgx")
import pgx

from jaxrl.algos import ippo, self_play
from jaxrl.interop import from_pgx
from jaxrl.wrappers import FixedPolicies, random_policy

key = jax.random.key


@pytest.fixture(scope="module")
def game() -> Any:
    """Tic-tac-toe, ours and pgx's, with compiled functions."""
    ours, theirs = jaxrl.make("pgx:tic_tac_toe"), pgx.make("tic_tac_toe")
    return ours, jax.jit(ours.reset), jax.jit(ours.step_env), jax.jit(theirs.init), jax.jit(theirs.step), theirs


def some_legal(state: Any, salt: int) -> int:
    """A legal move of pgx's state."""
    return int(np.random.default_rng(salt).choice(np.flatnonzero(state.legal_action_mask)))


def test_a_game_is_pgxs_own_seen_from_both_sides(game):
    ours, reset, step, init, their_step, theirs = game
    obs, state = reset(key(0))
    expected, over, turn, reward = init(key(0)), False, 0, jnp.zeros(2)
    while not over:
        turn += 1
        mover, move = int(expected.current_player), some_legal(expected, turn)
        np.testing.assert_array_equal(obs[mover], expected.observation)
        with warnings.catch_warnings(action="ignore"):
            np.testing.assert_array_equal(obs[1 - mover], theirs.observe(expected, 1 - mover))
        mask = ours.action_mask(state)
        np.testing.assert_array_equal(mask[mover], [*expected.legal_action_mask, False])
        assert mask[1 - mover].tolist() == [False] * 9 + [True]
        action = jnp.full(2, 9).at[mover].set(move)
        obs, state, reward, terminated, truncated, info = step(key(turn), state, action, None)
        expected = their_step(expected, move, key(turn))
        over = bool(expected.terminated)
        assert (bool(terminated), bool(truncated), bool(info["illegal_move"])) == (over, False, False)
        assert reward.tolist() == expected.rewards.tolist()
    assert sorted(reward.tolist()) in ([-1, 1], [0, 0])
    assert (ours.agents, ours.teams, ours.roles) == (("player_0", "player_1"), (0, 1), (0, 0))


@pytest.mark.parametrize("bad", ["taken", "wait"])
def test_an_illegal_move_ends_the_game(game, bad):
    _, reset, step, *_ = game
    _, state = reset(key(1))
    mover = int(state.current_player)
    if bad == "taken":
        _, state, *_ = step(key(2), state, jnp.full(2, 4), None)
        mover = 1 - mover
    move = 4 if bad == "taken" else 9
    _, _, reward, terminated, truncated, info = step(key(3), state, jnp.full(2, move), None)
    assert (bool(terminated), bool(truncated), bool(info["illegal_move"])) == (True, False, True)
    assert (float(reward[mover]), float(reward[1 - mover])) == (-1, 1)


def test_either_player_begins(game):
    _, reset, *_ = game
    assert {int(reset(key(seed))[1].current_player) for seed in range(10)} == {0, 1}


def test_only_the_clock_of_freeway_truncates():
    env = jaxrl.make("pgx:minatar-freeway")
    assert env.observation_space().shape == (10, 10, 7)
    obs, state = jax.jit(env.reset)(key(0))
    step, flags, reward = jax.jit(env.step_env), [], jnp.zeros(2)
    state = state.replace(_terminate_timer=jnp.int32(1))
    for t in range(2):
        obs, state, reward, terminated, truncated, _ = step(key(t + 1), state, jnp.int32(0), None)
        flags.append((bool(terminated), bool(truncated)))
    assert flags == [(False, False), (False, True)]
    assert (obs.dtype, jnp.shape(reward)) == (jnp.bool_, ())


def test_names_and_options():
    with pytest.raises(jaxrl.errors.UnknownNameError, match=r"pgx has no game 'tictactoe'. Did you mean tic_tac_toe"):
        jaxrl.make("pgx:tictactoe")
    with pytest.raises(jaxrl.errors.UnknownNameError, match=r"from_pgx.*BridgeBidding"):
        jaxrl.make("pgx:bridge_bidding")
    with pytest.raises(TypeError, match=r"pgx:tic_tac_toe has no option 'size'. It has none"):
        jaxrl.make("pgx:tic_tac_toe?size=4")
    with pytest.raises(TypeError, match="pgx cannot make hex of these options"):
        jaxrl.make("pgx:hex?size=4")
    with pytest.raises(ValueError, match="sticky_action_prob must be"):
        jaxrl.make("pgx:minatar-breakout?sticky_action_prob=often")
    for given in ("tic_tac_toe", jaxrl.make("pgx:kuhn_poker")):
        with pytest.raises(TypeError, match=r"as in from_pgx\(pgx.make\(id\)\)"):
            from_pgx(given)
    assert jaxrl.make("pgx:minatar-breakout?use_minimal_action_set=false").action_space().n == 6
    env = jaxrl.make("pgx:go_9x9", komi=5.5)
    assert (env.env._game.komi, env.name, env.action_space().n) == (5.5, "pgx:go_9x9", 83)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["connect_four", "kuhn_poker", "2048", "minatar-space_invaders", "sparrow_mahjong"])
def test_games_keep_our_contract(name):
    jaxrl.check_env(jaxrl.make(f"pgx:{name}"))


@pytest.mark.slow
def test_ippo_learns_tic_tac_toe_against_a_random_player():
    env = FixedPolicies(jaxrl.make("pgx:tic_tac_toe"), {"player_1": random_policy})
    config = ippo.Config(env=env, total_timesteps=400_000, num_envs=64, num_steps=32, gamma=1.0, lr=1e-3)
    _, metrics = jax.jit(ippo.make_train(config))(jax.random.key(0))
    mean = metrics["return_sum"][-10:].sum() / metrics["episodes"][-10:].sum()
    assert mean > 0.8  # random play gets 0, perfect play about 0.93


@pytest.mark.slow
def test_self_play_learns_tic_tac_toe():
    config = self_play.Config(env="pgx:tic_tac_toe", total_timesteps=150_000, num_envs=64, num_steps=32, gamma=1.0)
    _, metrics = jax.jit(self_play.make_train(config))(jax.random.key(0))
    assert metrics["losses"]["score_against_past"][-10:].mean() > 0.5
