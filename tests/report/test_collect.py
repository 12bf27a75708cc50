"""Runs are put together by what they have in common."""

import dataclasses
import json
import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from jaxrl import stats
from jaxrl.report import collect
from jaxrl.report.collect import known
from jaxrl.report.tables import across, improvements, summarise


def test_one_run_of_several_seeds_equals_several_runs_of_one(tmp_path, write_run):
    together = write_run(tmp_path / "together", num_seeds=3, scores=[0.1, 0.2, 0.6])
    apart = [write_run(tmp_path / f"{seed}", seed=seed, scores=[s]) for seed, s in enumerate([0.1, 0.2, 0.6])]
    # The curves of the three are made to be those of the one.
    for m, run in enumerate(apart):
        rows = [json.loads(line) for line in (together / "metrics.jsonl").read_text().splitlines()]
        for row in rows:
            row |= {name: row[name][m] for name in ("win_rate", "return_mean", "length_mean")}
            row["losses"] = {}
        (run / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    [one], [three] = collect([together]), collect(apart)
    assert one.seeds == three.seeds == [0, 1, 2]
    np.testing.assert_array_equal(one.scores, three.scores)
    for axis in ("timesteps", "seconds"):
        found, wanted = one.curve(axis), three.curve(axis)
        assert found is not None
        assert wanted is not None
        np.testing.assert_array_equal(found[0], wanted[0])
        np.testing.assert_array_equal(found[1], wanted[1])


def test_groups_differ_in_algorithm_environment_or_configuration_but_not_in_seed(tmp_path, write_run):
    runs = [
        write_run(tmp_path / "a", seed=0),
        write_run(tmp_path / "b", seed=1),
        write_run(tmp_path / "c", algorithm="mappo"),
        write_run(tmp_path / "d", algorithm="mappo", config={"lr": 3e-3}),
        write_run(tmp_path / "e", env="smax/8m"),
    ]
    groups = collect(runs)
    assert [(group.env, group.label, group.seeds) for group in groups] == [
        ("smax/3m", "ippo", [0, 1]),
        ("smax/3m", "mappo (lr=0.001)", [0]),
        ("smax/3m", "mappo (lr=0.003)", [0]),
        ("smax/8m", "ippo", [0]),
    ]
    assert groups[0].name == "ippo on smax/3m"


LEAGUE: dict[str, Any] = {
    "algorithm": "self_play",
    "num_seeds": 6,
    "config": {"league": ["main"] * 4 + ["exploiter"] * 2},
    "scores": [0.90, 0.91, 0.92, 0.93, 0.14, 0.15],
}


def test_members_of_a_league_are_told_apart_by_role_and_are_no_independent_seeds(tmp_path, write_run):
    """They depend on each other, so each league is one seed, and one league has no interval."""
    first = write_run(tmp_path / "first", **LEAGUE)
    exploiters, mains = summarise(collect([first]))
    assert (exploiters.algorithm, mains.algorithm) == ("self_play (role=exploiter)", "self_play (role=main)")
    assert (exploiters.iqm, mains.iqm) == (pytest.approx(0.145), pytest.approx(0.915))
    for summary in (exploiters, mains):
        assert summary.seeds == 1
        assert math.isnan(summary.low)
        assert math.isnan(summary.high)
    second = write_run(tmp_path / "second", **{**LEAGUE, "seed": 6, "scores": [0.5] * 4 + [0.4] * 2})
    groups = collect([first, second])
    assert [group.seeds for group in groups] == [[0, 6], [0, 6]]
    np.testing.assert_allclose(groups[1].scores, [0.915, 0.5])


def test_exploiters_are_neither_the_best_nor_compared(tmp_path, write_run):
    """Their scores are of another task, and here they are the highest."""
    run = {"algorithm": "self_play", "num_seeds": 2, "config": {"league": ["main", "exploiter"]}}
    runs = [write_run(tmp_path / f"{i}", seed=2 * i, scores=[0.5 + 0.01 * i, 0.99], **run) for i in range(5)]
    assert improvements(collect(runs)) == []
    other = write_run(tmp_path / "ippo", num_seeds=5, scores=[0.2, 0.3, 0.2, 0.3, 0.2])
    [found] = improvements(collect([*runs, other]))
    assert (found.best.label, found.other.label) == ("self_play (role=main)", "ippo")


def test_the_curve_of_a_league_is_the_mean_of_the_members_of_a_role(tmp_path, write_run):
    [_, mains] = collect([write_run(tmp_path / "league", **LEAGUE)])
    rows = [json.loads(line) for line in (tmp_path / "league" / "metrics.jsonl").read_text().splitlines()]
    np.testing.assert_allclose(mains.members[0].values[1:], [np.mean(row["win_rate"][:4]) for row in rows[1:]])


def test_an_edited_file_another_start_and_another_lineage_are_other_groups(tmp_path, write_run):
    """Though they have the same name and the same configuration."""
    old = {"file": "source/my_ppo.py", "path": "my_ppo.py", "sha256": "0123456789"}
    new = {**old, "sha256": "abcdefabcd"}
    helped = {**old, "beside": {"helper.py": "0123456789"}}
    edited = {**old, "beside": {"helper.py": "abcdefabcd"}}
    start = {"run": "/runs/old", "learner": False, "best": False, "member": None}
    runs = [
        write_run(tmp_path / "a", algorithm="my_ppo", sources={"algorithm": old}),
        write_run(tmp_path / "b", algorithm="my_ppo", seed=1, sources={"algorithm": old}),
        write_run(tmp_path / "c", algorithm="my_ppo", seed=2, sources={"algorithm": new}),
        write_run(tmp_path / "j", algorithm="helped", sources={"algorithm": helped}),
        write_run(tmp_path / "k", algorithm="helped", seed=1, sources={"algorithm": edited}),
        write_run(tmp_path / "d", env="smax/8m", options={"init_from": None}),
        write_run(tmp_path / "e", env="smax/8m", seed=1, options={"init_from": start}),
        write_run(tmp_path / "f", env="smax/8m", seed=2, options={"init_from": {**start, "learner": True}}),
        write_run(tmp_path / "g", env="smax/25m"),
        write_run(tmp_path / "i", env="smax/25m", seed=2, loss="my_losses:loss"),
        write_run(tmp_path / "h", env="smax/25m", seed=1, lineage={"every_updates": 2, "points": [{"lr": 0.1}]}),
    ]
    groups = collect(runs)
    assert sorted(group.seeds for group in groups) == [[0], [0], [0], [0, 1], [1], [1], [1], [2], [2], [2]]
    assert [group.label for group in groups if group.algorithm == "my_ppo"] == [
        "my_ppo (my_ppo.py=01234567)",
        "my_ppo (my_ppo.py=abcdefab)",
    ]
    assert [group.label for group in groups if group.algorithm == "helped"] == [
        "helped (helper.py=01234567)",
        "helped (helper.py=abcdefab)",
    ]
    assert len({group.name for group in groups}) == len(groups)


def test_an_alias_is_the_environment_itself(tmp_path, write_run):
    names = ["CartPole-v1", "classic/cartpole", "CartPole-v1?max_steps=9", "somebody/elses"]
    runs = [write_run(tmp_path / f"{seed}", env=env, seed=seed) for seed, env in enumerate(names)]
    assert [(group.env, group.seeds) for group in collect(runs)] == [
        ("classic/cartpole", [0, 1]),
        ("classic/cartpole?max_steps=9", [2]),
        ("somebody/elses", [3]),
    ]


def test_configurations_that_differ_in_much_are_told_apart_by_their_folders(tmp_path, write_run):
    other = {"lr": 1.0, "gamma": 0.9, "hidden": [8], "memory": "gru"}
    runs = [write_run(tmp_path / "small"), write_run(tmp_path / "large", config=other)]
    assert [group.label for group in collect(runs)] == ["ippo (large)", "ippo (small)"]


def test_folders_of_the_same_name_are_told_apart_and_are_no_two_environments(tmp_path, write_run):
    """Or both would have one colour, and stand for one algorithm on two environments."""
    much = dict.fromkeys(("num_steps", "lr", "gamma", "gae_lambda", "clip_eps"), 1)
    runs = [write_run(tmp_path / "ours" / "run", num_seeds=2), write_run(tmp_path / "theirs" / "run", config=much)]
    runs.append(write_run(tmp_path / "other", env="smax/8m", num_seeds=2))
    labels = [group.label for group in collect(runs)]
    assert len(set(labels)) == 3
    assert sum(str(tmp_path / "ours" / "run") in label for label in labels) == 1
    same = [dataclasses.replace(group, label="ippo") for group in collect(runs[:2])]
    assert across(same) == {}


def test_the_metric_is_what_all_runs_on_an_environment_know(tmp_path, write_run):
    runs = [write_run(tmp_path / "a"), write_run(tmp_path / "b", env="mpe/tag", win_rate=False)]
    assert [(group.env, group.metric) for group in collect(runs)] == [
        ("mpe/tag", "return_mean"),
        ("smax/3m", "win_rate"),
    ]
    runs.append(write_run(tmp_path / "c", algorithm="mappo", win_rate=False))
    assert {group.metric for group in collect(runs)} == {"return_mean"}
    assert {group.metric for group in collect(runs, "length_mean")} == {"length_mean"}
    with pytest.raises(ValueError, match="b knows no win_rate; name another --metric"):
        collect(runs, "win_rate")
    with pytest.raises(ValueError, match="no metric 'wins'; it is one of win_rate"):
        collect(runs, "wins")


def test_a_number_of_ones_own_is_a_metric_like_others(tmp_path, write_run):
    runs = [
        write_run(tmp_path / "a", own="info/focus", num_seeds=2),
        write_run(tmp_path / "b", own="info/focus", seed=2),
    ]
    older = runs[1] / "metrics.jsonl"
    older.write_text(re.sub(r'"info/focus": ([-.\d]+)', r'"info": {"focus": \1}', older.read_text()))
    for name in ("focus", "info/focus"):
        [group] = collect(runs, name)
        assert (group.metric, group.measure, group.scores.tolist()) == ("info/focus", "info/focus", [7.0] * 3)
        assert all(np.isfinite(member.values).all() and len(member.values) == 40 for member in group.members)
    for command in (collect, collect):  # in the same order each time
        with pytest.raises(ValueError, match="one of win_rate, return_mean, length_mean, info/focus"):
            command(runs, "wins")
    with pytest.raises(ValueError, match="c knows no info/focus"):
        collect([*runs, write_run(tmp_path / "c", seed=3)], "focus")


def test_a_curve_is_the_iqm_over_seeds_of_what_all_have_done(tmp_path, write_run):
    runs = [write_run(tmp_path / f"{seed}", seed=seed) for seed in range(5)]
    short = runs[2] / "metrics.jsonl"
    short.write_text("".join(short.read_text().splitlines(keepends=True)[:20]))
    [group] = collect(runs)
    found = group.curve("timesteps")
    assert found is not None
    x, (middle, low, high) = found
    assert (x[0], x[-1]) == (1000, 20_000)
    ends = [np.interp(20_000, *known(member, "timesteps")) for member in group.members]
    assert middle[-1] == pytest.approx(stats.iqm(ends))
    assert (low <= middle).all()
    assert (middle <= high).all()
    assert np.ptp(middle - low) > 0


def test_a_run_that_wrote_nothing_has_no_curve_and_no_score(tmp_path, write_run):
    run = write_run(tmp_path / "a", evaluation=None, status="running")
    (run / "metrics.jsonl").unlink()
    other = write_run(tmp_path / "b", seed=1)
    [group] = collect([run, other])
    assert group.metric == "win_rate"
    assert group.curve("timesteps") is None
    assert len(group.scores) == 1
    assert math.isnan(group.members[0].score)


def test_a_seed_that_became_nan_is_not_counted(tmp_path, write_run):
    [group] = collect([write_run(tmp_path / "a", num_seeds=3, scores=[0.5, float("nan"), 0.7])])
    np.testing.assert_array_equal(group.scores, [0.5, 0.7])


def test_wrong_folders_are_explained(tmp_path, write_run):
    run = write_run(tmp_path / "a")
    with pytest.raises(FileNotFoundError, match="nowhere holds no run"):
        collect([run, tmp_path / "nowhere"])
    with pytest.raises(ValueError, match="is named twice; its seeds would count double"):
        collect([run, Path(f"{run}/../a")])
    with pytest.raises(ValueError, match="Name at least one run"):
        collect([])
    (tmp_path / "sweep").mkdir()
    (tmp_path / "sweep" / "sweep.json").write_text('{"status": "running"}')
    with pytest.raises(FileNotFoundError, match="sweep has no run yet: let it begin"):
        collect([run, tmp_path / "sweep"])
