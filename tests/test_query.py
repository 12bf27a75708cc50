"""Options as text behind an environment's name."""

import numpy as np
import pytest

import jaxrl
from jaxrl import query


def test_query_values_are_numbers_booleans_or_text():
    assert query.parse_options("a=1&b=2.5&c=true&d=False&e=closest") == {
        "a": 1,
        "b": 2.5,
        "c": True,
        "d": False,
        "e": "closest",
    }


def test_lists_are_written_as_in_json():
    assert query.parse_options('a=[[1,-1],[0.5,2]]&b=["x"]&c=[1,') == {"a": [[1, -1], [0.5, 2]], "b": ["x"], "c": "[1,"}
    assert query.spelled("matrix", {"payoff": ((1, -1), (-1, 1))}) == "matrix?payoff=[[1,-1],[-1,1]]"


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("matrix", {"payoff": [[1, -1], [-1, 1]]}),
        ("memory/battleship", {"size": 3, "ships": (2, 2)}),
        ("smax/3m", {"map_size": (40, 20)}),
        ("smax", {"allies": ["marine", "zealot"], "max_steps": 7}),
    ],
)
def test_the_name_of_an_environment_makes_the_same_one(name, options):
    env = jaxrl.make(name, **options)
    again = jaxrl.make(env.made_as)
    assert again.made_as == env.made_as
    assert (again.observation_space(), again.action_space()) == (env.observation_space(), env.action_space())


@pytest.mark.parametrize("value", ["", "a&b=c", None, np.ones(2), [np.ones(2)], ["a&b"]])
def test_what_no_name_can_hold_has_none(value):
    assert query.spelled("env", {"option": value}) == ""
