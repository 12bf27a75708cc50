"""The dashboard, as text: what it says, and that it fits with 1, 8 and 64 members and in any terminal."""

from __future__ import annotations

import io
import math
from typing import Any

import pytest
from rich.cells import cell_len
from rich.console import Console

from jaxrl.train.live.dashboard import chart, draw, resample, sparkline
from jaxrl.train.live.view import RunView

LOSSES = ("total", "policy", "value", "entropy", "approx_kl", "clip_fraction", "grad_norm")


def view_of(members: int, rows: int = 60, win_rate: bool = True) -> RunView:
    """A run that is at 60 of 100 rows."""
    view = RunView("ippo on smax/3m [beta]", 1_000_000, "2 x cpu", phase="training", since=1000.0)
    view.spent = {"compiling": 15.0, "training": 70.0, "evaluating": 10.0, "saving": 5.0}
    view.memory = {"host": 700 * 2**20, "device": 3 * 2**30, "device_limit": 80 * 2**30}
    for i in range(1, rows + 1):

        def of(value: float) -> Any:
            return value if members == 1 else [value * (1 + m / 64) for m in range(members)]

        means = {"return_mean": of(1e5 * i), "length_mean": of(20.0)}
        if win_rate:
            means["win_rate"] = of(i / 200)
        episodes = 5 if members == 1 else [5] * members
        losses = {name: of(math.exp(-i) if name == "value" else -0.5) for name in LOSSES}
        view.add_row({"timesteps": 10_000 * i, "seconds": i / 10, "episodes": episodes, **means, "losses": losses})
    view.evaluation = {"timesteps": 500_000, "return_mean": view.row["return_mean"] if view.row else 0.0}
    view.message = "Something that everybody who looks at this screen should have read by now. " * 3
    return view


def text_of(view: RunView, width: int, now: float = 1000.0) -> list[str]:
    console = Console(width=width, file=io.StringIO(), force_terminal=False)
    console.print(draw(view, width, now))
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue().splitlines()


@pytest.mark.parametrize("members", [1, 8, 64])
@pytest.mark.parametrize("width", [60, 80, 120])
def test_it_fits(members: int, width: int) -> None:
    """Every line is as wide as the frame, so nothing wraps; an 80 x 24 terminal shows all of it."""
    lines = text_of(view_of(members), width)
    assert {cell_len(line) for line in lines} == {width}
    assert len(lines) <= 23
    assert lines[0].startswith("╭─ ippo on smax/3m [beta] ─")
    assert lines[-1].startswith("╰─ training ─")


@pytest.mark.quick
def test_it_says_how_the_run_goes() -> None:
    text = "\n".join(text_of(view_of(1), 80))
    for word in (
        "win rate 0.30",
        "600,000 of 1,000,000",
        "100,000",
        "60%  ETA 0:04",
        "return    6000000.00",
        "8.8e-27",
    ):
        assert word in text
    for word in ("training 70%", "compiling 15%", "evaluating 10%", "saving 5%"):
        assert word in text
    assert "2 x cpu  ·  host memory 734 MB  ·  device memory 3.22 GB of 85.9 GB" in text
    assert "greedy evaluation after 500,000 steps" in text
    assert "losses" not in text
    assert "total" not in text


def test_training_is_divided_where_its_parts_were_measured() -> None:
    view = view_of(1)
    view.rollout = 0.3
    text = "\n".join(text_of(view, 80))
    assert "optimisation 49%" in text
    assert "rollout 21%" in text
    assert "■ training" not in text


def test_members_are_shown_by_their_mean_and_range() -> None:
    lines = text_of(view_of(8), 80)
    assert "win rate 0.32  0.30 to 0.33  mean and range of 8" in lines[1]
    assert any("░" in line for line in text_of(view_of(64), 80))
    assert not any("░" in line for line in text_of(view_of(1), 80))


def test_without_a_win_rate_the_return_is_drawn() -> None:
    lines = text_of(view_of(1, win_rate=False), 80)
    assert "return 6000000.00" in lines[1]


def test_a_constant_curve_is_a_line_half_way_up() -> None:
    view = RunView("ppo on CartPole-v1", 1_000_000, phase="training", since=1000.0)
    for i in range(1, 30):
        means = {"return_mean": 500.0, "length_mean": 500.0}
        view.add_row({"timesteps": i, "seconds": float(i), "episodes": 5, **means, "losses": {"policy": 0.0}})
    top, *rows = (line.split("│")[2].strip() for line in text_of(view, 80)[2:7])
    assert text_of(view, 80)[2].split("│")[1].strip() == "550.00"
    assert text_of(view, 80)[6].split("│")[1].strip() == "450.00"
    assert top == ""
    assert set(rows[1]) <= set("▃▄▅")
    assert set(rows[-1]) == {"█"}


@pytest.mark.parametrize("members", [1, 8])
def test_sixty_columns_show_whole_numbers(members: int) -> None:
    """A number that does not fit is told shorter, and nothing touches its neighbour."""
    view = view_of(members)
    view.total = 10**8
    lines = text_of(view, 60)
    for start in ("steps ", "steps/s", "return", "length", "episodes"):
        line = next(line for line in lines[7:] if line.startswith(f"│ {start}"))
        assert "…" not in line
        assert line[33] == " "
    assert any("600k of 100M" in line for line in lines)
    assert not any("▁" in line for line in lines[8:14])  # there is no room for curves of losses


def test_before_the_first_row_it_says_what_it_waits_for() -> None:
    view = RunView("ppo on classic/cartpole", 1000, phase="compiling", since=1000.0)
    lines = text_of(view, 80, now=1012.0)
    assert lines[-1].startswith("╰─ compiling 0:12 ─")
    assert "0%  ETA –" in lines[1]
    assert "compiling 100%" in "\n".join(lines)


def test_colours_are_used_where_there_are_any() -> None:
    console = Console(width=80, file=io.StringIO(), force_terminal=True, color_system="truecolor", record=True)
    console.print(draw(view_of(8), 80, 1000.0))
    assert "<svg" in console.export_svg(title="jaxrl")
    view = view_of(1)
    view.enter("finished", 1000.0)
    assert draw(view, 80, 1000.0).border_style == "green"
    view.enter("diverged", 1000.0)
    assert draw(view, 80, 1000.0).border_style == "yellow"


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
