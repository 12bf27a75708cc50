"""The second version's kitchen in letters shows all that the picture shows."""

import dataclasses

import jax
import numpy as np
import pytest

import jaxrl
from jaxrl.envs.overcooked_v2.layout import COOKED, PLATE, ingredient, recipe

pytestmark = pytest.mark.quick


def test_a_kitchen_in_letters() -> None:
    env = jaxrl.make("overcooked_v2", layout="WPPRW|0A AX|1A  B|WWLWP")
    state = jax.device_get(jax.jit(env.reset)(jax.random.key(0))[1])
    items, timer = np.zeros(20, np.int32), np.zeros(20, np.int32)
    items[[1, 2, 19]] = recipe([1, 1, 0]), recipe([0, 0, 1]), recipe([1, 1, 1]) | COOKED
    items[[0, 4]] = PLATE, ingredient(1)
    timer[2] = 7
    state = dataclasses.replace(
        state,
        direction=np.array([0, 1, 2]),
        held=np.array([PLATE, ingredient(1), PLATE | COOKED | recipe([0, 0, 1])]),
        items=items,
        timer=timer,
        recipe=np.int32(recipe([0, 1, 1])),
    )
    rows = env.board(state).splitlines()
    assert rows == [
        "  Wb   P011 P~   R011 W1    counter: a plate; pot: 0, 1, 1; pot: 0, 0, 1, steps left 7; "
        "recipe indicator: 0, 1, 1; counter: ingredient 1",
        "  0    0^b  .    1v1  X     agent_0 holds a plate; agent_1 holds ingredient 1",
        "  1    2>s  .    .    B     agent_2 holds a soup of 0, 0, 1",
        "  W    W    L    W    P!    pot: 1, 1, 1, done",
        "  W counter, X serving, P pot, R recipe indicator, L recipe button, B dishes, . floor, 0 ingredient 0, "
        "1 ingredient 1",
    ]
    timer[17] = 3  # the button shows the recipe
    assert "L011" in env.board(dataclasses.replace(state, timer=timer)).splitlines()[3]
