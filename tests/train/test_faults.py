"""What can go wrong around a run, done to real ones: it is said clearly, and nothing is lost.

docs/reliability.md lists the faults; those of single checkpoints are in test_checkpoint.py, NaN in test_skip.py and
test_fit.py, another configuration in test_same_run.py, killed processes in test_kills.py.
"""

import json
import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from toy_runs import assert_same_state, read_rows, run, timeless

from jaxrl.algos import ppo
from jaxrl.cli import export, report, runs, watch
from jaxrl.errors import CheckpointError
from jaxrl.train.fit import fit
from jaxrl.train.folder.checkpoint import Checkpoints
from jaxrl.train.folder.load import load
from jaxrl.train.folder.run_folder import RunFolder
from jaxrl.train.intervals import ChunkSizer
from jaxrl.train.result import Result
from jaxrl.train.run import SearchRun

EVERY: dict[str, Any] = {"log_every": 1, "checkpoint_every_updates": 2}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("runs") / "hidden=[64,64]"


@pytest.fixture(scope="module")
def whole(folder: Path) -> Result:
    """Ten updates that nothing disturbs."""
    return run(run_dir=folder, **EVERY)


@pytest.fixture(autouse=True)
def one_update_a_chunk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ChunkSizer, "next", lambda self, limit: 1)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of one megabyte."""
    place = tmp_path / "disk"
    place.mkdir()
    mounted = shutil.which("mount") and subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(place)], capture_output=True
    )
    if not mounted or mounted.returncode:
        pytest.skip("only root can make a small disk")
    yield place
    subprocess.run(["umount", "--lazy", str(place)], check=True)


def fill(place: Path) -> None:
    """To the last byte."""
    with (place / "filler").open("wb", buffering=0) as file:
        for size in (65536, 4096, 256, 16, 1):
            try:
                while file.write(bytes(size)) == size:
                    pass
            except OSError:
                continue


def at(timesteps: int, act: Callable[[], object]) -> Callable[[dict[str, Any]], None]:
    """Does something when that row comes; an update has eight steps."""

    def on_row(row: dict[str, Any]) -> None:
        if row["timesteps"] == timesteps:
            act()

    return on_row


def assert_complete(place: Path, folder: Path) -> None:
    """The rows are those of the undisturbed run, without a gap, and the last state is saved."""
    assert timeless(read_rows(place / "metrics.jsonl")) == timeless(read_rows(folder / "metrics.jsonl"))
    assert json.loads((place / "run.json").read_text())["status"] == "finished"
    assert Checkpoints(place / "checkpoints").updates[-1] == 10


def test_a_full_disk_does_not_stop_training_and_is_used_again(
    whole: Result, folder: Path, disk: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def on_row(row: dict[str, Any]) -> None:
        at(24, lambda: fill(disk))(row)
        at(56, lambda: (disk / "filler").unlink())(row)

    result = run(run_dir=disk / "run", callbacks=[on_row], **EVERY)
    said = capsys.readouterr().err
    for update in (4, 6):  # the rows still find room in the last block of their file
        place = disk / "run" / "checkpoints" / str(update)
        assert (
            f"The checkpoint {place} could not be written: the disk is full (up to 100 kB are needed, 0 bytes" in said
        )
    assert said.count("Training goes on.") == 2
    assert_same_state(result.state, whole.state)
    assert_complete(disk / "run", folder)


def test_a_checkpoint_that_does_not_fit_says_how_many_bytes_it_needs(
    disk: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Here the rows still find room."""
    with Checkpoints(disk / "checkpoints") as checkpoints, pytest.raises(CheckpointError) as error:
        checkpoints.save(1, {"params": np.random.default_rng(0).random(500_000)})
    assert "checkpoints/1 could not be written: the disk is full (up to 4.1 MB are needed, " in str(error.value)
    assert not list((disk / "checkpoints").iterdir())  # nothing that takes up the room


def test_a_disk_that_stays_full_is_an_error_in_the_end_and_the_same_run_can_be_finished(
    whole: Result, folder: Path, disk: Path
) -> None:
    place = disk / "run"
    with pytest.raises(CheckpointError, match="the disk is full"):
        run(run_dir=place, callbacks=[at(40, lambda: fill(disk))], **EVERY)
    assert json.loads((place / "run.json").read_text())["status"] == "running"  # the last that could be written
    (disk / "filler").unlink()
    result = run(run_dir=place, resume=True, **EVERY)
    assert_same_state(result.state, whole.state)
    assert_complete(place, folder)


def test_a_file_system_that_becomes_read_only_is_the_same_to_training(
    whole: Result, folder: Path, disk: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def remount(how: str) -> None:
        subprocess.run(["mount", "-o", f"remount,{how}", str(disk)], check=True)

    with pytest.raises(CheckpointError, match="the file system is read-only"):
        run(run_dir=disk / "run", callbacks=[at(40, lambda: remount("ro"))], **EVERY)
    said = capsys.readouterr().err
    assert said.count("metrics.jsonl cannot be written: the file system is read-only") == 1
    assert "Its rows wait; training goes on." in said
    with pytest.raises(OSError, match=r"Nothing can be written in .*: the file system is read-only .*continue a copy"):
        run(run_dir=disk / "run", resume=True, **EVERY)
    with pytest.raises(OSError, match=r"other cannot be made: the file system is read-only"):
        run(run_dir=disk / "other", **EVERY)
    remount("rw")
    assert_same_state(run(run_dir=disk / "run", resume=True, **EVERY).state, whole.state)
    assert_complete(disk / "run", folder)


def test_a_folder_that_is_a_link_to_nothing(tmp_path: Path) -> None:
    (tmp_path / "run").symlink_to(tmp_path / "nowhere")
    with pytest.raises(OSError, match=r"run cannot be made: something has that name already, perhaps a link to noth"):
        RunFolder.create(tmp_path / "run")


def test_a_jump_of_the_clock_is_not_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Backwards by a year, forwards by a century."""
    real = time.time
    jumps = {16: -3e7, 48: 3e9}

    def on_row(row: dict[str, Any]) -> None:
        if row["timesteps"] in jumps:
            monkeypatch.setattr(time, "time", lambda: real() + jumps[row["timesteps"]])

    result = run(run_dir=tmp_path / "run", callbacks=[on_row], log_every=1, checkpoint_every_minutes=1)
    rows = read_rows(tmp_path / "run" / "metrics.jsonl")
    seconds = [row["seconds"] for row in rows]
    assert seconds == sorted(seconds)
    assert seconds[-1] <= result.train_seconds < 60
    assert min(row["steps_per_second"] for row in rows) > 0
    assert Checkpoints(tmp_path / "run" / "checkpoints").updates == [10]  # no minute has passed
    assert not (tmp_path / "run" / "events.jsonl").exists()


def damage(path: Path) -> None:
    """Cut the largest file of a checkpoint in half."""
    largest = max((p for p in path.rglob("*") if p.is_file()), key=lambda p: p.stat().st_size)
    os.truncate(largest, largest.stat().st_size // 2)


def test_a_damaged_checkpoint_costs_some_time_and_nothing_else(
    whole: Result, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place = tmp_path / "run"
    shutil.copytree(folder, place)
    shutil.rmtree(place / "checkpoints" / "10")
    damage(place / "checkpoints" / "8")
    result = run(run_dir=place, resume=True, **EVERY)
    said = capsys.readouterr().err
    assert f"The checkpoint {place / 'checkpoints' / '8'} is damaged, so an older one is used" in said
    assert "Continues after update 6 of 10." in said
    assert_same_state(result.state, whole.state)
    assert_complete(place, folder)
    assert [event["kind"] for event in read_rows(place / "events.jsonl")] == ["resumed"]


@pytest.mark.parametrize(
    ("forge", "sentence"),
    [
        (lambda extra: extra.pop("rows"), "checkpoints was changed by hand: 'rows'"),
        (lambda extra: extra.update(seconds=[]), "checkpoints was changed by hand: float"),
        (lambda extra: extra["rows"]["sums"].update(episodes=[1.0, 2.0]), "its rows have another number of members"),
        (lambda extra: extra.update(metrics_size=-1), "no good sizes of the files of rows"),
    ],
)
def test_a_forged_manifest_gets_a_sentence(
    whole: Result, folder: Path, tmp_path: Path, forge: Callable[[Any], object], sentence: str
) -> None:
    """It has no hash of its own, as those of an earlier version."""
    shutil.copytree(folder, tmp_path / "run")
    file = tmp_path / "run" / "checkpoints" / "10" / "manifest" / "metadata"
    manifest = json.loads(file.read_text())
    del manifest["sha256"]
    manifest["extra"]["rows"]["sums"]["episodes"] = 0.0
    forge(manifest["extra"])
    file.write_text(json.dumps(manifest))
    with pytest.raises(CheckpointError, match=sentence):
        run(run_dir=tmp_path / "run", resume=True, search=SearchRun(programs=whole.programs), **EVERY)


def test_rows_that_a_power_cut_has_taken_are_missed(
    whole: Result, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place = tmp_path / "run"
    shutil.copytree(folder, place)
    os.truncate(place / "metrics.jsonl", 500)
    run(run_dir=place, resume=True, **EVERY)
    assert "metrics.jsonl has lost the last" in capsys.readouterr().err
    assert b"\0" not in (place / "metrics.jsonl").read_bytes()
    assert RunFolder(place).metrics.read()  # and what is left is whole


@pytest.fixture
def without_key_reuse_check() -> Iterator[None]:
    """It is wrong about keys that are split inside a vmapped scan."""
    with jax.debug_key_reuse(False):
        yield


@pytest.mark.usefixtures("without_key_reuse_check")
def test_a_member_of_ppo_that_is_never_finite_stays_as_it_was_and_harms_no_other(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Networks, Adam, normaliser, environments: what a far too large learning rate makes of them goes nowhere."""
    config = ppo.Config(num_envs=4, num_steps=8, total_timesteps=5 * 32, hidden=(8,), normalise_obs=True)
    options: dict[str, Any] = {"quiet": True, "eval_episodes": 4, "on_nan": "skip", "log_every": 5}
    bad, good = ([{"seed": 0, "lr": 1e-3}, {"seed": 1, "lr": lr}] for lr in (1e30, 1e-3))
    result = fit(ppo.make(config), config, members=bad, **options)
    said = capsys.readouterr().err
    assert "Update 1 of 5 of seed 1, lr=1e+30 (member 1) was skipped: not finite: losses" in said
    assert result.metrics["skipped"].tolist() == [[0.0, 5.0]]
    assert result.diverged == []
    other = fit(ppo.make(config), config, members=good, search=SearchRun(programs=result.programs), **options)
    state, healthy = result.state, other.state
    for mine, others in ((state.params, healthy.params), (state.opt_state, healthy.opt_state)):
        first = [[np.asarray(leaf)[0] for leaf in jax.tree.leaves(tree)] for tree in (mine, others)]
        assert_same_state(*first)
        assert all(np.isfinite(np.asarray(leaf)).all() for leaf in jax.tree.leaves(mine))
    assert np.asarray(state.update).tolist() == [5, 5]
    assert float(np.abs(np.asarray(state.normaliser.obs.mean)[1]).max()) == 0.0  # it has seen nothing, so to speak


def test_a_run_on_a_read_only_file_system_can_be_looked_at(
    whole: Result, folder: Path, disk: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Readers make nothing, change nothing and lock nothing in a run folder."""
    shutil.copytree(folder, disk / "run")
    subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
    place, out = str(disk / "run"), tmp_path / "out"
    assert_same_state(load(place).state, whole.state)
    assert runs.evaluate_run([place, "--episodes", "2"]) == 0
    assert watch.watch([place, "--once"]) == 0
    assert export.export([place, "--out", str(out / "csv")]) == 0
    assert report.report([place, "--out", str(out / "report")]) == 0
    assert (out / "report" / "report.html").exists()
    with pytest.raises(OSError, match=r"export cannot be made: the file system is read-only .* with --out"):
        export.export([place])
    with pytest.raises(OSError, match="the file system is read-only"):
        run(run_dir=disk / "run", resume=True)
