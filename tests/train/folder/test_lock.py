"""Two processes never train in the same folder."""

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from jaxrl.train.folder import lock
from jaxrl.train.folder.lock import NAME, locked

HOLD = """
import sys, time
from pathlib import Path
from jaxrl.train.folder.lock import locked
with locked(Path(sys.argv[1])):
    print("locked", flush=True)
    time.sleep(600)
"""


@pytest.fixture
def other(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """A process that has the folder."""
    process = subprocess.Popen([sys.executable, "-c", HOLD, str(tmp_path)], text=True, stdout=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdout.readline() == "locked\n"
    yield process
    process.kill()
    process.communicate()


def test_a_folder_is_locked_once_at_a_time(tmp_path: Path) -> None:
    with locked(tmp_path), pytest.raises(FileExistsError, match="Another process is training in"), locked(tmp_path):
        pass
    with locked(tmp_path):  # free again
        pass
    assert list(tmp_path.iterdir()) == []


def test_who_holds_it_is_named(other: subprocess.Popen[str], tmp_path: Path) -> None:
    with pytest.raises(FileExistsError) as error, locked(tmp_path):
        pass
    assert f"training in {tmp_path}: process {other.pid} on {socket.gethostname()}, since 20" in str(error.value)
    assert "jaxrl watch" not in str(error.value)  # there is no run to see
    (tmp_path / "run.json").write_text("{}")
    with pytest.raises(FileExistsError, match=r"`jaxrl watch .*` shows it"), locked(tmp_path):
        pass


def test_a_killed_process_holds_nothing(other: subprocess.Popen[str], tmp_path: Path) -> None:
    other.send_signal(signal.SIGKILL)
    other.wait()
    assert (tmp_path / NAME).exists()
    with locked(tmp_path):
        assert f'"pid": {os.getpid()}' in (tmp_path / NAME).read_text()
    assert list(tmp_path.iterdir()) == []


def test_a_lock_that_was_just_given_back_is_not_mistaken_for_the_new_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its file is removed between being opened and being locked."""
    flock, removed = lock.fcntl.flock, []

    def late(file: int, how: int) -> None:
        if not removed:
            removed.append((tmp_path / NAME).unlink())
        flock(file, how)

    monkeypatch.setattr(lock.fcntl, "flock", late)
    with locked(tmp_path), pytest.raises(FileExistsError), locked(tmp_path):
        pass


def test_where_locks_are_not_known_nothing_happens(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(file: int, how: int) -> None:
        raise OSError("Function not implemented")

    monkeypatch.setattr(lock.fcntl, "flock", unknown)
    with locked(tmp_path), locked(tmp_path):
        pass


def test_no_folder_needs_no_lock() -> None:
    with locked(None), locked(None):
        pass
