"""What a search writes, how it goes on after a stop, wrong input, the command."""

import dataclasses
import json
import os
import signal
from pathlib import Path
from typing import Any

import echo
import jax
import jax.numpy as jnp
import pytest
from searches import CONFIG, OPTIONS, RATES, UPDATES, search

import jaxrl
from jaxrl.algorithm import Algorithm
from jaxrl.algos import ppo, self_play, td3
from jaxrl.cli import main
from jaxrl.cli.sweep import outcome
from jaxrl.report import collect
from jaxrl.train.fit import fit
from jaxrl.train.folder.lock import locked
from jaxrl.train.folder.run_folder import RunFolder
from jaxrl.train.intervals import ChunkSizer
from jaxrl.tuning import PBT, Grid, Halving, Random

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
        pytest.param(Halving(), 3, 8, marks=pytest.mark.slow),
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
        for module in ("jaxrl.tuning.methods", "jaxrl.tuning.search", "jaxrl.tuning.member_groups"):
            patch.setattr(f"{module}.fit", lambda *args, **options: fit(*args, **options, callbacks=[on_row]))
        stopped = search(tmp_path / "search", method=method, budget=budget)
    assert stopped.stopped == "SIGTERM"
    assert json.loads((tmp_path / "search" / "checklist.json").read_text())["status"] == "stopped"
    after = search(tmp_path / "search", method=method, budget=budget)
    assert (after.best, after.trials, after.test) == (whole.best, whole.trials, whole.test)


@pytest.mark.usefixtures("_no_deadly_signal")
def test_a_signal_after_the_last_training_stops_the_search(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = search(tmp_path / "whole", budget=2)

    def fit_and_signal(*args: Any, **options: Any) -> Any:
        result = fit(*args, **options)
        os.kill(os.getpid(), signal.SIGTERM)
        return result

    monkeypatch.setattr("jaxrl.tuning.search.fit", fit_and_signal)
    stopped = search(tmp_path / "search", budget=2)
    assert stopped.stopped == "SIGTERM"
    monkeypatch.undo()
    assert search(tmp_path / "search", budget=2).test == whole.test


# Wrong input


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"tuning_seeds": [0, 5], "test_seeds": [5, 6]}, r"Seeds \[5\] are for tuning and for testing"),
        ({"method": "grit"}, "There is no search method 'grit'. Did you mean grid"),
        ({"budget": 0}, "budget must be a whole number of at least 1"),
        ({"env": ["echo", "other"]}, "A search compares scores in one environment; use jaxrl sweep"),
        ({"total_timesteps": [36, 72]}, "A search compares runs of one length, which its budget counts; use jaxrl"),
        ({"method": "grid"}, "A grid is made of lists, but lr has a range"),
        ({"method": "grid", "lr": [0.1, 0.2], "budget": 1}, "more than the budget of 1"),
        ({"method": "halving", "width": [1, 2]}, "each value of width needs its own; search those with random"),
        ({"method": "halving", "max_members": 4}, "more than max_members=4; lower the budget"),
        ({"method": Halving(eta=1)}, "eta must be at least 2"),
        ({"method": PBT(generations=40)}, r"36 updates .* into 40 .*total_timesteps=40 .*, or.*PBT\(generations=18\)"),
        ({"method": PBT(quantile=0.7)}, "a quantile above 0 and up to 0.5"),
        ({"method": PBT(finalists=0)}, "finalists must be at least 1"),
        ({"method": "pbt", "budget": 1, "tuning_seeds": 1}, "PBT needs a population"),
    ],
)
def test_wrong_input_is_explained_before_anything_is_written(
    options: dict[str, Any], sentence: str, tmp_path: Path
) -> None:
    with pytest.raises(ValueError, match=sentence):
        search(tmp_path / "search", **options)
    assert not (tmp_path / "search").exists()


@pytest.mark.parametrize("method", ["random", "halving", "pbt"])
def test_what_no_run_would_take_is_explained_as_early(method: str, tmp_path: Path) -> None:
    """Whether the method trains its points in groups or side by side in one program."""
    rates: dict[str, Any] = {"lr": RATES, "method": method, "quiet": True}
    league = self_play.Config(env="matrix/rock_paper_scissors", league=("main", "exploiter"))
    with pytest.raises(ValueError, match="cannot be points of a sweep or a search"):
        jaxrl.search(self_play, league, tmp_path / "search", **rates)
    with pytest.raises(ValueError, match="There is no environment 'CartPole-v2'"):
        jaxrl.search(ppo, ppo.Config(env="CartPole-v2"), tmp_path / "search", **rates)
    with pytest.raises(ValueError, match="log_every must be positive"):
        search(tmp_path / "search", method=method, log_every=0)
    # Only some points are refused; a population may come to them late.
    noisy, noise = td3.Config(exploration_noise_min=0.1), {**rates, "lr": [1e-3], "exploration_noise": (0.05, 0.5)}
    with pytest.raises(ValueError, match=r"exploration_noise_min=0\.1 is more than exploration_noise=0\.0"):
        jaxrl.search(td3, noisy, tmp_path / "search", **noise)
    assert not (tmp_path / "search").exists()


def test_a_search_whose_trials_are_all_alike_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    spaces: list[dict[str, Any]] = [{"width": [1, 2]}, {"lr": [1e-3, 1e-2]}]
    for space in spaces:
        jaxrl.search(echo, CONFIG, method="grid", **OPTIONS | {"quiet": False}, **space)
        alike = "width" in space
        assert ("All 2 trials have the score" in capsys.readouterr().out) == alike


def test_a_test_seed_that_diverges_has_no_say(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who has diverged acts all the same, here for a return of 999; a search that is called again says so too."""
    made = echo.make

    def make(config: echo.Config) -> Algorithm:
        algo, unlucky = made(config), jax.random.key_data(jax.random.key(3))

        def init(key: jax.Array, hyperparams: Any = None) -> echo.State:
            state, lost = algo.init(key, hyperparams), (jax.random.key_data(key) == unlucky).all()
            return dataclasses.replace(state, params={"theta": jnp.where(lost, jnp.nan, state.params["theta"])})

        def act(state: echo.State, obs: Any, *args: Any, **given: Any) -> Any:
            action, carry = algo.act(state, obs, *args, **given)
            return jnp.nan_to_num(action, nan=999.0), carry

        return algo._replace(init=init, act=act)

    monkeypatch.setattr(echo, "make", make)
    for _ in range(2):
        result = search(tmp_path / "search", budget=1)  # on the test seeds 2, 3 and 4
        assert result.test["diverged"] == [1]
        said = outcome(result, tmp_path)
        assert "On 2 test seeds, without 1 that diverged: return" in said
        assert "999" not in said


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
    with pytest.raises(FileExistsError, match=r"holds another search: .*max_members is left out there and 4 here"):
        search(folder, max_members=4)


def test_a_search_that_goes_on_in_another_process_is_left_alone(tmp_path: Path) -> None:
    root = tmp_path / "search"
    root.mkdir()
    with locked(root), pytest.raises(FileExistsError, match=f"Another process is training in .*{os.getpid()}"):
        search(root, budget=2)
    assert list(root.iterdir()) == []


# The command


@pytest.mark.usefixtures("_echo_command")
def test_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    flags = "--lr 1e-6:1e-1:log --budget 3 --tuning-seeds 2 --test-seeds 3 --eval-episodes 2 --method halving"
    main(["search", "echo", *flags.split(), "--run-dir", "found"])
    out = capsys.readouterr().out
    kept = json.loads(Path("found/checklist.json").read_text())
    assert f"3 full runs, each with 2 seeds, is {kept['budget']['timesteps']:,} environment steps." in out
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
        ("search echo --lr 1e-3 1e-2 --budget 0", "budget must be a whole number of at least 1"),
        ("search echo --lr 1e-3 1e-2 --method gird", "gird"),
    ],
)
def test_a_wrong_command_is_explained(command: str, sentence: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exit_info:
        main(command.split())
    assert exit_info.value.code == 2
    assert sentence in capsys.readouterr().err
