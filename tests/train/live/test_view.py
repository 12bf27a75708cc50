"""What is shown of a run, as numbers."""

from typing import Any

import pytest

from jaxrl.train.live.view import Band, RunView, duration, number, returns_text


def row(timesteps: int, seconds: float, value: Any = 0.25) -> dict[str, Any]:
    episodes = [5] * len(value) if isinstance(value, list) else 5
    means = {"return_mean": value, "length_mean": value, "win_rate": value}
    return {"timesteps": timesteps, "seconds": seconds, "episodes": episodes, **means, "losses": {"policy": value}}


@pytest.mark.quick
def test_speed_and_time_left_follow_from_the_rows() -> None:
    view = RunView("t", total=10_000)
    assert view.done == 0.0
    view.add_row(row(1000, 0.5))
    view.add_row(row(2000, 1.0))
    assert (view.speed, view.left, view.done) == (2000.0, 4.0, 0.2)


def test_a_run_that_goes_on_from_another_counts_its_own_steps() -> None:
    """Its rows count all steps, but its seconds begin at 0."""
    view = RunView("t", total=10_000, first=6000)
    assert (view.done, view.speed) == (0.0, 0.0)
    for steps, seconds in ((7000, 0.5), (8000, 1.0), (7000, 0.5)):  # the last one after going back to a checkpoint
        view.add_row(row(steps, seconds))
        assert (view.speed, view.left) == (2000.0, (10_000 - steps) / 2000)
        assert view.done == (steps - 6000) / 4000


def test_rows_before_the_first_step_are_nothing_done() -> None:
    """As in a folder whose `live.json` was damaged."""
    view = RunView("t", total=80, first=2**63)
    view.add_row(row(80, 0.5))
    assert view.done == 0.0


def test_speed_counts_all_members() -> None:
    view = RunView("t", total=10_000)
    view.add_row(row(1000, 0.5, [0.0, 1.0, 2.0]))
    assert view.members == 3
    assert (view.speed, view.left) == (6000.0, 4.5)


def test_bands_hold_the_mean_and_the_range_of_the_members() -> None:
    view = RunView("t", total=10_000)
    view.add_row(row(1000, 0.5, [0.0, 1.0, 5.0, None]))
    band = view.bands["losses/policy"]
    assert (band.mean, band.least, band.most) == ([2.0], [0.0], [5.0])


def test_kinds_of_agents_have_bands_and_are_told_of_behind_the_mean() -> None:
    view = RunView("t", total=10_000)
    several = {**row(1000, 0.5), "returns": {"wolf": [1.0, 3.0], "sheep": [None, -2.0]}}
    view.add_row(several)
    assert view.bands["returns/wolf"].mean == [2.0]
    assert returns_text(several) == "0.25 (wolf 2.00, sheep -2.00)"
    assert returns_text(row(1000, 0.5, [0.0, 1.0])) == "0.50"


def test_where_no_episode_ended_the_last_numbers_stay() -> None:
    band = Band()
    for value in (None, [1.0, 3.0], [None, None], float("nan")):
        band.add(value)
    assert band.mean == [None, 2.0, 2.0, 2.0]
    assert band.most == [None, 3.0, 3.0, 3.0]


def test_rows_that_are_made_again_replace_the_old_ones() -> None:
    """A continued run goes back to its checkpoint."""
    view = RunView("t", total=10_000)
    for i in range(1, 5):
        view.add_row(row(1000 * i, float(i), value=i))
    view.add_row(row(3000, 3.0, value=30))
    assert view.timesteps == [1000, 2000, 3000]
    assert view.bands["win_rate"].mean == [1, 2, 30]


def test_time_is_split_by_phases() -> None:
    view = RunView("t", total=1, since=100.0)
    view.enter("compiling", now=101.0)
    view.enter("training", now=110.0)
    view.enter("evaluating", now=115.0)
    view.enter("training", now=116.0)
    assert view.split(now=120.0) == {"starting": 1.0, "compiling": 9.0, "training": 9.0, "evaluating": 1.0}
    view.enter("done", now=121.0)
    assert view.split(now=500.0)["training"] == 10.0


def test_numbers_are_for_people() -> None:
    assert [duration(s) for s in (4.4, 65, 10_000, float("inf"))] == ["0:04", "1:05", "2:46:40", "–"]
    assert [number(0.125), number(None), number(float("nan"))] == ["0.12", "–", "–"]
