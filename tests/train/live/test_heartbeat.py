"""live.json and who reads it."""

import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from jaxrl.cli import main
from jaxrl.train.folder.json_file import DamagedFileError
from jaxrl.train.folder.run_folder import RunFolder
from jaxrl.train.live.heartbeat import Follower, Heartbeat, memory_in_use
from jaxrl.train.live.progress import Progress


def row(timesteps: int) -> dict[str, Any]:
    means = {"return_mean": 1.5, "length_mean": 20.0}
    return {"timesteps": timesteps, "seconds": timesteps / 1000, "episodes": 5, **means, "losses": {}}


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    return RunFolder.create(tmp_path / "run")


@pytest.mark.quick
def test_a_run_is_followed_from_its_folder(folder: RunFolder) -> None:
    progress = Progress("ppo on classic/cartpole", 4000, folder.path, "2 x cpu", first=500)
    follower = Follower(folder)
    with progress:
        progress.phase("compiling…")
        view = follower.read()
        assert (view.title, view.total, view.device) == ("ppo on classic/cartpole", 4000, "2 x cpu")
        assert view.first == 500
        assert (view.phase, view.row, follower.ended) == ("compiling", None, False)
        folder.write({"status": "running"})
        progress.phase("training")
        folder.metrics.append(row(1000))
        folder.evaluations.append(row(1000))
        assert follower.read().row == row(1000)
        assert view.evaluation == row(1000)
        assert set(view.spent) == {"starting", "compiling"}
        folder.metrics.append(row(2000))
        assert follower.read().timesteps == [1000, 2000]
        folder.write({"status": "finished"})
        progress.phase("drawing…")
        follower.read()
        assert not follower.ended
        progress.phase("done")
    assert follower.read().phase == "finished"
    assert follower.ended


def test_half_a_line_is_left_until_it_is_whole(folder: RunFolder) -> None:
    line = json.dumps(row(1000)) + "\n"
    folder.metrics.path.write_text(line[:20])
    follower = Follower(folder)
    assert follower.read().row is None
    folder.metrics.path.write_text(line)
    assert follower.read().row == row(1000)


def test_a_run_that_goes_back_to_its_checkpoint_is_followed_there(folder: RunFolder) -> None:
    follower = Follower(folder)
    for steps in (1000, 2000, 3000):
        folder.metrics.append(row(steps))
    follower.read()
    folder.metrics.path.write_text(json.dumps(row(1000)) + "\n")
    assert follower.read().timesteps == [1000]


def test_a_continued_run_counts_as_running_and_keeps_its_times(folder: RunFolder) -> None:
    with Progress("t", 10, folder.path) as first:
        first.view.spent["training"] = 100.0
        first.phase("stopped by SIGTERM")
    folder.write({"status": "stopped"})
    follower = Follower(folder)
    follower.read()
    assert follower.status == "stopped"
    with Progress("t", 10, folder.path) as second:
        second.phase("training")
        assert follower.read().split()["training"] >= 100.0
        assert not follower.ended
        second.phase("done")


BEAT = {"title": "t", "total": 10, "phase": "training", "since": 5.0, "spent": {"training": 1.0}, "time": 6.0}


@pytest.mark.parametrize(
    "damage",
    [
        "",
        "\0\0\0\0",
        "{",
        "[]",
        json.dumps({**BEAT, "spent": {"training": "long"}}),
        json.dumps({**BEAT, "spent": 3}),
        json.dumps({**BEAT, "since": 1e300}),
        json.dumps({**BEAT, "pid": -1, "host": socket.gethostname()}),
        json.dumps({**BEAT, "pid": 10**30, "host": socket.gethostname()}),
        json.dumps({**BEAT, "title": 3}),
    ],
)
def test_a_damaged_heartbeat_keeps_nobody_from_going_on_or_looking(folder: RunFolder, damage: str) -> None:
    (folder.path / "live.json").write_text(damage)
    folder.write({"status": "stopped"})
    follower = Follower(folder)
    assert follower.read().phase == "stopped"
    assert follower.ended
    with Progress("t", 10, folder.path) as progress:
        assert progress.view.spent == {}
        progress.phase("training")
        assert follower.read().phase == "training"
        assert not follower.ended


def test_a_heartbeat_without_a_process_is_followed(folder: RunFolder) -> None:
    (folder.path / "live.json").write_text(json.dumps({**BEAT, "host": socket.gethostname()}))
    follower = Follower(folder)
    assert follower.read().spent == {"training": 1.0}
    assert not follower.ended


def test_a_damaged_run_json_is_told_to_who_watches(folder: RunFolder) -> None:
    (folder.path / "run.json").write_text('{"status": 3}')
    with pytest.raises(DamagedFileError, match=r"run\.json is damaged: status must be str"):
        Follower(folder).read()


def test_an_error_ends_the_watching(folder: RunFolder) -> None:
    def fail() -> None:
        with Progress("t", 10, folder.path) as progress:
            progress.phase("training")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    follower = Follower(folder)
    assert follower.read().phase == "failed"
    assert follower.ended


def test_a_killed_process_is_noticed(folder: RunFolder) -> None:
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    live = {"phase": "training", "since": 0.0, "time": 5.0, "pid": dead.pid, "host": socket.gethostname()}
    (folder.path / "live.json").write_text(json.dumps(live))
    follower = Follower(folder)
    assert follower.read().phase == "gone"
    assert follower.gone
    assert follower.view.spent == {"training": 5.0}
    (folder.path / "live.json").write_text(json.dumps({**live, "host": "elsewhere"}))  # nobody here can tell
    follower.read()
    assert not follower.ended


def test_heartbeats_are_rare_unless_something_happens(tmp_path: Path) -> None:
    progress = Progress("t", 10, tmp_path)
    with progress:
        file = tmp_path / "live.json"
        progress.row(row(1))
        file.unlink()
        progress.row(row(2))
        assert not file.exists()
        progress.phase("saving…")
        assert json.loads(file.read_text())["phase"] == "saving"


def test_a_folder_that_cannot_be_written_stops_nothing(tmp_path: Path) -> None:
    view = Progress("t", 10).view
    Heartbeat(tmp_path / "missing").beat(view, at_once=True)
    Heartbeat(None).beat(view, at_once=True)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="this system does not tell it")
def test_memory_of_this_process() -> None:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    assert memory_in_use()["host"] == pytest.approx(pages * os.sysconf("SC_PAGE_SIZE"), rel=0.2)


def test_memory_of_devices_that_tell_it(monkeypatch: pytest.MonkeyPatch) -> None:
    class Device:
        def memory_stats(self) -> dict[str, int]:
            return {"bytes_in_use": 3, "bytes_limit": 80, "num_allocs": 1}

    monkeypatch.setattr("jax.local_devices", lambda: [Device(), Device()])
    found = memory_in_use()
    assert (found["device"], found["device_limit"]) == (6, 160)


def test_what_a_stranger_wrote_is_shown_harmlessly(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Neither markup nor control characters reach the terminal, and a lone surrogate is no traceback."""
    odd = "x\\[/nope] [red]\x1b[2J\x07\ud800\n"
    row = {"timesteps": 10, "seconds": 1.0, "episodes": 1, "return_mean": 1.0, "length_mean": 1.0}
    folder = tmp_path / "strange"
    folder.mkdir()
    (folder / "live.json").write_text(json.dumps({"title": odd, "total": 10, "phase": odd, "message": odd}))
    (folder / "run.json").write_text(json.dumps({"status": odd, "error": odd}))
    line = json.dumps({**row, "losses": {odd: 1.0}, "returns": {odd: 1.0, "b": 1.0}, "info": {odd: 1.0}})
    (folder / "metrics.jsonl").write_text(f"{line}\n")
    (folder / "evaluations.jsonl").write_text(f"{line}\n")
    for more in ([], ["--once"]):
        main(["watch", str(folder), *more])
        said = capsys.readouterr().out
        assert "x\\[/nope] [red]\ufffd[2J\ufffd\ufffd" in said
        assert not set("\x1b\x07\ud800") & set(said)
