"""Curves in characters."""

import pytest

from jaxrl.train.live.chart import chart, resample, sparkline


@pytest.mark.quick
def test_a_sparkline_goes_from_the_lowest_to_the_highest_value() -> None:
    assert sparkline([0, 1, 2, 3, 4, 5, 6, 7], 20) == "▁▂▃▄▅▆▇█"
    assert sparkline([-5.0, 5.0], 20) == "▁█"
    assert sparkline([3.0, None, 3.0], 20) == "▄ ▄"


def test_what_is_no_number_is_a_gap() -> None:
    assert sparkline([0.0, None, float("nan"), 1.0], 20) == "▁  █"
    assert sparkline([None, None], 20) == ""
    assert sparkline([], 20) == ""


def test_more_values_than_room_are_averaged() -> None:
    assert resample([1.0, 3.0, 5.0, None, 10.0, 20.0], 3) == [2.0, 5.0, 15.0]
    assert resample([1.0], 3) == [1.0]
    assert len(sparkline(list(range(1000)), 17)) == 17


def test_a_chart_fills_the_area_below_its_curve() -> None:
    assert chart([0.0, 0.5, 1.0], [None] * 3, 3, 2, 0.0, 1.0) == [
        "  █",
        "▁██",
    ]
    assert chart([0.25, None], [None, None], 3, 1, 0.0, 1.0) == ["▂  "]


def test_the_band_above_it_is_shaded() -> None:
    assert chart([0.25, 0.25], [1.0, 0.25], 2, 4, 0.0, 1.0) == ["░ ", "░ ", "░ ", "██"]


def test_without_limits_it_spans_its_values() -> None:
    assert chart([-10.0, -20.0], [-10.0, -20.0], 2, 1) == ["█▁"]
    assert chart([], [], 2, 1) == ["  "]
