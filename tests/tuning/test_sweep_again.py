"""A sweep that is finished, was stopped, diverged or was changed, and is asked for once more."""

import dataclasses
import errno
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import toy_algorithm as toy
from swept import CONFIG, OPTIONS, TOY, curves, sweep_toys

import jaxrl
from jaxrl.errors import CheckpointError
from jaxrl.train.fit import fit
from jaxrl.train.folder.run_folder import RunFolder
from jaxrl.train.intervals import ChunkSizer
from jaxrl.tuning.plan_file import recorded


def test_what_is_finished_is_not_run_again(toy_sweep: Any, toy_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("jaxrl.tuning.member_groups.fit", None)
    assert sweep_toys(toy_folder).table == toy_sweep.table


def test_a_plan_that_cannot_be_written_harms_no_sweep(
    toy_sweep: Any, toy_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Room for sweep.json is missing after its first lines: it may come again before the end, or the last write fails.

    Nor does the file take the place of the error that ends a sweep.
    """
    folder = shutil.copytree(toy_folder, tmp_path / "sweep")
    written: list[str] = []

    def full(path: Path, about: dict[str, Any]) -> None:
        written.append(about["status"])
        if written[1:]:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("jaxrl.tuning.plan_file.write_json", full)
    with pytest.raises(CheckpointError, match=r"sweep.json cannot be written: the disk is full .*same command"):
        sweep_toys(folder)
    assert written == ["running"] * 5 + ["finished", "failed"]
    written.clear()
    with pytest.raises(ZeroDivisionError), recorded(folder / "other", "sweep", CONFIG, {}, 1):
        raise ZeroDivisionError
    monkeypatch.undo()
    assert sweep_toys(folder).table == toy_sweep.table


def test_a_stopped_sweep_goes_on_where_it_was(
    toy_sweep: Any, toy_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ChunkSizer, "next", lambda self, limit: 1)
    folder, rows = tmp_path / "sweep", []

    def on_row(row: dict[str, Any]) -> None:
        rows.append(row)
        if len(rows) == 30:  # the first two runs have 20 updates, so this is in the middle of the second
            os.kill(os.getpid(), signal.SIGTERM)

    with monkeypatch.context() as patch:
        patch.setattr(
            "jaxrl.tuning.member_groups.fit", lambda *args, **options: fit(*args, **options, callbacks=[on_row])
        )
        stopped = sweep_toys(folder, log_every=1)
    assert stopped.stopped == "SIGTERM"
    assert stopped.table == toy_sweep.table[:2]
    assert json.loads((folder / "sweep.json").read_text())["status"] == "stopped"
    assert 30 <= len(rows) < 35
    whole = sweep_toys(folder, log_every=1)
    assert whole.table == toy_sweep.table
    for run in sorted(folder.glob("group-*")):
        for name, values in curves(run).items():
            np.testing.assert_array_equal(values, curves(toy_folder / run.name)[name])


@pytest.mark.usefixtures("_no_deadly_signal")
@pytest.mark.parametrize("moment", ["before the second group trains", "after the first group has trained"])
def test_a_signal_between_two_groups_stops_the_sweep(
    moment: str, toy_sweep: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, calls = tmp_path / "sweep", []

    def fit_and_signal(*args: Any, **options: Any) -> Any:
        calls.append(args)
        if moment.startswith("before") and len(calls) == 2:
            os.kill(os.getpid(), signal.SIGTERM)
        result = fit(*args, **options)
        if moment.startswith("after"):
            os.kill(os.getpid(), signal.SIGTERM)
        return result

    monkeypatch.setattr("jaxrl.tuning.member_groups.fit", fit_and_signal)
    stopped = sweep_toys(folder)
    assert (stopped.stopped, stopped.table) == ("SIGTERM", toy_sweep.table[:2])
    assert json.loads((folder / "sweep.json").read_text())["status"] == "stopped"
    monkeypatch.undo()
    assert sweep_toys(folder).table == toy_sweep.table


def test_a_group_without_a_checkpoint_begins_anew(
    toy_sweep: Any, toy_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = shutil.copytree(toy_folder, tmp_path / "sweep")
    about = json.loads((folder / "group-003" / "run.json").read_text())
    (folder / "group-003" / "run.json").write_text(json.dumps({**about, "status": "running"}))
    shutil.rmtree(folder / "group-003" / "checkpoints")
    rows = (folder / "group-003" / "metrics.jsonl").read_bytes()
    assert sweep_toys(folder).table == toy_sweep.table
    assert "group-003 was interrupted before its first checkpoint, so it begins anew" in capsys.readouterr().err
    assert (folder / "group-003" / "interrupted-1" / "metrics.jsonl").read_bytes() == rows


def test_another_sweep_does_not_continue_this_one(toy_sweep: Any, toy_folder: Path) -> None:
    with pytest.raises(FileExistsError) as error:
        sweep_toys(toy_folder, lr=[0.5], seeds=3, eval_episodes=4)
    for text in (
        "already holds another sweep: space.lr.values is [0.25, 1.0] there and [0.5] here",
        "seeds is [0, 1] there and [0, 1, 2] here",
        "eval_episodes is 8 there and 4 here",
        f"continue that one with its own command: {json.loads((toy_folder / 'sweep.json').read_text())['command']}",
    ):
        assert text in str(error.value)
    other = dataclasses.replace(CONFIG, act_from=4.0)
    with pytest.raises(FileExistsError, match=r"act_from is 5.0 there and 4.0 here"):
        jaxrl.sweep(TOY, other, toy_folder, lr=[0.25, 1.0], num_envs=[2, 4], seeds=2, max_members=2, **OPTIONS)


def test_it_does_not_matter_what_the_config_says_of_a_swept_field(toy_sweep: Any, toy_folder: Path) -> None:
    """As the command line takes the first value for it, and Python keeps the one in the config."""
    other = dataclasses.replace(CONFIG, lr=0.25, num_envs=2)
    assert (other.lr, other.num_envs) != (CONFIG.lr, CONFIG.num_envs)
    again = jaxrl.sweep(TOY, other, toy_folder, lr=[0.25, 1.0], num_envs=[2, 4], seeds=2, max_members=2, **OPTIONS)
    assert again.table == toy_sweep.table


def test_how_often_to_save_may_change(toy_sweep: Any, toy_folder: Path) -> None:
    again = sweep_toys(toy_folder, checkpoint_every_updates=5, checkpoint_every_minutes=1.0, mesh=(1, 1))
    assert again.table == toy_sweep.table
    kept = json.loads((toy_folder / "sweep.json").read_text())
    assert (kept["checkpoint_every_updates"], kept["status"]) == (5, "finished")
    assert kept["resumed"] >= 1


def test_a_group_of_other_members_is_refused_and_left_as_it_is(
    toy_sweep: Any, toy_folder: Path, tmp_path: Path
) -> None:
    folder = shutil.copytree(toy_folder, tmp_path / "sweep")
    file = folder / "group-001" / "run.json"
    about = json.loads(file.read_text())
    about["members"][1]["lr"] = 0.75
    file.write_text(json.dumps(about))
    with pytest.raises(FileExistsError, match=r"member 1 is seed 1, lr=0\.75 there and seed 1, lr=1 here"):
        sweep_toys(folder)
    assert json.loads(file.read_text()) == about


@pytest.mark.slow  # locks, stops and kills are tested one by one elsewhere
def test_a_second_process_leaves_a_sweep_that_goes_on_alone(tmp_path: Path) -> None:
    """The first is then killed, which is no obstacle: its group goes on where its newest checkpoint is."""
    group = tmp_path / "swept" / "group-000"

    code = "import sys; from jaxrl import algos, cli; algos._MODULES['toy'] = 'toy_algorithm'; cli.main(sys.argv[1:])"
    flags = "--sizes 1,2 3 --total-timesteps 8000000 --work 32 --log-every 20 --checkpoint-every-updates 40"

    def sweep() -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-c", code, "sweep", "toy", *flags.split(), "--run-dir", "swept", "--quiet"],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": f"{Path(toy.__file__).parent}:{os.environ.get('PYTHONPATH', '')}"},
            text=True,
            stderr=subprocess.PIPE,
        )

    first = sweep()
    until = time.monotonic() + 300
    while not list(group.glob("checkpoints/[0-9]*")) and first.poll() is None and time.monotonic() < until:
        time.sleep(0.05)
    place = group.stat().st_ino
    second = sweep()
    _, said = second.communicate(timeout=300)
    assert second.returncode == 2
    assert f"Another process is training in swept: process {first.pid} on {socket.gethostname()}, since" in said
    assert first.poll() is None
    assert group.stat().st_ino == place
    first.kill()
    first.communicate(timeout=60)
    saved = set(group.glob("checkpoints/[0-9]*"))
    third = sweep()
    # A new checkpoint shows that it trains, so the signal finds its handler in place.
    while not set(group.glob("checkpoints/[0-9]*")) - saved and third.poll() is None and time.monotonic() < until:
        time.sleep(0.05)
    third.terminate()
    _, said = third.communicate(timeout=300)
    assert third.returncode == 75, said
    assert "Continues after update" in (group / "events.jsonl").read_text()
    assert not list(group.glob("interrupted-*"))


def test_a_sweep_is_no_single_run(toy_sweep: Any, toy_folder: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"holds a sweep, not one run: name a run in it such as .*group-000"):
        RunFolder.open(toy_folder)
