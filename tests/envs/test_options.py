"""The checks that the options of all families share."""

import numpy as np
import pytest

import jaxrl
from jaxrl.envs.options import part, table, whole


@pytest.mark.parametrize("name", ["classic/cartpole", "memory/position_only_pendulum", "overcooked_v2", "mpe/simple"])
def test_numbers_of_numpy_are_whole_and_truth_is_not(name):
    assert jaxrl.make(name, max_steps=np.int64(7)).default_params.max_steps == 7
    with pytest.raises(ValueError, match="max_steps must be a whole number"):
        jaxrl.make(name, max_steps=True)


@pytest.mark.parametrize("name", ["smax/3m", "classic/acrobot", "overcooked_v2", "minatar/breakout", "jaxnav/random"])
def test_no_clock_runs_longer_than_it_can_count(name):
    with pytest.raises(ValueError, match="max_steps must be a whole number from 1 to 2147483647, got 10000000000"):
        jaxrl.make(name, max_steps=10**10)


@pytest.mark.parametrize("name", ["coin_game", "storm"])
def test_neither_do_rounds(name):
    with pytest.raises(ValueError, match=r"inner_steps \* outer_steps must be a whole number from 1 to 2147483647"):
        jaxrl.make(name, inner_steps=2**16, outer_steps=2**16)


def test_bounds_are_told():
    assert part("share", np.float32(0.5)) == 0.5
    with pytest.raises(ValueError, match="size must be a whole number of at least 2, got 1"):
        whole("size", 1, 2)
    with pytest.raises(ValueError, match="size must be a whole number from 2 to 5, got 1"):
        whole("size", 1, 2, 5)


@pytest.mark.parametrize("name", ["coin_game", "storm", "matrix"])
@pytest.mark.parametrize("payoff", [[[1, 2], [3]], "high", [[1.0, float("nan")], [0.0, 1.0]], [[1e300, 0], [0, 1]]])
def test_payoffs_are_tables_of_numbers(name, payoff):
    with pytest.raises(ValueError, match="payoff must be a table of finite numbers, whose rows are equally long, got"):
        jaxrl.make(name, payoff=payoff)


def test_a_table_is_float32():
    assert table("payoff", [[1, True], [0, 2.5]]).dtype == np.float32
