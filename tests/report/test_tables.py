"""The table's numbers, against numbers worked out by hand and `jaxrl.stats`."""

import csv
import io

import numpy as np
import pytest

from jaxrl import stats
from jaxrl.report import collect, csv_table, markdown, summarise
from jaxrl.report.tables import across, improvements, number

SCORES = [0.1, 0.5, 0.6, 0.7, 1.0]


@pytest.fixture
def groups(tmp_path, write_run):
    runs = [write_run(tmp_path / "ippo", num_seeds=5, scores=SCORES)]
    runs.append(write_run(tmp_path / "mappo", algorithm="mappo", scores=[0.55]))
    runs.append(write_run(tmp_path / "none", algorithm="none", evaluation=None, status="diverged"))
    return collect(runs)


@pytest.mark.quick
def test_a_summary(groups):
    found = summarise(groups)[0]
    assert (found.env, found.algorithm, found.metric, found.seeds) == ("smax/3m", "ippo", "win_rate", 5)
    assert found.iqm == pytest.approx(0.6)  # of .5, .6 and .7
    assert found.mean == pytest.approx(0.58)
    assert found.std == pytest.approx(np.std(SCORES, ddof=1))
    assert (found.min, found.max) == (0.1, 1.0)
    wanted = stats.interval(stats.iqm, SCORES, expand=True)
    assert (found.low, found.high) == (wanted.low, wanted.high)
    assert (found.timesteps, found.train_seconds, found.steps_per_second) == (40_000, 20.0, 10_000.0)


def test_null_in_run_json_is_not_known(tmp_path, write_run):
    played = {"episodes": 512, "win_rate": [0.5, None], "return_mean": [1.0, None]}
    run = write_run(tmp_path / "a", num_seeds=2, evaluation=played, train_seconds=None, steps_per_second=None)
    [found] = summarise(collect([run]))
    assert (found.seeds, found.iqm) == (1, 0.5)
    assert np.isnan([found.train_seconds, found.steps_per_second]).all()


def test_csv_keeps_all_digits_and_leaves_empty_what_is_not_known(groups):
    rows = list(csv.DictReader(io.StringIO(csv_table(summarise(groups)))))
    assert float(rows[0]["iqm"]) == stats.iqm(SCORES)
    assert rows[1]["iqm"] == "0.55"
    assert rows[1]["low"] == rows[1]["std"] == ""
    assert rows[2]["seeds"] == "0"
    assert rows[2]["iqm"] == ""


def test_markdown(groups):
    lines = markdown(summarise(groups)).splitlines()
    assert len(lines) == 5
    assert {line.count("|") for line in lines} == {10}
    cells = [cell.strip() for cell in lines[2].split("|")]
    assert cells[1:6] == ["smax/3m", "ippo", "5", "win rate", "0.600"]
    assert cells[6].endswith(" (95 %)")
    assert cells[7:10] == ["0.580 ± 0.327", "40k", "10,000"]
    assert [cell.strip() for cell in lines[4].split("|")][5:7] == ["–", "–"]


def test_the_best_is_compared_with_each_other(groups):
    [found] = improvements(groups)
    assert (found.best.label, found.other.label) == ("ippo", "mappo")
    assert found.chance == pytest.approx(3 / 5)
    assert found.difference.estimate == pytest.approx(0.58 - 0.55)
    assert np.isnan(found.difference.low)


def test_numbers_for_people():
    found = [number(value) for value in (0.12345, -9.9999, 123.456, -4567.8, float("nan"))]
    assert found == ["0.123", "-10.000", "123.5", "-4568", "–"]
    assert number(3.14159, like=80.0) == "3.1"


def test_environments_are_taken_together_where_scores_are_on_one_scale(tmp_path, write_run):
    easy, hard = [0.8, 0.9, 0.7, 1.0, 0.8], [0.1, 0.2, 0.3, 0.4, 0.3]
    runs = [write_run(tmp_path / "e", num_seeds=5, scores=easy)]
    assert across(collect(runs)) == {}
    runs.append(write_run(tmp_path / "h", env="smax/8m", num_seeds=5, scores=hard))
    runs.append(
        write_run(tmp_path / "c", env="classic/cartpole", num_seeds=4, win_rate=False)
    )  # returns: another scale
    runs.append(write_run(tmp_path / "m", algorithm="mappo", num_seeds=4))  # not run on smax/8m
    found = across(collect(runs))
    assert list(found) == ["ippo"]
    estimates = [each.estimate for each in found["ippo"]]
    assert estimates == pytest.approx([(0.3 + 0.3 + 0.4 + 0.7 + 0.8 + 0.8) / 6, 0.55, 0.55, 0.45])
    wanted = stats.interval(stats.iqm, np.stack([easy, hard], -1), expand=True)
    assert found["ippo"][0] == wanted


def test_few_seeds_have_no_interval_across_environments(tmp_path, write_run):
    runs = [write_run(tmp_path / env[5:], env=env, num_seeds=4) for env in ("smax/3m", "smax/8m")]
    [found] = across(collect(runs)).values()
    assert np.isfinite([each.estimate for each in found]).all()
    assert np.isnan([(each.low, each.high) for each in found]).all()
