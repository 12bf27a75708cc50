"""The kitchen in letters shows all that the picture shows."""

import dataclasses

import jax
import numpy as np
import pytest

import jaxrl
from jaxrl.envs.overcooked.layout import DISH, ONION, SOUP, TOMATO
from jaxrl.envs.overcooked.rules import DOWN, LEFT, RIGHT, UP

pytestmark = pytest.mark.quick

KITCHEN = """
    XXPPX
    T1 2O
    X3 4X
    XDXSX
"""


def test_a_kitchen_in_letters() -> None:
    env = jaxrl.make("overcooked", layout=KITCHEN)
    state = jax.device_get(jax.jit(env.reset)(jax.random.key(0))[1])
    counters = np.zeros(20, np.int32)
    counters[[0, 1, 14]] = ONION, SOUP + 3, TOMATO
    state = dataclasses.replace(
        state,
        direction=np.array([UP, DOWN, RIGHT, LEFT]),
        held=np.array([DISH, ONION, SOUP + 2 + 4, 0]),
        counters=counters,
        contents=np.array([2 + 4, 3]),
        timer=np.array([-1, 12]),
    )
    assert env.board(state).splitlines() == [
        "  Xo   Xs   Poot P~   X     counter: an onion; counter: a soup of 3 onions; pot: 2 onions and 1 tomato; "
        "pot: 3 onions, steps left 12",
        "  T    0^d  .    1vo  O     agent_0 holds a dish; agent_1 holds an onion",
        "  X    2>s  .    3<   Xt    agent_2 holds a soup of 2 onions and 1 tomato; agent_3 holds nothing; "
        "counter: a tomato",
        "  X    D    X    S    X",
        "  P pot, X counter, O onions, T tomatoes, D dishes, S serving, . floor",
    ]
    done = env.board(dataclasses.replace(state, timer=np.array([-1, 0]))).splitlines()[0]
    assert "P!" in done
    assert done.endswith("pot: 3 onions, done")


@pytest.mark.parametrize("name", ["cramped_room", "asymm_advantages", "counter_circuit"])
def test_every_cell_has_the_character_of_its_layout(name: str) -> None:
    env = jaxrl.make(f"overcooked/{name}")
    layout = env.layout
    rows = env.board(jax.jit(env.reset)(jax.random.key(0))[1]).splitlines()[: layout.height]
    signs = [row[2 + 5 * column] for row in rows for column in range(layout.width)]
    wanted = np.where(layout.tiles == " ", ".", layout.tiles)
    wanted[layout.starts] = np.arange(len(layout.starts)).astype(str)
    assert signs == wanted.tolist()
