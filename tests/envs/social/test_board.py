"""The coin game and STORM in letters show what the pictures show."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from storm_states import random_state

import jaxrl
from jaxrl.envs.social import storm_rules as rules
from jaxrl.envs.social.coin_game import State

pytestmark = pytest.mark.quick


def test_the_coin_game_in_letters() -> None:
    env = jaxrl.make("coin_game")
    things = jnp.array([[2, 0], [0, 1], [2, 0], [1, 2]])  # row from the bottom, column: red, blue, their coins
    state = State(things, jnp.zeros((2, 2), int), jnp.zeros((), int))
    assert env.board(state).splitlines()[:3] == ["  Rr   .    .", "  .    .    b", "  .    B    ."]


def test_storm_in_letters() -> None:
    env = jaxrl.make("storm/rock_paper_scissors")
    state = jax.device_get(jax.jit(env.reset)(jax.random.key(0))[1])
    state = dataclasses.replace(
        state,
        position=np.array([[3, 0], [7, 2]]),  # x, y
        direction=np.array([1, 3]),
        inventory=np.array([[2, 0, 1], [0, 0, 0]]),
        frozen=np.array([4, 0]),
        kind=np.arange(12) % 3,
        there=np.arange(12) < 4,  # (1, 1), (1, 2), (2, 1), (1, 6)
        beams=np.asarray(rules.board_of(np.array([4 * 8 + 5]))),
    )
    assert env.board(state).splitlines() == [
        "  .  .  .  0> .  .  .  .    agent_0 holds 2 a, 0 b, 1 c, frozen, steps left 4",
        "  .  a  c  .  .  .  .  .",
        "  .  b  .  .  .  .  .  1<   agent_1 holds 0 a, 0 b, 0 c",
        "  .  .  .  .  .  .  .  .",
        "  .  .  .  .  .  .  .  .",
        "  .  .  .  .  *  .  .  .",
        "  .  a  .  .  .  .  .  .",
        "  .  .  .  .  .  .  .  .",
        "  a coin of kind 0, b coin of kind 1, c coin of kind 2, * lit by a zap",
    ]


@pytest.mark.parametrize("direction", range(4))
def test_a_player_of_storm_goes_where_its_sign_points(direction: int) -> None:
    env = jaxrl.make("storm")
    state = random_state(jax.random.key(1), 2, 2)
    still = {"frozen": np.zeros(2, np.int32), "direction": np.full(2, direction), "beams": np.zeros(2, np.uint32)}
    state = dataclasses.replace(state, position=np.array([[3, 3], [7, 7]]), **still)
    actions = np.array([rules.FORWARD, rules.STAY])
    after = jax.jit(env.step_env)(jax.random.key(0), state, actions, env.default_params)[1]
    (row, column, sign), (new_row, new_column, _) = (_place(env.board(each)) for each in (state, after))
    assert {(0, 1): ">", (0, -1): "<", (1, 0): "v", (-1, 0): "^"}[new_row - row, new_column - column] == sign


def _place(board: str) -> tuple[int, int, str]:
    """The row, the column and the sign of player 0."""
    cells = [[row[2 + 3 * column :][:2] for column in range(8)] for row in board.splitlines()[:8]]
    return next((y, x, cell[1]) for y, row in enumerate(cells) for x, cell in enumerate(row) if cell[0] == "0")
