"""Filming the policy of a run."""

from typing import Any

import pytest

from jaxrl.cli import main
from jaxrl.train.pictures import artifacts


def test_what_has_no_picture_is_not_played(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def played(*args: Any) -> None:
        pytest.fail("an episode was played")

    main(["train", "toy", "--run-dir", "run", "--quiet", "--eval-episodes", "8", "--no-pictures"])
    monkeypatch.setattr(artifacts, "record_episodes", played)
    with pytest.raises(SystemExit):
        main(["render", "run", "--out", "film.html"])
    assert "toy/countdown has no picture yet; a method draw(states) of its class makes one." in capsys.readouterr().err
