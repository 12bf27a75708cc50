"""Callbacks are told what happens and may end training; a goal does so too, and run.json says it."""

import json
import math
from pathlib import Path
from typing import Any

import pytest
from toy_runs import assert_same_state, read_rows, run, timeless

from jaxrl.train.callbacks import Callback, OwnCallbacks
from jaxrl.train.folder.run_folder import RunFolder
from jaxrl.train.intervals import ChunkSizer
from jaxrl.train.result import Result


class Notes(Callback):
    def __init__(self) -> None:
        self.heard: list[Any] = []

    def row(self, row: dict[str, Any]) -> None:
        self.heard.append(("row", row["timesteps"]))

    def evaluation(self, row: dict[str, Any]) -> None:
        self.heard.append(("evaluation", row["timesteps"]))

    def end(self, result: Any) -> None:
        self.heard.append(("end", result))


@pytest.fixture(scope="module")
def whole() -> Result:
    return run(log_every=4, eval_every=6)


def test_a_callback_hears_of_rows_evaluations_and_the_end() -> None:
    notes = Notes()
    result = run(log_every=4, eval_every=6, callbacks=[notes])
    assert sorted(notes.heard[:-1]) == sorted(
        [("evaluation", 0), ("row", 32), ("evaluation", 48), ("row", 64), ("row", 80), ("evaluation", 80)]
    )
    assert notes.heard[-1] == ("end", result)


def test_an_evaluation_can_end_training_right_there() -> None:
    class Enough(Callback):
        def evaluation(self, row: dict[str, Any]) -> bool:
            return row["win_rate"] == 1.0

    notes = Notes()
    result = run(eval_every=3, callbacks=[Enough(), notes])
    assert (result.stopped, int(result.state.update)) == ("callback", 6)
    assert notes.heard[-2][0] == "evaluation"  # the others hear all the same
    assert result.evaluation is not None


def test_what_is_not_known_yet_compares_like_a_number() -> None:
    heard: list[dict[str, Any]] = []
    OwnCallbacks([heard.append]).row({"return_mean": None, "returns": {"wolf": [None, 1.0]}, "episodes": 0})
    [row] = heard
    assert not row["return_mean"] > 400
    assert math.isnan(row["returns"]["wolf"][0])
    assert row["returns"]["wolf"][1] == 1.0


def test_an_exception_in_the_last_evaluation_is_raised_when_all_is_saved(tmp_path: Path) -> None:
    class Fails(Callback):
        def evaluation(self, row: dict[str, Any]) -> None:
            if row["timesteps"] == 80:
                raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        run(run_dir=tmp_path / "run", callbacks=[Fails()])
    assert RunFolder(tmp_path / "run").read()["status"] == "finished"


def test_an_exception_on_the_way_ends_the_run_for_those_who_read_its_folder(tmp_path: Path) -> None:
    def fails(row: dict[str, Any]) -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        run(run_dir=tmp_path / "run", log_every=4, callbacks=[fails])
    assert RunFolder(tmp_path / "run").read()["status"] == "stopped"
    assert int(run(run_dir=tmp_path / "run", log_every=4, resume=True).state.update) == 10


def test_a_class_instead_of_an_object_is_refused() -> None:
    with pytest.raises(TypeError, match=r"callbacks=\[MyCallback\(\)\]"):
        run(callbacks=[Notes])


def test_a_single_callback_stands_in_a_list_too() -> None:
    for single in (Notes(), lambda row: None):
        with pytest.raises(TypeError, match=r"callbacks is a list, .* write callbacks=\[…\]"):
            run(callbacks=single)


# A goal


def test_a_goal_ends_training_at_the_first_evaluation_that_reaches_it(tmp_path: Path) -> None:
    """The toy wins from the fifth update on, so the evaluation after six of them is the first to see it."""
    result = run(run_dir=tmp_path / "run", log_every=4, eval_every=2, stop_at=0.9)
    assert (result.stopped, int(result.state.update)) == ("goal", 6)
    about = json.loads((tmp_path / "run" / "run.json").read_text())
    assert about["status"] == "finished"
    assert about["goal"] == {"stop_at": 0.9, "metric": "win_rate", "score": 1.0, "timesteps": 48}
    assert about["evaluation"]["win_rate"] == 1.0
    steps = [row["timesteps"] for row in read_rows(tmp_path / "run" / "evaluations.jsonl")]
    assert steps == [0, 16, 32, 48]  # the last one is not played again


def test_without_an_interval_a_run_with_a_goal_has_twenty_evaluations(tmp_path: Path) -> None:
    result = run(run_dir=tmp_path / "run", stop_at=2.0)
    assert len(read_rows(tmp_path / "run" / "evaluations.jsonl")) == 1 + 10  # it has but ten updates
    assert result.stopped is None
    assert json.loads((tmp_path / "run" / "run.json").read_text())["goal"] is None


def test_the_mean_of_the_seeds_has_to_reach_the_goal() -> None:
    result = run(num_seeds=2, eval_every=2, stop_at=0.9)
    assert (result.stopped, result.state.update.tolist()) == ("goal", [6, 6])


def test_a_higher_goal_goes_on_from_there_and_gives_the_uninterrupted_run(whole: Result, tmp_path: Path) -> None:
    place = tmp_path / "run"
    options: dict[str, Any] = {"run_dir": place, "log_every": 4, "eval_every": 6}
    assert run(stop_at=0.9, **options).stopped == "goal"
    again = run(stop_at=0.9, resume=True, **options)
    assert (again.stopped, int(again.state.update)) == ("goal", 6)
    assert [row["timesteps"] for row in read_rows(place / "evaluations.jsonl")] == [0, 48]  # which is not played again
    result = run(stop_at=2.0, resume=True, **options)
    assert (result.stopped, int(result.state.update)) == (None, 10)
    assert_same_state(result.state, whole.state)
    assert [row["timesteps"] for row in timeless(read_rows(place / "metrics.jsonl"))] == [32, 64, 80]


def test_a_run_that_is_killed_at_its_goal_stays_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ChunkSizer, "next", lambda self, limit: 1)
    place = tmp_path / "run"
    run(run_dir=place, eval_every=2, stop_at=0.9)
    folder = RunFolder(place)
    folder.write({name: value for name, value in folder.read().items() if name != "goal"} | {"status": "running"})
    result = run(run_dir=place, eval_every=2, stop_at=0.9, resume="auto")
    assert (result.stopped, int(result.state.update)) == ("goal", 6)
    assert folder.read()["goal"]["timesteps"] == 48
