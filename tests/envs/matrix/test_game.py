"""Matrix games: payoffs, bounds, pictures."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxrl
from jaxrl.envs.matrix import GAMES, MatrixGame
from jaxrl.errors import UnknownNameError
from jaxrl.report.arena import equilibrium


@pytest.mark.parametrize("game", GAMES)
def test_each_pair_of_actions_has_its_payoff_and_ends_the_game(game: str):
    env = jaxrl.make(f"matrix/{game}")
    table = np.array(GAMES[game])
    actions = jnp.array([(i, j) for i in range(3) for j in range(3)])
    keys = jax.random.split(jax.random.key(0), 9)
    _, state = jax.vmap(lambda key: env.reset(key))(keys)
    _, after, reward, terminated, truncated, _ = jax.vmap(lambda s, a: env.step_env(keys[0], s, a, env.default_params))(
        state, actions
    )
    np.testing.assert_array_equal(reward[:, 0], table.reshape(-1))
    np.testing.assert_array_equal(reward.sum(-1), 0)
    np.testing.assert_array_equal(after.played, actions)
    assert terminated.all()
    assert not truncated.any()
    assert "rock" in str(env.draw(after).shapes[2])


def test_the_equilibria_are_what_the_comments_say():
    for game, weights in (("rock_paper_scissors", (1 / 3, 1 / 3, 1 / 3)), ("dear_scissors", (1 / 2, 1 / 4, 1 / 4))):
        np.testing.assert_allclose(equilibrium(np.array(GAMES[game]) / 4 + 0.5), weights, atol=1e-6)


def test_a_table_of_your_own():
    env = MatrixGame(payoff=[[1, -1], [-1, 1]])
    assert env.action_space().n == 2
    payoff = jax.tree.map(lambda table: 2 * table, env.default_params)
    _, state = env.reset(jax.random.key(0))
    assert env.step(jax.random.key(1), state, jnp.array([0, 0]), payoff)[2].tolist() == [2, -2]
    with pytest.raises(ValueError, match="square table of finite numbers"):
        MatrixGame(payoff=[[1, 2, 3]])
    with pytest.raises(ValueError, match="a table of finite numbers"):
        jaxrl.make("matrix?payoff=high")
    with pytest.raises(UnknownNameError, match="Did you mean rock_paper_scissors"):
        MatrixGame("rock_paper_scissor")
