"""What `jaxrl sweep` takes, and what it says at its end."""

import pytest

from jaxrl.algos import ippo, ppo
from jaxrl.cli.sweep import SweepFlags, read_space, summary


def test_each_environment_is_summed_up_by_what_it_knows() -> None:
    """One has a win rate and the other does not; they are not ranked against each other."""
    keys = ("env", "lr", "win_rate", "return_mean", "diverged")
    rows = [
        ("b/wins", 0.1, 0.25, 9.0, False),
        ("a/earns", 0.1, None, 12.0, False),
        ("b/wins", 0.2, 0.75, 8.0, False),
        ("a/earns", 0.2, None, 15.0, False),
    ]
    head, *lines = summary([dict(zip(keys, row, strict=True)) for row in rows], ["env", "lr"]).splitlines()
    assert "win rate or return" in head
    assert [line.split()[:3] for line in lines] == [
        ["b/wins", "0.2", "0.75"],
        ["b/wins", "0.1", "0.25"],
        ["a/earns", "0.2", "15"],
        ["a/earns", "0.1", "12"],
    ]


def test_several_values_of_a_flag() -> None:
    argv = ["--lr", "1e-4", "1e-3", "--anneal-lr", "true", "False", "--hidden", "8", "8,4"]
    _, _, space = read_space("ppo", ppo, argv, SweepFlags(), "sweep")
    assert space == {"lr": [1e-4, 1e-3], "anneal_lr": [True, False], "hidden": [(8,), (8, 4)]}


def test_a_comma_after_a_single_number_makes_a_list_of_one() -> None:
    _, _, space = read_space("ppo", ppo, ["--hidden", "8,", "16,"], SweepFlags(), "sweep")
    assert space == {"hidden": [(8,), (16,)]}


def test_a_comma_in_a_pattern_separates_nothing() -> None:
    argv = ["--env", "mpe/simple_tag", "--policies", "adversary_[0,1]=A", "--lr", "1e-4", "1e-3"]
    config, _, space = read_space("ippo", ippo, argv, SweepFlags(), "sweep")
    assert config.policies == ("adversary_[0,1]=A",)
    assert list(space) == ["lr"]


@pytest.mark.parametrize("values", [["1e-4,1e-3"], ["1e-4,", "1e-3"], ["[1e-4,1e-3]"]])
def test_numbers_with_commas_are_told_how_to_be_typed(values: list[str]) -> None:
    with pytest.raises(ValueError, match="--lr takes values with spaces in between: --lr 1e-4 1e-3"):
        read_space("ppo", ppo, ["--lr", *values], SweepFlags(), "sweep")
