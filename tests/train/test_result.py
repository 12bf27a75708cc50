"""Evaluations as lines of text."""

from jaxrl.train.result import evaluation_lines


def test_each_kind_of_agents_has_a_line():
    played = {"episodes": 4, "return_mean": 1.0, "return_std": 2.0, "length_mean": 25.0}
    played |= {"returns": {"adversary": 3.0, "leadadversary": -4.0}}
    assert evaluation_lines(played) == [
        "  return          1.000",
        "    std           2.000",
        "    adversary     3.000",
        "    leadadversary -4.000",
        "  length          25.0",
    ]


def test_seeds_stand_side_by_side():
    lines = evaluation_lines({"win_rate": [0.5, 1.0], "return_mean": [1.0, 2.0]})
    assert lines == ["  win rate   0.750   seeds 0.500 1.000", "  return     1.500   seeds 1.000 2.000"]


def test_what_is_not_finite_is_a_dash():
    lines = evaluation_lines({"win_rate": [0.5, None, 0.7], "return_mean": [1.0, float("nan"), float("inf")]})
    assert lines == ["  win rate   0.600   seeds 0.500 – 0.700", "  return     1.000   seeds 1.000 – –"]
    assert evaluation_lines({"return_mean": None, "return_std": float("nan")}) == ["  return     –", "    std      –"]


def test_without_an_evaluation_there_is_no_line():
    assert evaluation_lines(None) == []
