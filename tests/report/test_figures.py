"""What hyperparameters do to scores: of a sweep, and of a search whose test is reported."""

import itertools
import json

import numpy as np
import pytest
from matplotlib.colors import to_hex

from jaxrl.report import collect, write_report
from jaxrl.report.figures import Effect, draw_curves, draw_effects, draw_profiles, effects, searches

RATES = [1e-4, 1e-3, 1e-2]


@pytest.fixture
def sweep(tmp_path, write_run):
    """Three learning rates, two networks, two seeds each; the score is known."""
    runs = []
    for width in (8, 16):
        members = [{"seed": seed, "lr": lr} for lr in RATES for seed in (0, 1)]
        scores = [width / 100 + 10 * own["lr"] + own["seed"] / 1000 for own in members]
        config = {"hidden": [width]}
        runs.append(write_run(tmp_path / f"{width}", num_seeds=6, members=members, scores=scores, config=config))
    return collect(runs)


def search(folder, write_run, **about):
    """The folder of a search with its test."""
    run = write_run(folder / "test", num_seeds=5, seed=2, tuning_seeds=[0, 1], test_seeds=[2, 3, 4, 5, 6])
    trials = [
        {"point": {"lr": lr}, "scores": [lr, {1.0: None, 0.25: float("nan")}.get(lr, lr)], "timesteps": steps}
        for lr, steps in ((1.0, 10), (0.5, 10), (0.25, 10), (0.5, 30))
    ]
    kept = {
        "method": {"name": "halving"},
        "budget": {"runs": 4, "timesteps": 40_000},
        "space": {"lr": {"low": 1e-4, "high": 1.0, "log": True}, "hidden": {"values": [[8], [16]]}},
        "tuning_seeds": [0, 1],
        "test_seeds": [2, 3, 4, 5, 6],
        "incumbents": [{"timesteps": 20_000, "score": 0.5, "point": {"lr": 0.51234567}}],
        "trials": trials,
        "test": {"win_rate": [0.5] * 5},
        **about,
    }
    (folder / "checklist.json").write_text(json.dumps(kept))
    return run


def test_each_hyperparameter_with_several_values_has_its_scores(sweep):
    by_name = {effect.name: effect for effect in effects(sweep)}
    assert sorted(by_name) == ["hidden", "lr"]
    points = by_name["lr"].points
    assert [value for value, _ in points] == RATES * 2
    np.testing.assert_allclose([scores.mean() for _, scores in points[:3]], 0.16 + 10 * np.array(RATES) + 5e-4)


def test_a_comparison_of_algorithms_has_none(tmp_path, write_run):
    runs = [
        write_run(tmp_path / name, algorithm=name, num_seeds=5, config={"lr": lr}) for name, lr in (("a", 1), ("b", 2))
    ]
    assert effects(collect(runs)) == []
    assert "effects.png" not in {path.name for path in write_report(collect(runs), tmp_path / "out")}


def test_a_search_tells_how_it_went(tmp_path, write_run):
    search(tmp_path, write_run)
    groups = collect([tmp_path])
    [effect] = effects(groups)
    assert "tuning seeds" in effect.title
    assert [(value, scores.tolist()) for value, scores in effect.points] == [
        (1.0, [1.0]),
        (0.5, [0.5] * 2),
        (0.25, [0.25]),
    ]
    text = write_report(groups, tmp_path / "out")[0].read_text()
    for words in (
        "halving search with the budget of 4 runs",
        "from 0.0001 to 1 (log)",
        "tuning seeds 0–1",
        "lr=0.5123",
    ):
        assert words in text
    assert (tmp_path / "out" / "effects.png").stat().st_size > 5000


def test_a_search_without_its_test_cannot_be_reported(tmp_path):
    (tmp_path / "checklist.json").write_text("{}")
    with pytest.raises(FileNotFoundError, match="has not come to its test yet"):
        collect([tmp_path])


def test_a_report_does_not_mix_tuning_and_test_seeds(tmp_path, write_run):
    search(tmp_path / "search", write_run)
    tuning = write_run(tmp_path / "tuning", num_seeds=2, tuning_seeds=[0, 1])
    with pytest.raises(ValueError, match=r"The seeds 0–1 of ippo on smax/3m are those .* and 2–6 are not"):
        write_report(collect([tmp_path / "search", tuning]), tmp_path / "out")
    afterwards = write_run(tmp_path / "afterwards", num_seeds=1, seed=0, config={"lr": 0.5})
    with pytest.raises(ValueError, match="Leave out the runs with the former"):
        write_report(collect([tmp_path / "search", afterwards]), tmp_path / "out")
    assert not (tmp_path / "out").exists()
    write_report(collect([tuning]), tmp_path / "out")  # by itself it may be looked at
    assert "was tuned on" in (tmp_path / "out" / "report.html").read_text()
    assert searches(collect([tuning])) == []


def test_places_are_logarithms_where_values_are_far_apart(sweep):
    hidden, lr = draw_effects(sorted(effects(sweep), key=lambda effect: effect.name)).axes
    assert lr.get_xscale() == "log"
    assert [label.get_text() for label in hidden.get_xticklabels()] == ["[8]", "[16]"]


def test_of_many_configurations_the_best_have_colours(tmp_path, write_run):
    members = [{"seed": 0, "lr": lr} for lr in np.geomspace(1e-4, 1e-1, 64)]
    run = write_run(tmp_path / "run", num_seeds=64, members=members, scores=np.linspace(0, 1, 64).tolist())
    groups = collect([run])
    figure = draw_curves(groups)
    legend = figure.axes[-1].get_legend().get_texts()
    assert len(legend) == 8
    assert "lr=0.1" in legend[0].get_text()
    assert len(figure.axes[-1].lines) == 64
    paths = write_report(groups, tmp_path / "out")
    text = paths[0].read_text()
    assert "<title>ippo, 64 configurations, on smax/3m</title>" in text
    # One seed has no profile, and what all configurations share is said once.
    assert draw_profiles(groups) is None
    assert "profiles.png" not in {path.name for path in paths}
    assert "Performance profiles" not in text
    assert text.count("64 configurations of ippo on smax/3m have 1 seed each") == 1


@pytest.mark.parametrize(("count", "bands"), [(4, 4), (5, 1)])
def test_of_more_than_four_intervals_only_the_best_is_shown(tmp_path, write_run, count, bands):
    members = [{"seed": seed, "lr": float(lr + 1)} for lr in range(count) for seed in range(5)]
    scores = [own["lr"] / 10 + own["seed"] / 100 for own in members]
    groups = collect([write_run(tmp_path / "run", num_seeds=5 * count, members=members, scores=scores)])
    for figure in (draw_curves(groups), draw_profiles(groups)):
        assert figure is not None
        axes = figure.axes[0]
        assert len(axes.collections) == bands
        best = next(line for line in axes.lines if f"lr={count}" in str(line.get_label()))
        assert to_hex(axes.collections[-1].get_facecolor()[0]) == best.get_color()


def boxes(axes):
    """The places of the labels below the axis, in pixels."""
    axes.figure.canvas.draw()
    return [label.get_window_extent() for label in axes.get_xticklabels(which="both") if label.get_text()]


@pytest.mark.parametrize(
    "values",
    [
        [1e-4, 3e-4, 1e-3, 3e-3, 1e-2],
        [0.001, 0.0012, 0.002, 0.1],
        [2e-4, 3e-4, 5e-4, 7e-4, 8e-4, 9e-4, 1.8e-3],
        [[64, 64], [128, 128], [256, 256], [64, 64, 64], [128, 128, 128]],
        [True, False],
        [None, 0.5],
        [[1, None], [1, 2]],
    ],
)
def test_labels_below_an_axis_do_not_overlap(values):
    points = [(value, np.array([0.5, 0.6])) for value in values]
    figure = draw_effects([Effect("a", name, "return", points) for name in ("x", "y", "z")])
    for axes in figure.axes:
        placed = boxes(axes)
        slanted = any(label.get_rotation() for label in axes.get_xticklabels())
        for left, right in itertools.pairwise(sorted(placed, key=lambda box: box.x1)):
            # Slanted labels end below their ticks: a line of text must fit between these.
            assert right.x1 - left.x1 >= 8 if slanted else right.x0 >= left.x1
