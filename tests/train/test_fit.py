"""The training loop: what it writes, that chunks change nothing, how it ends early and goes on again."""

import dataclasses
import json
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import toy_algorithm as toy
from toy_runs import ALGO, CONFIG, assert_same_state, read_rows, run, timeless

from jaxrl.errors import CheckpointError, DivergedError
from jaxrl.train.evaluate import evaluate
from jaxrl.train.folder.checkpoint import Checkpoints
from jaxrl.train.intervals import ChunkSizer
from jaxrl.train.programs import compile_programs, member_keys
from jaxrl.train.result import Result, UnsavedError


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of one uninterrupted run."""
    return tmp_path_factory.mktemp("runs") / "whole"


@pytest.fixture(scope="module")
def whole(folder: Path) -> Result:
    return run(run_dir=folder, eval_every=4, log_every=3, checkpoint_every_updates=3)


# What a run leaves


@pytest.mark.quick
def test_metrics_has_a_row_every_log_interval_and_at_the_end(whole: Result, folder: Path) -> None:
    rows = read_rows(folder / "metrics.jsonl")
    assert [row["timesteps"] for row in rows] == [24, 48, 72, 80]
    names = ["timesteps", "seconds", "steps_per_second", "episodes", "return_mean", "length_mean", "win_rate", "losses"]
    assert list(rows[0]) == names
    assert list(rows[0]["losses"]) == ["policy"]
    np.testing.assert_allclose(rows[0]["losses"]["policy"], (1 + 1 / 2 + 1 / 3) / 3, rtol=1e-6)
    np.testing.assert_allclose(rows[3]["losses"]["policy"], 1 / 10, rtol=1e-6)
    assert rows[0]["seconds"] < rows[-1]["seconds"] <= whole.train_seconds


def test_the_result_holds_the_columns(whole: Result) -> None:
    assert whole.metrics["timesteps"].tolist() == [24, 48, 72, 80]
    assert set(whole.metrics) >= {"win_rate", "return_mean", "episodes", "losses/policy"}
    assert whole.stopped is None
    assert int(whole.state.update) == 10


def test_evaluation_uses_the_parameters_of_the_moment(whole: Result, folder: Path) -> None:
    """The toy acts well from the fifth update on; the same episodes are played every time, with keys of their own."""
    rows = read_rows(folder / "evaluations.jsonl")
    assert [row["timesteps"] for row in rows] == [0, 32, 64, 80]
    assert [row["win_rate"] for row in rows] == [0.0, 0.0, 1.0, 1.0]
    assert len({row["length_mean"] for row in rows}) == 1
    assert whole.evaluation is not None
    assert {name: rows[-1][name] for name in whole.evaluation} == whole.evaluation
    played = evaluate(ALGO, CONFIG.make_env(), whole.state, member_keys(0, 1, stream=1), 8)
    assert whole.evaluation == played.summary()


def test_run_json_tells_what_was_run_and_how_it_went(whole: Result, folder: Path) -> None:
    about = json.loads((folder / "run.json").read_text())
    assert about["status"] == "finished"
    assert (about["env"], about["seed"], about["num_seeds"]) == ("toy/countdown", 0, 1)
    assert about["algorithm"] == "toy_algorithm"
    assert about["config"]["sizes"] == [1, 2]
    assert about["evaluation"] == whole.evaluation
    assert about["steps_per_second"] == pytest.approx(80 / whole.train_seconds, abs=0.1)
    assert about["compile_seconds"] > 0
    assert set(about["versions"]) >= {"python", "jax", "jaxrl"}
    assert "devices" in about
    assert "git" in about


def test_checkpoints_come_at_intervals_and_at_the_end(whole: Result, folder: Path) -> None:
    checkpoints = Checkpoints(folder / "checkpoints")
    assert checkpoints.updates == [6, 9, 10]
    restored = checkpoints.restore(jax.eval_shape(lambda: whole.state))
    assert_same_state(restored.state, whole.state)


# Chunks


def test_how_updates_are_grouped_changes_nothing(whole: Result, monkeypatch: pytest.MonkeyPatch) -> None:
    lengths = iter([1, 2, 5, 1, 1])
    asked: list[int] = []

    def choose(self: ChunkSizer, limit: int) -> int:
        asked.append(min(next(lengths), limit))
        return asked[-1]

    monkeypatch.setattr(ChunkSizer, "next", choose)
    other = run(log_every=3)
    assert asked == [1, 2, 5, 1, 1]
    assert_same_state(other.state, whole.state)
    for name in set(whole.metrics) - {"seconds", "steps_per_second"}:
        np.testing.assert_array_equal(other.metrics[name], whole.metrics[name])


def test_update_is_traced_once_and_its_state_is_donated() -> None:
    update = chex.assert_max_traces(ALGO.update, n=1)
    programs = compile_programs(ALGO._replace(update=update), CONFIG, episodes=2)
    state = programs.init()
    given = jax.tree.leaves(state)
    for n in (1, 3, 2):
        state, metrics = programs.chunk(state, n)
    assert int(state.update) == 6
    assert all(leaf.is_deleted() for leaf in given)
    assert metrics["losses"]["policy"].shape == (programs.max_chunk,)


@pytest.mark.usefixtures("nothing_compiled")
def test_what_came_from_the_compilation_cache_is_not_passed_off_as_compiled() -> None:
    config = toy.Config(lr=1.25)
    assert not run(toy.make(config), config).compile_cached
    assert run(toy.make(config), config).compile_cached


# Members


@pytest.fixture(scope="module")
def members() -> Result:
    return run(num_seeds=3, log_every=3)


def test_member_m_is_the_run_with_seed_plus_m(whole: Result, members: Result) -> None:
    alone = [whole, run(config=dataclasses.replace(CONFIG, seed=1), log_every=3)]
    for m, single in enumerate(alone):
        for name in ("episodes", "win_rate", "losses/policy"):
            np.testing.assert_allclose(members.metrics[name][:, m], single.metrics[name], rtol=1e-6)
        assert members.evaluation is not None
        assert single.evaluation is not None
        assert members.evaluation["length_mean"][m] == single.evaluation["length_mean"]
    assert members.metrics["timesteps"].tolist() == [24, 48, 72, 80]
    assert jax.tree.leaves(members.state)[0].shape[0] == 3


def test_steps_per_second_counts_all_members(members: Result) -> None:
    assert members.steps_per_second == pytest.approx(3 * 80 / members.train_seconds)


# Ends before the end


def test_a_loss_that_is_not_finite_stops_training_and_keeps_the_last_good_checkpoint(tmp_path: Path) -> None:
    config = toy.Config(nan_at=7)
    with pytest.raises(DivergedError, match=r"After update 7 of 10 .*policy.*last good checkpoint"):
        run(toy.make(config), config, tmp_path / "run", checkpoint_every_updates=5)
    about = json.loads((tmp_path / "run" / "run.json").read_text())
    assert about["status"] == "diverged"
    assert "update 7" in about["error"]
    assert Checkpoints(tmp_path / "run" / "checkpoints").updates == [5]


def test_a_diverged_member_is_named_and_harms_no_other(capsys: pytest.CaptureFixture[str], members: Result) -> None:
    noise = np.asarray(members.state.params["noise"])[:, 0]
    config = toy.Config(nan_at=7, nan_above=float(np.sort(noise)[1]))  # only the largest
    result = run(toy.make(config), config, num_seeds=3, log_every=3)
    assert (
        f"After update 7 of 10 seed {noise.argmax()} (member {noise.argmax()}) has diverged" in capsys.readouterr().err
    )
    assert np.isfinite(result.metrics["losses/policy"][-2]).tolist() == (np.arange(3) != noise.argmax()).tolist()


def test_params_that_are_not_finite_are_never_saved(tmp_path: Path) -> None:
    """The loss is that of the parameters before the last step, so it may still look well."""
    config = toy.Config(lr=float("nan"))

    def update(state: Any) -> Any:
        state, metrics = toy.make(config).update(state)
        return state, {**metrics, "losses": {"policy": jnp.float32(0)}}

    with pytest.raises(DivergedError, match=r"\['theta'\] are no longer finite"):
        run(ALGO._replace(update=update), config, tmp_path / "run")
    assert Checkpoints(tmp_path / "run" / "checkpoints").updates == []


def test_on_row_can_end_training(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ChunkSizer, "next", lambda self, limit: 1)
    result = run(run_dir=tmp_path / "run", log_every=1, callbacks=[lambda row: row["timesteps"] >= 24])
    assert result.stopped == "callback"
    assert result.evaluation is not None
    assert 3 <= int(result.state.update) < 10


@pytest.mark.parametrize("timesteps", [24, 80])
def test_what_on_row_raises_is_raised_when_all_is_saved(
    whole: Result, folder: Path, tmp_path: Path, timesteps: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the middle, and with the last row."""
    monkeypatch.setattr(ChunkSizer, "next", lambda self, limit: 1)
    seen: list[int] = []

    def on_row(row: dict[str, Any]) -> None:
        seen.append(row["timesteps"])
        if row["timesteps"] >= timesteps:
            raise ZeroDivisionError

    options: dict[str, Any] = {"log_every": 3, "eval_every": 4}
    with pytest.raises(ZeroDivisionError):
        run(run_dir=tmp_path / "run", callbacks=[on_row], **options)
    assert seen == [24, 48, 72, 80][: seen.index(timesteps) + 1]  # it is not called again
    [update] = Checkpoints(tmp_path / "run" / "checkpoints").updates
    assert timesteps <= 8 * update <= timesteps + 16
    result = run(run_dir=tmp_path / "run", resume=True, **options)
    assert_same_state(result.state, whole.state)
    for name in ("metrics.jsonl", "evaluations.jsonl"):
        assert timeless(read_rows(tmp_path / "run" / name)) == timeless(read_rows(folder / name))


def stop_by(number: int) -> Callable[[dict[str, Any]], None]:
    def on_row(row: dict[str, Any]) -> None:
        if row["timesteps"] == 32:
            os.kill(os.getpid(), number)

    return on_row


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_saves_and_resuming_gives_the_uninterrupted_run(
    whole: Result, folder: Path, tmp_path: Path, number: signal.Signals, monkeypatch: pytest.MonkeyPatch
) -> None:
    # One update a chunk: training stops in the middle of a log interval.
    monkeypatch.setattr(ChunkSizer, "next", lambda self, limit: 1)
    place = tmp_path / "run"
    first = run(run_dir=place, log_every=1, eval_every=4, callbacks=[stop_by(number)])
    assert first.stopped == number.name
    assert first.evaluation is None
    assert json.loads((place / "run.json").read_text())["status"] == "stopped"
    done = int(first.state.update)
    assert Checkpoints(place / "checkpoints").updates == [done]
    assert 4 <= done <= 6

    with (place / "metrics.jsonl").open("a") as file:
        file.write('{"written": "after the checkpoint"}\n')
    second = run(run_dir=place, log_every=1, eval_every=4, resume=True)
    assert_same_state(second.state, whole.state)
    assert [row["timesteps"] for row in read_rows(place / "metrics.jsonl")] == list(range(8, 88, 8))
    assert [r["timesteps"] for r in read_rows(place / "evaluations.jsonl")] == [0, 32, 64, 80]
    assert second.evaluation == whole.evaluation


def test_resuming_inside_a_row_neither_loses_nor_doubles_anything(
    whole: Result, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ChunkSizer, "next", lambda self, limit: 1)
    place = tmp_path / "run"
    first = run(run_dir=place, log_every=3, callbacks=[lambda row: row["timesteps"] == 24])
    assert int(first.state.update) % 3 != 0
    run(run_dir=place, log_every=3, resume=True)
    assert timeless(read_rows(place / "metrics.jsonl")) == timeless(read_rows(folder / "metrics.jsonl"))


def test_a_failed_save_does_not_end_training_but_is_an_error_in_the_end(
    whole: Result, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def save(self: Checkpoints, *args: Any) -> Path:
        raise CheckpointError("The disk is full.")

    monkeypatch.setattr(Checkpoints, "save", save)
    with pytest.raises(UnsavedError, match="The disk is full") as error:
        run(run_dir=tmp_path / "run", checkpoint_every_updates=5)
    assert_same_state(error.value.result.state, whole.state)
    assert error.value.result.evaluation == whole.evaluation
    assert capsys.readouterr().err.count("The disk is full") == 2
    assert json.loads((tmp_path / "run" / "run.json").read_text())["status"] == "unsaved"


# Wrong input


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"num_seeds": 0}, "num_seeds must be a whole number of at least 1"),
        ({"eval_episodes": 0}, "eval_episodes must be a whole number of at least 1"),
        ({"eval_every": -1}, "eval_every must be positive"),
        ({"eval_every": 2.5}, r"eval_every must be a whole number or None; got 2\.5"),
        ({"log_every": True}, "log_every must be a whole number or None; got True"),
        ({"checkpoint_every_minutes": float("nan")}, "checkpoint_every_minutes must be a finite number"),
        ({"keep_checkpoints": 5}, "give a run_dir"),
        ({"num_seeds": 3, "members": [{"seed": 0}, {"seed": 1}]}, "num_seeds=3 has no effect with 2 members"),
        ({"members": []}, "the number of members must be a whole number of at least 1"),
        ({"members": [{"seed": 2**32}]}, "seed must be a whole number from 0 to 4294967295"),
        ({"checkpoint_every_updates": 3}, "give a run_dir"),
        ({"resume": True}, "give a run_dir"),
    ],
)
def test_wrong_options_are_explained(options: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        run(**options)


def test_a_folder_with_a_run_is_not_overwritten(whole: Result, folder: Path) -> None:
    with pytest.raises(
        FileExistsError, match=r"already holds a run; continue it with `jaxrl resume .* name another one"
    ):
        run(run_dir=folder)
