"""Searches that find what is known to be best, within their budget, on seeds that are not those of the test."""

import dataclasses
import inspect
import json
import math
import os
import shutil
import signal
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import echo
import numpy as np
import pytest

import jaxrl
from jaxrl import algos
from jaxrl.cli import main
from jaxrl.errors import DivergedError, MissingExtraError
from jaxrl.report import collect
from jaxrl.train.fit import fit
from jaxrl.train.folder.lock import locked
from jaxrl.train.folder.run_folder import RunFolder
from jaxrl.train.intervals import ChunkSizer
from jaxrl.train.live.progress import Progress
from jaxrl.train.rerun import compare_rows
from jaxrl.tuning import PBT, Grid, Halving, Optuna, Random, Task, Trial
from jaxrl.tuning.search_space import draws
from jaxrl.tuning.task import StoppedError, best_so_far

CONFIG = echo.Config()
UPDATES = CONFIG.num_updates
OPTIONS: dict[str, Any] = {"eval_episodes": 2, "quiet": True, "tuning_seeds": 2, "test_seeds": 3}
RATES = (1e-6, 1e-1, "log")


def search(run_dir: Path | None = None, **options: Any) -> Any:
    return jaxrl.search(echo, CONFIG, run_dir, **{"lr": RATES, **OPTIONS, **options})


def learned(trial: Trial) -> float:
    """What a point learns in the time it was given."""
    return echo.gain(trial.point["lr"]) * trial.timesteps


def spent(trials: list[Trial]) -> int:
    """Environment steps of trials that were each trained from the start."""
    return sum(trial.timesteps * len(trial.scores) for trial in trials)


# Random and grid


def test_random_search_tries_as_many_draws_as_the_budget_pays_for(tmp_path: Path) -> None:
    result = search(tmp_path / "search", method="random", budget=5)
    assert [trial.point for trial in result.trials] == draws(CONFIG, {"lr": RATES}, 5)
    for trial in result.trials:
        np.testing.assert_allclose(trial.scores, [learned(trial)] * 2, rtol=1e-5)
    best = max(result.trials, key=learned)
    assert result.best == best.point
    np.testing.assert_allclose(result.test["return_mean"], [learned(best)] * 3, rtol=1e-5)
    assert result.incumbents[-1].point == best.point
    assert spent(result.trials) == 5 * 2 * UPDATES


def test_draws_from_lists_are_all_different() -> None:
    lists: dict[str, Any] = {"lr": [1e-4, 1e-3, 1e-2], "width": [1, 2]}
    for count, found in ((1, 1), (2, 2), (5, 5), (6, 6), (9, 6)):
        tried = draws(CONFIG, lists, count)
        assert len({repr(point) for point in tried}) == len(tried) == found
    assert draws(CONFIG, lists, 5) == tried[:5]
    mixed = draws(CONFIG, {**lists, "lr": RATES}, 20)
    assert [point["lr"] for point in mixed] == [point["lr"] for point in draws(CONFIG, {"lr": RATES}, 20)]
    huge = {
        "lr": [i / 1e5 for i in range(1, 1000)],
        "width": list(range(1, 1000)),
        "bonus": [float(i) for i in range(1000)],
    }
    assert len(draws(CONFIG, huge, 62)) == 62  # of a grid that would not fit in memory


@pytest.mark.parametrize(("method", "paid"), [(Random(), 9), (Grid(), 9), (Halving(), 35)])
def test_a_space_with_fewer_points_than_the_budget_pays_for_is_told_of(
    method: Any, paid: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(*_: Any) -> None:
        raise StoppedError

    monkeypatch.setattr(Task, "train", stop)
    monkeypatch.setattr(Task, "fit", stop)
    for rates in ([1e-3], [1e-3, 1e-2]):
        with pytest.raises(StoppedError):
            method(dataclasses.replace(task(9), space={"lr": rates}, options={**OPTIONS, "mesh": None, "quiet": False}))
    one, two = capsys.readouterr().out.splitlines()
    assert one.startswith(f"The space has 1 point, and a budget of 9 pays for {paid}: each is tried once")
    assert two.startswith("The space has 2 points")


def test_a_grid_has_all_combinations_of_lists() -> None:
    result = search(method="grid", budget=4, lr=[1e-4, 1e-3], width=[1, 2])
    assert [trial.point for trial in result.trials] == [{"lr": lr, "width": w} for lr in (1e-4, 1e-3) for w in (1, 2)]
    assert result.best == {"lr": 1e-3, "width": 1}  # of equals the first


def test_of_equal_scores_the_one_that_learned_earlier_is_the_best() -> None:
    trials = [Trial({"lr": lr}, [1.0, 1.0], mean, 10) for lr, mean in ((1, 0.3), (2, 0.8), (3, 0.5))]
    assert [(each.timesteps, each.point["lr"]) for each in best_so_far(trials)] == [(20, 1), (40, 2)]


def test_a_point_of_which_a_seed_has_diverged_is_the_worst() -> None:
    trials = [Trial({"lr": 1}, [9.0, None], 9.0, 10), Trial({"lr": 2}, [-5.0, -6.0], -7.0, 10)]
    assert [each.point for each in best_so_far(trials)] == [{"lr": 2}]
    result = search(method="grid", lr=[1e-3, 10.0])
    assert result.best == {"lr": 1e-3}
    assert result.trials[1].scores == [None, None]


@pytest.mark.parametrize("method", ["random", "halving", "pbt"])
def test_if_everything_diverges_it_is_said(method: str) -> None:
    with pytest.raises(DivergedError):
        search(method=method, lr=(2.0, 3.0), budget=4)


# Successive halving


def task(budget: int, method: Any = None, **changed: Any) -> Task:
    config = dataclasses.replace(CONFIG, **changed)
    return Task(echo, config, {"lr": RATES}, budget, [0, 1], None, None, {**OPTIONS, "mesh": None})


@pytest.mark.parametrize("budget", [1, 2, 5, 16, 64])
@pytest.mark.parametrize("updates", [1, 2, 9, 36, 1000])
def test_halving_spends_no_more_than_its_budget(budget: int, updates: int) -> None:
    plan = Halving().plan(task(budget, total_timesteps=updates))
    ends, counts = zip(*plan, strict=True)
    cost = np.dot(np.diff([0, *ends]), counts)
    assert cost <= budget * updates
    assert ends[-1] == updates
    assert list(ends) == sorted(set(ends))
    if budget == 16 and updates == 36:
        assert plan == [(4, 62), (12, 20), (36, 6)]
        assert cost > 0.95 * budget * updates


@pytest.fixture(scope="module")
def halved(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A finished search by halving."""
    return search(tmp_path_factory.mktemp("search") / "halving", method="halving", budget=3)


@pytest.fixture(scope="module")
def folder(halved: Any) -> Path:
    """Its folder."""
    return halved.run_dir


def test_halving_lets_the_best_go_on_from_where_they_are(halved: Any) -> None:
    result = halved
    rungs = [[t for t in result.trials if t.timesteps == end] for end in (4, 12, 36)]
    assert [len(rung) for rung in rungs] == [13, 4, 1]
    for before, after in pairwise(rungs):
        best = sorted(before, key=learned, reverse=True)[: len(after)]
        assert [t.point for t in after] == [t.point for t in best]
    for trial in result.trials:  # nothing was lost on the way
        np.testing.assert_allclose(trial.scores, [learned(trial)] * 2, rtol=1e-5)
    config = dataclasses.replace(CONFIG, **result.best)
    alone = fit(echo.make(config), config, eval_episodes=2, quiet=True)
    assert alone.evaluation is not None
    assert rungs[-1][0].scores[0] == alone.evaluation["return_mean"]  # bit for bit
    assert result.incumbents[-1].timesteps == (4 * 13 + 8 * 4 + 24) * 2


def test_progress_of_a_rung_counts_its_own_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = []

    class Seen(Progress):
        """Keeps what it would have shown after each row."""

        def row(self, row: dict[str, Any]) -> None:
            super().row(row)
            view = self.view
            own = row["timesteps"] - view.first
            assert view.speed == pytest.approx(own * view.members / row["seconds"])
            assert view.left == pytest.approx((view.total - row["timesteps"]) * row["seconds"] / own)
            shown.append((view.first, row["timesteps"], view.total, view.done))

    monkeypatch.setattr("jaxrl.train.run.make_progress", lambda title, total, quiet, *rest: Seen(title, total, *rest))
    search(method=Halving(), budget=3, log_every=4)
    rungs = [(0, 4, 4, 1.0), (4, 8, 12, 0.5), (4, 12, 12, 1.0), *((12, t, 36, (t - 12) / 24) for t in range(16, 37, 4))]
    assert shown[: len(rungs)] == rungs


def test_halving_with_a_single_member() -> None:
    result = search(method=Halving(rungs=2), budget=1, tuning_seeds=[7], test_seeds=[9])
    np.testing.assert_allclose(result.test["return_mean"], learned(result.trials[-1]), rtol=1e-5)


# Population-based training


def test_pbt_finds_a_schedule_that_teaches_others_the_same(tmp_path: Path) -> None:
    """The toy is deterministic: if lineage, parents and parameters fit together, the test equals the population."""
    result = search(tmp_path / "search", method=PBT(generations=9, draw=False), budget=16)
    assert len(result.lineage) == 9
    assert result.lineage[0] == {"lr": pytest.approx(CONFIG.lr)}
    assert result.lineage[-1] == result.best
    assert echo.gain(result.best["lr"]) > 100 * echo.gain(CONFIG.lr)
    reached = sum(echo.gain(point["lr"]) * 4 for point in result.lineage)
    np.testing.assert_allclose(result.test["return_mean"], [reached] * 3, rtol=1e-4)
    assert max(trial.scores[0] for trial in result.trials) == pytest.approx(reached, rel=1e-4)
    assert [each.timesteps for each in result.incumbents[:9]] == [12 * 2 * 4 * i for i in range(1, 10)]
    assert result.incumbents[-1].timesteps <= 16 * 2 * UPDATES


def test_members_train_as_they_would_alone_until_they_breed(tmp_path: Path) -> None:
    """Random keys are others than alone, but the toy's rewards do not depend on them."""
    search(tmp_path / "search", method=PBT(generations=2), budget=3)
    folder = tmp_path / "search" / "tuning" / "population"
    about = json.loads((folder / "run.json").read_text())
    rows = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    for m, own in enumerate(about["members"][:2]):
        config = dataclasses.replace(CONFIG, **own)
        alone = fit(echo.make(config), config, eval_episodes=2, quiet=True).metrics["return_mean"]
        together = [row["return_mean"][m] for row in rows]
        np.testing.assert_array_equal(together[: UPDATES // 2], alone[: UPDATES // 2])


# Optuna


def test_optuna_is_asked_for_batches_and_repeats_itself(tmp_path: Path) -> None:
    pytest.importorskip("optuna")
    space: dict[str, Any] = {"lr": RATES, "width": [1, 2], "method": Optuna(batch=4), "budget": 6}
    result = search(tmp_path / "search", **space)
    assert len(result.trials) == 6
    folders = {path.parent.name for path in (tmp_path / "search" / "tuning").glob("batch-*/group-*")}
    assert folders == {"batch-000", "batch-004"}
    assert result.best == max(result.trials, key=learned).point
    assert search(**space).trials == result.trials


def test_a_batch_of_optuna_is_spread_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """By default Optuna 4 asks for a batch that is one point with a little noise."""
    optuna = pytest.importorskip("optuna")
    made = inspect.unwrap(optuna.samplers.TPESampler.__init__)
    monkeypatch.setitem(made.__kwdefaults__, "constant_liar", False)
    result = search(method=Optuna(batch=8), budget=24)
    for start in (8, 16):
        rates = sorted(math.log10(trial.point["lr"]) for trial in result.trials[start : start + 8])
        assert len(set(rates)) == 8
        assert rates[-1] - rates[0] > 1.5


def test_optuna_is_told_of_what_has_diverged() -> None:
    pytest.importorskip("optuna")
    result = search(method=Optuna(batch=2), budget=4, lr=[1e-3, 10.0])
    assert result.best == {"lr": 1e-3}


def test_without_optuna_the_line_that_installs_it_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'jaxrl\[optuna\]'"):
        search(tmp_path / "search", method="optuna")
    assert not (tmp_path / "search").exists()


# What is written


def test_the_checklist_has_budget_space_seeds_and_incumbents(folder: Path) -> None:
    kept = json.loads((folder / "checklist.json").read_text())
    assert kept["status"] == "finished"
    assert kept["method"] == {"name": "halving", "eta": 3, "rungs": 3}
    assert kept["budget"] == {"runs": 3, "timesteps": 3 * 2 * UPDATES}
    assert kept["space"] == {"lr": {"low": 1e-6, "high": 0.1, "log": True}}
    assert (kept["tuning_seeds"], kept["test_seeds"]) == ([0, 1], [2, 3, 4])
    assert [each["timesteps"] for each in kept["incumbents"]] == [104, 168, 216]
    assert kept["incumbents"][-1]["point"] == kept["best"]
    assert len(kept["trials"]) == 18
    assert len(kept["test"]["return_mean"]) == 3
    assert {"config", "versions", "git", "devices", "command"} <= set(kept)


def test_runs_say_what_their_seeds_are_for(folder: Path) -> None:
    for path in (folder / "tuning").glob("*/run.json"):
        about = json.loads(path.read_text())
        assert about["tuning_seeds"] == [0, 1]
        assert "test_seeds" not in about
        assert {own["seed"] for own in about["members"]} == {0, 1}
    about = json.loads((folder / "test" / "run.json").read_text())
    assert (about["tuning_seeds"], about["test_seeds"]) == ([0, 1], [2, 3, 4])
    assert [own["seed"] for own in about["members"]] == [2, 3, 4]


def test_a_report_of_a_search_has_the_test_seeds_alone(folder: Path) -> None:
    [group] = collect([folder])
    assert group.seeds == [2, 3, 4]


def test_a_search_is_no_single_run(folder: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"holds a search, not one run: name the run of its best, .*/test"):
        RunFolder.open(folder)


def test_a_finished_search_is_not_run_again(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = json.loads((folder / "checklist.json").read_text())
    again = search(folder, method="halving", budget=3)
    assert again.best == before["best"]
    assert again.test == before["test"]


@pytest.mark.parametrize(
    ("method", "budget", "rows"),
    [
        (Halving(), 3, 8),
        (PBT(generations=4), 8, 45),  # among its finalists
        ("random", 3, 20),
    ],
)
def test_a_stopped_search_goes_on_where_it_was(
    method: Any, budget: int, rows: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = search(method=method, budget=budget)
    monkeypatch.setattr(ChunkSizer, "next", lambda self, limit: 1)
    seen = []

    def on_row(row: dict[str, Any]) -> None:
        seen.append(row)
        if len(seen) == rows:
            os.kill(os.getpid(), signal.SIGTERM)

    with monkeypatch.context() as patch:
        for module in ("jaxrl.tuning.task", "jaxrl.tuning.search", "jaxrl.tuning.member_groups"):
            patch.setattr(f"{module}.fit", lambda *args, **options: fit(*args, **options, callbacks=[on_row]))
        stopped = search(tmp_path / "search", method=method, budget=budget)
    assert stopped.stopped == "SIGTERM"
    assert json.loads((tmp_path / "search" / "checklist.json").read_text())["status"] == "stopped"
    after = search(tmp_path / "search", method=method, budget=budget)
    assert (after.best, after.trials, after.test) == (whole.best, whole.trials, whole.test)


# The runs of a search by themselves


@pytest.fixture(scope="module")
def evolved(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A finished search by PBT, with a lineage that changes."""
    return search(
        tmp_path_factory.mktemp("search") / "pbt",
        method=PBT(generations=4, draw=False),
        budget=8,
        log_every=1,
        checkpoint_every_updates=9,
    )


def test_finalists_are_recorded_as_part_of_tuning(evolved: Any) -> None:
    assert spent(evolved.trials) == 8 * 2 * UPDATES
    about = json.loads((evolved.run_dir / "tuning" / "finalists" / "run.json").read_text())
    assert about["tuning_seeds"] == [0, 1]
    assert [own["seed"] for own in about["members"]] == [0, 1, 0, 1]
    lineages = about["population"]["lineages"]
    assert [lineage[-1] for lineage in lineages] == [trial.point for trial in evolved.trials[-2:]]
    assert evolved.lineage in lineages


@pytest.fixture
def stopped(evolved: Any, tmp_path: Path) -> Path:
    """As if its test had been stopped three quarters of the way."""
    folder = Path(shutil.copytree(evolved.run_dir, tmp_path / "search"))
    shutil.rmtree(folder / "test" / "checkpoints" / str(UPDATES))
    file = folder / "test" / "run.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), "status": "stopped", "timesteps": 27}))
    return folder


def kept_of(run: Path) -> dict[str, Any]:
    """What run.json says of the search."""
    about = json.loads((run / "run.json").read_text())
    return {name: about[name] for name in ("tuning_seeds", "test_seeds", "lineage", "members")}


@pytest.mark.usefixtures("_echo_command")
def test_the_test_of_a_search_resumed_by_itself_is_still_that_test(evolved: Any, stopped: Path) -> None:
    kept = kept_of(stopped / "test")
    assert kept["lineage"]["points"][-1] != kept["lineage"]["points"][-2]  # the last quarter has one of its own
    main(["resume", str(stopped / "test"), "--quiet"])
    assert kept_of(stopped / "test") == kept
    after, before = (RunFolder(root / "test") for root in (stopped, evolved.run_dir))
    assert after.read()["evaluation"] == evolved.test
    assert compare_rows(before.metrics.read(), after.metrics.read()).same
    assert search(stopped, method=PBT(generations=4, draw=False), budget=8, log_every=1).test == evolved.test


@pytest.mark.usefixtures("_echo_command")
def test_the_test_of_a_search_trained_once_more_is_the_same(evolved: Any, capsys: pytest.CaptureFixture[str]) -> None:
    main(["rerun", str(evolved.run_dir / "test"), "--run-dir", "again", "--quiet"])
    assert "Reproduced" in capsys.readouterr().out
    assert kept_of(Path("again")) == kept_of(evolved.run_dir / "test")


def test_a_schedule_is_not_lost_by_the_library_either(stopped: Path) -> None:
    about = json.loads((stopped / "test" / "run.json").read_text())
    config = dataclasses.replace(CONFIG, lr=about["config"]["lr"])
    options: dict[str, Any] = {"members": about["members"], "log_every": 1, "eval_episodes": 2, "quiet": True}
    with pytest.raises(FileExistsError, match=r"lineage is .* there and left out here"):
        fit(echo.make(config), config, stopped / "test", resume=True, **options)


@pytest.mark.usefixtures("_echo_command")
@pytest.mark.parametrize("name", ["population", "finalists"])
@pytest.mark.parametrize("command", ["resume", "rerun"])
def test_a_population_is_trained_by_its_search_alone(
    command: str, name: str, stopped: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as exit_info:
        main([command, str(stopped / "tuning" / name)])
    assert exit_info.value.code == 2
    assert "holds the population of a search, which is only trained by that search" in capsys.readouterr().err


@pytest.mark.usefixtures("_echo_command")
def test_a_rung_goes_no_further_than_its_end(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rung = Path(shutil.copytree(folder / "tuning" / "rung-1", tmp_path / "rung-1"))
    main(["resume", str(rung), "--quiet"])
    about = json.loads((rung / "run.json").read_text())
    assert (about["segment"], about["timesteps"], about["status"]) == ([4, 12], 12, "finished")
    with pytest.raises(SystemExit):
        main(["rerun", str(rung), "--run-dir", str(tmp_path / "other")])
    assert "began with what others had learned in 4 updates" in capsys.readouterr().err
    assert not (tmp_path / "other").exists()


# Wrong input


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"tuning_seeds": [0, 5], "test_seeds": [5, 6]}, r"Seeds \[5\] are for tuning and for testing"),
        ({"method": "grit"}, "There is no search method 'grit'. Did you mean grid"),
        ({"budget": 0}, "budget must be at least 1"),
        ({"test_seeds": 0}, "test_seeds must be a number of at least 1"),
        ({"lrr": [1.0]}, "has no hyperparameter 'lrr'"),
        ({"env": ["echo", "other"]}, "A search compares scores in one environment; use jaxrl sweep"),
        ({"total_timesteps": [36, 72]}, "A search compares runs of one length, which its budget counts; use jaxrl"),
        ({"method": "grid"}, "A grid is made of lists, but lr has a range"),
        ({"method": "grid", "lr": [0.1, 0.2], "budget": 1}, "more than the budget of 1"),
        ({"method": "halving", "width": [1, 2]}, "each value of width needs its own; search those with random"),
        ({"method": "pbt", "width": [1, 2]}, "each value of width needs its own"),
        ({"method": "halving", "max_members": 4}, "more than max_members=4; lower the budget"),
        ({"method": Halving(eta=1)}, "eta must be at least 2"),
        ({"method": PBT(generations=40)}, r"36 updates cannot be cut into 40 .*PBT\(generations=18\)"),
        ({"method": PBT(generations=40)}, r"use at least total_timesteps=40 \(--total-timesteps 40\), or"),
        ({"method": PBT(quantile=0.7)}, "a quantile above 0 and up to 0.5"),
        ({"method": PBT(finalists=0)}, "finalists must be at least 1"),
        ({"method": "pbt", "budget": 1, "tuning_seeds": 1}, "PBT needs a population"),
        ({"method": Optuna(batch=0)}, "batch must be at least 1"),
    ],
)
def test_wrong_input_is_explained_before_anything_is_written(
    options: dict[str, Any], sentence: str, tmp_path: Path
) -> None:
    with pytest.raises(ValueError, match=sentence):
        search(tmp_path / "search", **options)
    assert not (tmp_path / "search").exists()


def test_a_space_is_needed() -> None:
    with pytest.raises(ValueError, match="Say what to search"):
        jaxrl.search(echo, CONFIG, **OPTIONS)


def test_another_search_does_not_continue_this_one(folder: Path) -> None:
    sentence = (
        "holds another search: method.name is halving there and random here, .* budget.runs is 3 there and 2 here"
    )
    with pytest.raises(FileExistsError, match=sentence):
        search(folder, method=Random(), budget=2)
    with pytest.raises(FileExistsError, match=r"space.lr.low is 1e-06 there and left out here"):
        search(folder, method=Grid(), lr=[1e-3], budget=3)


def test_a_search_that_goes_on_in_another_process_is_left_alone(tmp_path: Path) -> None:
    root = tmp_path / "search"
    root.mkdir()
    with locked(root), pytest.raises(FileExistsError, match=f"Another process is training in .*{os.getpid()}"):
        search(root, budget=2)
    assert list(root.iterdir()) == []


# The command


@pytest.fixture
def _echo_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(algos._MODULES, "echo", "echo")
    monkeypatch.setenv("JAXRL_CACHE", "0")


@pytest.mark.usefixtures("_echo_command")
def test_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    flags = "--lr 1e-6:1e-1:log --budget 3 --tuning-seeds 2 --test-seeds 3 --eval-episodes 2 --method halving"
    main(["search", "echo", *flags.split(), "--run-dir", "found"])
    out = capsys.readouterr().out
    kept = json.loads(Path("found/checklist.json").read_text())
    assert f"Best: lr={kept['best']['lr']:.4g}" in out
    assert "On 3 test seeds: return" in out
    assert "jaxrl report found" in out
    main(["report", "found"])
    assert "| echo | echo | 3 | return |" in capsys.readouterr().out


@pytest.mark.usefixtures("_echo_command")
@pytest.mark.parametrize(
    ("command", "sentence"),
    [
        ("search", "Say which algorithm: jaxrl search ALGO"),
        ("search echo", "Say what to search: give a flag a range"),
        ("search echo --lr 1e-3 1e-2 --budget 0", "budget must be at least 1"),
        ("search echo --lr 1e-3 1e-2 --method gird", "gird"),
    ],
)
def test_a_wrong_command_is_explained(command: str, sentence: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exit_info:
        main(command.split())
    assert exit_info.value.code == 2
    assert sentence in capsys.readouterr().err
