"""What is shown while training."""

import errno
import io
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from jaxrl.train.live.progress import LineProgress, LiveProgress, Progress, make_progress


def row(timesteps: int, seconds: float, win_rate: Any = 0.25) -> dict[str, Any]:
    means = {"return_mean": 1.5, "length_mean": 20.0, "win_rate": win_rate}
    return {"timesteps": timesteps, "seconds": seconds, "steps_per_second": 0.0, "episodes": 5, **means, "losses": {}}


def test_lines_elsewhere_than_on_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    with make_progress("ippo on smax/3m", total=4000) as progress:
        progress.phase("compiling…")
        for i in range(1, 5):
            progress.row(row(1000 * i, float(i)))
        progress.evaluation(row(4000, 4.0, win_rate=0.975))
    lines = capsys.readouterr().out.splitlines()
    assert lines[:2] == ["ippo on smax/3m", "compiling…"]
    assert lines[2] == "steps 1,000  steps/s 1,000  win rate 0.25  return 1.50  length 20.0  ETA 0:03"
    assert lines[3].startswith("steps 4,000")  # those in between came too soon after it
    assert lines[4] == "greedy evaluation after 4,000 steps: win rate 0.975  return 1.50"


def test_quiet_shows_nothing_but_what_must_be_known(capsys: pytest.CaptureFixture[str]) -> None:
    with make_progress("t", 10, quiet=True) as progress:
        progress.phase("compiling…")
        progress.row(row(10, 1.0))
        progress.say("something is wrong")
    assert capsys.readouterr() == ("", "something is wrong\n")


def test_a_continued_run_shows_its_history(tmp_path: Path) -> None:
    rows = [row(1000 * i, float(i), win_rate=i / 10) for i in range(1, 4)]
    (tmp_path / "metrics.jsonl").write_text("".join(json.dumps(each) + "\n" for each in rows))
    (tmp_path / "evaluations.jsonl").write_text(json.dumps({"timesteps": 2000, "return_mean": 7.0}) + "\n")
    with make_progress("t", total=6000, quiet=True, folder=tmp_path) as progress:
        assert (progress.view.timesteps, progress.view.done) == ([1000, 2000, 3000], 0.5)
        assert progress.view.evaluation == {"timesteps": 2000, "return_mean": 7.0}
        progress.row(row(3000, 3.0, win_rate=0.9))  # the checkpoint was at 2000
        assert progress.view.bands["win_rate"].mean == [0.1, 0.2, 0.9]
    (tmp_path / "metrics.jsonl").write_text("damaged")
    assert make_progress("t", 6000, quiet=True, folder=tmp_path).view.timesteps == []


class Unwritable(io.StringIO):
    """A file that takes nothing any more."""

    def __init__(self, error: OSError) -> None:
        super().__init__()
        self.error, self.refused = error, 0

    def flush(self) -> None:
        self.refused += 1
        raise self.error


@pytest.mark.parametrize("error", [OSError(errno.ENOSPC, "No space left on device"), BrokenPipeError()], ids=str)
def test_a_log_that_cannot_be_written_ends_nothing(monkeypatch: pytest.MonkeyPatch, error: OSError) -> None:
    """A full disk; or, after Ctrl-C, the `tee` of `jaxrl train … | tee log`."""
    log = Unwritable(error)
    for name in ("stdout", "stderr"):
        monkeypatch.setattr(sys, name, log)
    for quiet in (False, True):
        with make_progress("t", 10, quiet=quiet) as progress:
            progress.phase("compiling…")
            progress.row(row(10, 1.0))
            progress.evaluation(row(10, 1.0))
            progress.say("something is wrong")
    assert log.refused == 6


def test_without_an_output_a_run_shows_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in `jaxrl train … >&-`."""
    monkeypatch.setattr(sys, "stdout", None)
    with make_progress("t", 10) as progress:
        progress.row(row(10, 1.0))


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class ClosedTerminal(Terminal):
    def write(self, text: str) -> int:
        raise OSError(errno.EIO, "Input/output error")


def test_a_terminal_that_is_closed_ends_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdout", ClosedTerminal())
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("CI", raising=False)
    with make_progress("t", total=4000) as progress:
        assert isinstance(progress, LiveProgress)
        progress.say("Something has happened.")


def test_the_dashboard_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = Terminal()
    monkeypatch.setattr("sys.stdout", screen)
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("CI", raising=False)
    with make_progress("ippo on smax/3m", total=4000) as progress:
        assert isinstance(progress, LiveProgress)
        progress.phase("compiling…")
        progress.row(row(1000, 0.5, win_rate=[0.25, 0.75, None]))
        progress.say("Something has happened.")
        progress.evaluation(row(500, 0.5, win_rate=0.875))
    text = screen.getvalue()
    for word in ("ippo on smax/3m", "compiling", "1,000 of 4,000", "2,000", "0.50", "0:02", "win rate 0.875"):
        assert word in text
    assert "Something has happened.\n" in text  # above the dashboard as well as in it


@pytest.mark.parametrize(("name", "value"), [("TERM", "dumb"), ("CI", "true")])
def test_lines_where_a_dashboard_would_be_a_nuisance(monkeypatch: pytest.MonkeyPatch, name: str, value: str) -> None:
    monkeypatch.setattr("sys.stdout", Terminal())
    monkeypatch.setenv(name, value)
    assert isinstance(make_progress("t", 1), LineProgress)


def test_times_to_go_are_readable(capsys: pytest.CaptureFixture[str]) -> None:
    with LineProgress("t", total=100_000_000) as progress:
        progress.row(row(1000, 0.1))
    assert "ETA 2:46:40" in capsys.readouterr().out


def test_the_base_is_silent(capsys: pytest.CaptureFixture[str]) -> None:
    with Progress("t", 1) as progress:
        progress.evaluation(row(1, 1.0))
    assert capsys.readouterr().out == ""
