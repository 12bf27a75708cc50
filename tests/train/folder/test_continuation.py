"""What is continued and what begins anew; nothing is ever deleted."""

import dataclasses
import shutil
from pathlib import Path
from typing import Any

import pytest
from stopped_runs import OPTIONS, change, content, pretend, refusal, stage
from toy_runs import CONFIG, assert_same_state, read_rows, run

from jaxrl.algos import ippo
from jaxrl.errors import CheckpointError
from jaxrl.train.folder.continuation import Stage, decide, open_run
from jaxrl.train.folder.provenance import surroundings
from jaxrl.train.folder.run_folder import RunFolder
from jaxrl.train.folder.same_run import MAY_CHANGE, wanted
from jaxrl.train.rerun import warnings_for
from jaxrl.train.run import SearchRun, Segment

# What is continued


@pytest.mark.parametrize("status", ["running", "stopped", "unsaved"])
def test_an_unfinished_run_is_continued(folder: RunFolder, status: str) -> None:
    change(folder, status=status)
    assert stage(folder) is Stage.UNFINISHED


def test_a_run_that_met_another_is_continued_from_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its configuration names the other run's folder as it is found from here; run.json keeps it as it was typed."""
    typed = ippo.Config(env="smax/3m?mode=selfplay", policies={"enemy_.*": "runs/theirs"})
    folder = pretend(tmp_path / "runs" / "ours", typed)
    for name in ("theirs", "others"):
        (tmp_path / "runs" / name).mkdir()
        (tmp_path / "runs" / name / "run.json").touch()
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    theirs, others = (
        dataclasses.replace(typed, policies=(f"enemy_.*={tmp_path / 'runs' / name}",)) for name in ("theirs", "others")
    )
    assert stage(folder, theirs) is Stage.UNFINISHED
    assert "policies is" in refusal(folder, others)
    with open_run(folder.path, theirs, surroundings() | wanted(theirs, 1, OPTIONS), resume=True) as begun:
        assert begun.about["config"]["policies"] == ["enemy_.*=runs/theirs"]


@pytest.mark.parametrize("name", sorted(MAY_CHANGE))
def test_options_that_decide_no_row_may_change(folder: RunFolder, name: str) -> None:
    assert stage(folder, **{name: "another"}) is Stage.UNFINISHED


@pytest.mark.parametrize("resume", [True, "auto"])
def test_a_continued_run_keeps_command_and_notes(folder: RunFolder, resume: Any) -> None:
    change(folder, command="jaxrl train toy", rollout_share=0.5, error="of another time")
    shutil.rmtree(folder.checkpoints / "10")
    result = run(run_dir=folder.path, log_every=2, resume=resume, search=SearchRun(notes={"more": 1}))
    assert int(result.state.update) == 10
    about = folder.read()
    assert (about["command"], about["resumed"], about["status"]) == ("jaxrl train toy", 1, "finished")
    assert (about["purpose"], about["more"], about["rollout_share"]) == ("a test", 1, 0.5)
    assert "error" not in about


def test_what_has_changed_around_a_continued_run_is_said_and_kept(folder: RunFolder) -> None:
    """Otherwise run.json would name today's settings alone, as if the whole run had been trained with them."""
    change(folder, jax_settings={**folder.read()["jax_settings"], "jax_enable_x64": "True"}, changed=["An old one."])
    run(run_dir=folder.path, log_every=2, resume=True)
    sentence = "JAX_ENABLE_X64 was True and is False now."
    [said] = [event["text"] for event in read_rows(folder.path / "events.jsonl") if event["kind"] == "changed"]
    assert said.endswith(sentence)
    assert folder.read()["changed"] == ["An old one.", sentence]
    assert any(sentence in warning for warning in warnings_for(folder.read()))


def test_a_run_that_cannot_be_restored_keeps_what_its_run_json_says(folder: RunFolder) -> None:
    run(run_dir=folder.path, log_every=2, resume=True)
    before = folder.read()
    for checkpoint in folder.checkpoints.iterdir():
        shutil.rmtree(checkpoint / "state")
    longer = dataclasses.replace(CONFIG, total_timesteps=160)
    with pytest.raises(CheckpointError, match="intact"):
        run(config=longer, run_dir=folder.path, log_every=2, resume=True)
    assert folder.read() == before


def test_auto_begins_where_there_is_nothing(tmp_path: Path) -> None:
    run(run_dir=tmp_path / "run", log_every=2, resume="auto")
    assert stage(RunFolder(tmp_path / "run")) is Stage.FINISHED


def test_a_finished_run_is_restored_and_stays_as_it_is(folder: RunFolder) -> None:
    change(folder, status="finished")
    before = content(folder.path)
    whole = run(log_every=2)
    again = run(run_dir=folder.path, log_every=2, resume="auto")
    assert_same_state(again.state, whole.state)
    assert again.evaluation == whole.evaluation
    after = content(folder.path)
    assert {name for name in before if before[name] != after.get(name)} <= {
        "run.json",
        "live.json",
        "evaluations.jsonl",  # the same row, with another time
    }


def test_a_run_that_ended_early_of_its_own_will_is_not_finished(tmp_path: Path) -> None:
    folder = pretend(tmp_path / "run", CONFIG)
    change(folder, status="finished", timesteps=CONFIG.total_timesteps - 8)
    assert stage(folder) is Stage.UNFINISHED
    change(folder, timesteps=CONFIG.total_timesteps)
    assert stage(folder) is Stage.FINISHED


def test_a_segment_of_a_run_is_finished_at_its_own_end(tmp_path: Path) -> None:
    folder = pretend(tmp_path / "run", CONFIG, segment=(0, 4))
    change(folder, status="finished", timesteps=4 * 8)
    about = wanted(CONFIG, 1, OPTIONS, segment=(0, 4))
    assert decide(folder, CONFIG, about) is Stage.FINISHED
    assert "segment is [0, 4] there and left out here" in refusal(folder)
    with pytest.raises(FileExistsError, match=r"segment is \[0, 4\] there and \[4, 10\] here"):
        run(run_dir=folder.path, log_every=2, search=SearchRun(segment=Segment(4, 10)), resume="auto")


# What begins anew


def begin(folder: RunFolder) -> None:
    """As `fit` does, up to where it would train."""
    with open_run(folder.path, CONFIG, wanted(CONFIG, 1, OPTIONS), "auto") as begun:
        assert not begun.continues
        assert not (folder.path / "run.json").exists()


def test_without_a_checkpoint_it_begins_anew_and_loses_nothing(
    folder: RunFolder, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.rmtree(folder.checkpoints)
    before = content(folder.path)
    with pytest.raises(CheckpointError, match="given again, begins it anew: "):
        run(run_dir=folder.path, log_every=2, resume=True)
    assert content(folder.path) == before
    run(run_dir=folder.path, log_every=2, resume="auto")
    said = capsys.readouterr().err
    assert (
        f"was interrupted before its first checkpoint, so it begins anew; what it had written is in {folder.path}"
        in said
    )
    assert len(read_rows(folder.path / "interrupted-1" / "metrics.jsonl")) == 5
    assert content(folder.path / "interrupted-1") == before
    assert folder.read()["status"] == "finished"
    assert "resumed" not in folder.read()


def test_what_was_set_aside_before_stays(folder: RunFolder) -> None:
    shutil.rmtree(folder.checkpoints)
    (folder.path / "interrupted-2").mkdir()
    (folder.path / "interrupted-2" / "metrics.jsonl").write_text("earlier")
    begin(folder)
    assert (folder.path / "interrupted-2" / "metrics.jsonl").read_text() == "earlier"
    assert (folder.path / "interrupted-1" / "run.json").exists()


def test_a_process_that_is_killed_while_it_sets_aside_can_be_followed(
    folder: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.rmtree(folder.checkpoints)
    before = content(folder.path)
    rename, renamed = Path.rename, []

    def stop(self: Path, target: Path) -> Path:
        if renamed:
            raise KeyboardInterrupt
        renamed.append(self.name)
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", stop)
    with pytest.raises(KeyboardInterrupt):
        begin(folder)
    monkeypatch.undo()
    begin(folder)
    parts = [content(folder.path / f"interrupted-{i}") for i in (1, 2)]
    assert parts[0]
    assert parts[0] | parts[1] == before


def test_a_run_that_was_killed_while_compiling_leaves_nothing_behind(folder: RunFolder) -> None:
    shutil.rmtree(folder.checkpoints)
    folder.metrics.path.unlink()
    begin(folder)
    assert not list(folder.path.glob("interrupted-*"))
