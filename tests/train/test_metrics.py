"""Rows of metrics are the same however the updates were grouped."""

import json
from typing import Any

import numpy as np
import pytest

from jaxrl.train.folder.json_file import to_json
from jaxrl.train.metrics import RowMaker, columns, mean_over_members

UPDATES = 10


def metrics_of(first: int, last: int) -> dict[str, Any]:
    """Update u ends u episodes that return 2 and last 3 each; no episode ends in update 0."""
    u = np.arange(first, last, dtype=np.float32)
    return {"episodes": u, "return_sum": 2 * u, "length_sum": 3 * u, "won_sum": u / 2, "losses": {"value": u}}


def rows_of(*chunks: int, log_every: int = 4) -> list[dict[str, Any]]:
    maker, rows, update = RowMaker(log_every, UPDATES, steps_per_update=8), [], 0
    for n in chunks:
        rows += maker.feed(metrics_of(update, update + n), begin=float(update), end=float(update + n))
        update += n
    return rows


@pytest.mark.parametrize("chunks", [(10,), (1,) * 10, (3, 3, 4), (7, 3)])
def test_rows_do_not_depend_on_chunks(chunks: tuple[int, ...]) -> None:
    """Not even their times here, where every update lasts a second."""
    assert rows_of(*chunks) == rows_of(10)


def test_a_row_holds_sums_and_means_of_its_interval() -> None:
    rows = rows_of(10)
    assert [row["timesteps"] for row in rows] == [32, 64, 80]
    assert rows[1] == {
        "timesteps": 64,
        "seconds": 8.0,
        "steps_per_second": 8.0,
        "episodes": 4 + 5 + 6 + 7,
        "return_mean": 2.0,
        "length_mean": 3.0,
        "win_rate": 0.5,
        "losses": {"value": 5.5},
    }


def test_kinds_of_agents_have_returns_of_their_own() -> None:
    metrics = {**metrics_of(0, UPDATES), "return_sums": {"wolf": np.full(UPDATES, 6.0), "sheep": -np.ones(UPDATES)}}
    rows = RowMaker(4, UPDATES, steps_per_update=8).feed(metrics, 0.0, 1.0)
    assert rows[0]["returns"] == {"wolf": 4.0, "sheep": pytest.approx(-4 / 6)}
    assert columns(rows)["returns/wolf"].tolist() == [4.0, 24 / 22, 12 / 17]
    nobody = {name: 0 * values for name, values in metrics_of(0, UPDATES).items() if name != "losses"}
    row = RowMaker(UPDATES, UPDATES, steps_per_update=8).feed({**metrics, **nobody}, 0.0, 1.0)[0]
    assert row["returns"] == {"wolf": None, "sheep": None}


def test_without_an_episode_there_is_no_mean() -> None:
    row = rows_of(1, log_every=1)[0]
    assert row["return_mean"] is None
    assert np.isnan(columns([row])["return_mean"]).all()


def test_where_no_episode_ends_the_last_mean_is_repeated_for_each_member() -> None:
    maker = RowMaker(1, 3, 8, members=2)
    episodes = np.array([[2, 0], [0, 1], [0, 0]], np.float32)
    info = {"damage": np.array([[6, 0], [0, 5], [0, 0]], np.float32)}
    update = {"episodes": episodes, "return_sum": 3 * episodes, "info_sums": info}
    rows = maker.feed(update, 0.0, 3.0)
    assert [row["episodes"] for row in rows] == [[2, 0], [0, 1], [0, 0]]  # it is seen that they are repeated
    assert [row["return_mean"] for row in rows] == [[3.0, None], [3.0, 3.0], [3.0, 3.0]]
    assert [row["info/damage"] for row in rows] == [[3.0, None], [3.0, 5.0], [3.0, 5.0]]


def test_the_mean_to_repeat_survives_a_checkpoint() -> None:
    none = {"episodes": np.zeros((1, 2)), "return_sum": np.zeros((1, 2))}
    maker = RowMaker(1, 2, 8, members=2)
    maker.feed({"episodes": np.array([[2.0, 0.0]]), "return_sum": np.array([[8.0, 0.0]])}, 0.0, 1.0)
    other = RowMaker(1, 2, 8, members=2)
    other.load(json.loads(to_json(maker.save())))
    assert other.feed(none, 1.0, 2.0)[0]["return_mean"] == [4.0, None]


def test_an_interval_can_be_continued_elsewhere() -> None:
    first, second = (RowMaker(4, UPDATES, steps_per_update=8) for _ in range(2))
    rows = first.feed(metrics_of(0, 6), 0.0, 6.0)
    second.load(first.save())
    assert rows + second.feed(metrics_of(6, 10), 6.0, 10.0) == rows_of(10)


def test_members_make_lists() -> None:
    maker = RowMaker(2, 2, steps_per_update=8, members=2)
    two = {k: v for k, v in metrics_of(1, 3).items() if k != "losses"}
    [row] = maker.feed({name: np.stack([v, 0 * v], 1) for name, v in two.items()}, 0.0, 1.0)
    assert row["episodes"] == [3, 0]
    assert row["win_rate"] == [0.5, None]
    assert row["steps_per_second"] == 32.0
    assert mean_over_members(row["win_rate"]) == 0.5
    assert columns([row, row])["win_rate"].shape == (2, 2)


def test_what_only_some_rows_have_is_nan_in_the_others() -> None:
    rows: list[dict[str, Any]] = [
        {"timesteps": 8, "losses": {"policy": [1.0, None]}},
        {"timesteps": 16, "skipped": [0, 1], "losses": {"policy": None, "value": [2.0, 3.0]}},
        {"timesteps": 24, "skipped": [2, 3]},
    ]
    table, nan = columns(rows), float("nan")
    assert set(table) == {"timesteps", "losses/policy", "losses/value", "skipped"}
    np.testing.assert_array_equal(table["skipped"], [[nan, nan], [0, 1], [2, 3]])
    np.testing.assert_array_equal(table["losses/policy"], [[1, nan], [nan, nan], [nan, nan]])
    np.testing.assert_array_equal(table["losses/value"], [[nan, nan], [2, 3], [nan, nan]])
    np.testing.assert_array_equal(columns([{"skipped": 1}, {}])["skipped"], [1, nan])
