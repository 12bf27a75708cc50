"""Exploration in a run that is made longer: the share of random actions stretches, and the user is told."""

from pathlib import Path

import pytest

from jaxrl.algos import dqn, pqn, stream_q
from jaxrl.cli import main

SHORT = {"total_timesteps": 200, "num_steps": 20, "hidden": (8,)}


def test_a_longer_run_tells_how_far_exploration_goes_back() -> None:
    """After 5 of 10 updates it has ended; in a run of 40, a quarter of its 20 updates are done."""
    before = stream_q.Config(**SHORT, eps_start=1.0, eps_finish=0.2, eps_decay=0.5)
    longer = stream_q.Config(**{**SHORT, "total_timesteps": 800}, eps_start=1.0, eps_finish=0.2, eps_decay=0.5)
    said = "Exploration goes back from 0.2 to 0.8, since it is spread over the longer run."
    assert longer.lengthened(before, 5) == [said]


@pytest.mark.parametrize(
    ("module", "fields", "total_timesteps"),
    [
        (stream_q, {"eps_start": 0.1, "eps_finish": 0.1}, 2000),  # it never changes
        (stream_q, {"eps_decay": 0.0}, 2000),  # it has ended in either
        (stream_q, {"eps_decay": 0.5}, 200),  # the run is no longer than before
        (pqn, {"num_envs": 4, "num_minibatches": 1, "eps_decay": 1.0, "eps_start": 0.05, "eps_finish": 0.047}, 2000),
        (dqn, {"num_envs": 4, "learning_starts": 160}, 2000),  # nothing but random actions until learning starts
    ],
)
def test_of_a_hair_or_nothing_nobody_is_told(module, fields, total_timesteps) -> None:
    before = module.Config(**SHORT, **fields)
    longer = module.Config(**{**SHORT, "total_timesteps": total_timesteps}, **fields)
    assert longer.lengthened(before, 1) == []


def test_resume_tells_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Even when it is quiet; and a run that goes on as it was planned has nothing to tell."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("JAXRL_CACHE", "0")
    config = "--num-steps 20 --total-timesteps 200 --hidden 8 --eps-decay 0.5"
    main(["train", "stream_q", "--run-dir", "run", "--quiet", "--no-pictures", "--eval-episodes", "4", *config.split()])
    main(["resume", "run", "--quiet"])
    assert "Exploration" not in capsys.readouterr().err
    main(["resume", "run", "--quiet", "--total-timesteps", "800"])
    assert "Exploration goes back from 0.01 to 0.5, since it is spread over the longer" in capsys.readouterr().err
