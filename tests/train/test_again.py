"""The same command again: what it continues, and what it refuses with a word on what to type."""

import dataclasses
import shutil
from pathlib import Path
from typing import Any

import pytest
from toy_runs import CONFIG, read_rows, run

from jaxrl.train.again import continues
from jaxrl.train.lock import locked
from jaxrl.train.run_folder import RunFolder

OPTIONS = {"num_seeds": 1, "log_every": 2, "eval_every": None, "eval_episodes": 8, "checkpoint_every_updates": 4}


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A whole run."""
    place = tmp_path_factory.mktemp("runs") / "run"
    run(run_dir=place, log_every=2, checkpoint_every_updates=4)
    return place


@pytest.fixture
def folder(template: Path, tmp_path: Path) -> RunFolder:
    """As if its process had been killed."""
    shutil.copytree(template, tmp_path / "run")
    folder = RunFolder(tmp_path / "run")
    folder.write({**folder.read(), "status": "running"})
    return folder


def ended(folder: RunFolder, **facts: Any) -> None:
    folder.write({**folder.read(), **facts})


def refusal(folder: RunFolder, config: Any = CONFIG, **options: Any) -> str:
    with pytest.raises(FileExistsError) as error:
        continues(folder.path, config, {**OPTIONS, **options})
    return str(error.value)


def test_an_unfinished_run_is_continued(folder: RunFolder) -> None:
    assert continues(folder.path, CONFIG, OPTIONS)
    ended(folder, status="stopped")
    assert continues(folder.path, CONFIG, {**OPTIONS, "checkpoint_every_updates": None, "quiet": True})
    result = run(run_dir=folder.path, log_every=2, resume=True)
    assert int(result.state.update) == 10
    assert folder.read()["resumed"] == 1


def test_a_new_folder_is_a_new_run(tmp_path: Path) -> None:
    assert not continues(tmp_path / "new", CONFIG, OPTIONS)
    (tmp_path / "notes.txt").write_text("mine")
    assert not continues(tmp_path, CONFIG, OPTIONS)  # `fit` will refuse it


def test_another_run_is_refused_with_the_difference(folder: RunFolder) -> None:
    text = refusal(folder, dataclasses.replace(CONFIG, lr=0.5, sizes=(7,)), num_seeds=2, log_every=None)
    assert "lr is 1.0 there and 0.5 here, sizes is [1, 2] there and [7] here" in text
    assert "num_seeds is 1 there and 2 here, log_every is 2 there and left out here" in text
    assert f"continue that one with `jaxrl resume {folder.path}`" in text


def test_a_finished_run_is_not_trained_again(folder: RunFolder) -> None:
    ended(folder, status="finished")
    assert "it is finished: `jaxrl eval" in refusal(folder)


def test_a_diverged_run_says_how_to_go_on(folder: RunFolder) -> None:
    ended(folder, status="diverged", error="After update 7 of 10 training has diverged: not finite: policy.")
    text = refusal(folder)
    assert "After update 7 of 10 training has diverged" in text
    assert f"jaxrl resume {folder.path} --on-nan skip" in text


def test_a_run_whose_last_save_failed_is_continued(folder: RunFolder) -> None:
    ended(folder, status="unsaved")
    assert continues(folder.path, CONFIG, OPTIONS)


def test_a_run_that_goes_on_elsewhere_is_left_alone(folder: RunFolder) -> None:
    with locked(folder.path):
        assert "Another process is training in" in refusal(folder)
        with pytest.raises(FileExistsError, match="Another process"):
            run(run_dir=folder.path, resume=True)


def test_without_a_checkpoint_it_begins_anew_and_loses_nothing(
    folder: RunFolder, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.rmtree(folder.checkpoints)
    assert not continues(folder.path, CONFIG, OPTIONS)
    said = capsys.readouterr().err
    assert (
        f"was interrupted before its first checkpoint, so it begins anew; what it had written is in {folder.path}"
        in said
    )
    assert len(read_rows(folder.path / "interrupted-1" / "metrics.jsonl")) == 5
    run(run_dir=folder.path)  # there is room for it now
    assert folder.read()["status"] == "finished"


def test_a_run_that_was_killed_while_compiling_leaves_nothing_behind(folder: RunFolder) -> None:
    shutil.rmtree(folder.checkpoints)
    folder.metrics.path.unlink()
    assert not continues(folder.path, CONFIG, OPTIONS)
    run(run_dir=folder.path)
    assert not list(folder.path.glob("interrupted-*"))


def test_a_damaged_run_json_is_named(folder: RunFolder) -> None:
    (folder.path / "run.json").write_text("{")
    assert "run.json is damaged" in refusal(folder)
