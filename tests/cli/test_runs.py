"""The pictures of a run, and films of its policy."""

import json
from pathlib import Path
from typing import Any

import pytest

from jaxrl.cli import main
from jaxrl.train import pictures


def test_what_has_no_picture_is_not_played(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def played(*args: Any) -> None:
        pytest.fail("an episode was played")

    main(["train", "toy", "--run-dir", "run", "--quiet", "--eval-episodes", "8", "--no-pictures"])
    monkeypatch.setattr(pictures, "record_episodes", played)
    with pytest.raises(SystemExit):
        main(["render", "run", "--out", "film.html"])
    assert "toy/countdown has no picture yet; a method draw(states) of its class makes one." in capsys.readouterr().err


def test_a_run_that_dies_while_it_draws_is_completed_by_its_own_command(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A scheduler repeats the command until it ends with 0."""
    train = ["train", "toy", "--run-dir", "run", "--quiet", "--eval-episodes", "8"]

    def dies(*args: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr("jaxrl.train.run.save_pictures", dies)
        with pytest.raises((KeyboardInterrupt, SystemExit)):
            main(train)
    assert json.loads(Path("run/run.json").read_text())["status"] == "running"
    main(train)
    assert json.loads(Path("run/run.json").read_text())["status"] == "finished"
    curve = Path("run/curve.png")
    curve.unlink()
    rows = Path("run/metrics.jsonl").read_bytes()
    capsys.readouterr()
    main(train)
    assert "is finished after 80 steps" in capsys.readouterr().out
    assert curve.exists()
    curve.unlink()
    main(["render", "run", "--curve"])
    assert curve.exists()
    assert Path("run/metrics.jsonl").read_bytes() == rows
