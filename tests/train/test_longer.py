"""A run can be made longer, finished or not, and its run.json remembers how it came about."""

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest
import toy_algorithm as toy
from toy_runs import assert_same_state, read_rows, run, timeless

from jaxrl import algos
from jaxrl.algos import ppo
from jaxrl.cli import main
from jaxrl.train.folder.load import load
from jaxrl.train.folder.run_folder import RunFolder
from jaxrl.train.intervals import ChunkSizer
from jaxrl.train.rerun import warnings_for
from jaxrl.train.result import Result
from jaxrl.train.run import SearchRun, Segment

LONG = toy.Config(total_timesteps=160)
SMALL: dict[str, Any] = {"num_envs": 4, "num_steps": 4, "num_minibatches": 2}


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Result]:
    place = tmp_path_factory.mktemp("runs") / "whole"
    return place, run(toy.make(LONG), LONG, place, log_every=5, eval_every=10)


@pytest.mark.parametrize("stop", [None, 24])
def test_a_longer_run_is_the_one_that_was_as_long_from_the_beginning(
    whole: tuple[Path, Result], tmp_path: Path, stop: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The toy anneals nothing. The evaluation at the end of the shorter run stays where it was."""
    monkeypatch.setattr(ChunkSizer, "next", lambda self, limit: 1)
    place = tmp_path / "run"
    options: dict[str, Any] = {"run_dir": place, "log_every": 5, "eval_every": 10 if stop is None else None}
    run(callbacks=[lambda row: stop is not None and row["timesteps"] >= stop], **options)
    before = RunFolder(place).read()["timesteps"]
    result = run(toy.make(LONG), LONG, resume=True, **options)
    assert_same_state(result.state, whole[1].state)
    if stop is None:
        for name in ("metrics.jsonl", "evaluations.jsonl"):
            assert timeless(read_rows(place / name)) == timeless(read_rows(whole[0] / name))
    about = RunFolder(place).read()
    assert about["config"]["total_timesteps"] == about["timesteps"] == 160
    assert about["lengthened"] == [{"total_timesteps": 80, "timesteps": before}]
    assert any("made longer" in sentence for sentence in warnings_for(about))


def test_a_run_is_not_made_longer_by_accident_or_shorter_at_all(tmp_path: Path) -> None:
    place = tmp_path / "run"
    run(run_dir=place)
    with pytest.raises(FileExistsError, match=r"or make that one longer with `jaxrl resume .* --total-timesteps 160`"):
        run(toy.make(LONG), LONG, place, resume="auto")
    short = toy.Config(total_timesteps=40)
    with pytest.raises(FileExistsError, match="total_timesteps is 80 there and 40 here"):
        run(toy.make(short), short, place, resume=True)
    other = toy.Config(total_timesteps=160, lr=2.0)
    with pytest.raises(FileExistsError, match=r"lr is 1\.0 there and 2\.0 here\. Name .* --run-dir\.$"):
        run(toy.make(other), other, place, resume=True)


def test_a_part_of_a_search_cannot_be_made_longer(tmp_path: Path) -> None:
    part = SearchRun(segment=Segment(0, 4))
    run(run_dir=tmp_path / "run", search=part)
    with pytest.raises(FileExistsError, match="total_timesteps is 80 there and 160 here"):
        run(toy.make(LONG), LONG, tmp_path / "run", resume=True, search=part)


def test_what_is_annealed_follows_the_longer_run() -> None:
    """At the end of the shorter run the learning rate was 0; half-way through the longer one, half of it is left."""
    config = ppo.Config(total_timesteps=160, schedules=("clip_eps=cosine:0.5",), **SMALL)
    longer = dataclasses.replace(config, total_timesteps=320)
    h, done = config.hyperparams, config.num_updates
    assert float(config.annealed(h, done).lr) == 0.0
    assert float(longer.annealed(h, done).lr) == pytest.approx(0.5 * config.lr)
    assert float(longer.annealed(h, done).clip_eps) == pytest.approx(0.75 * config.clip_eps)
    assert float(longer.annealed(h, done).gamma) == pytest.approx(config.gamma)


@pytest.mark.parametrize(
    ("schedules", "sentence"),
    [
        (("hidden=linear",), r"such as lr=cosine, with one of lr, gamma, .*; got 'hidden=linear'"),
        (("lr",), "got 'lr'"),
        (("lr=cosine", "lr=linear"), "two entries for lr: cosine and linear"),
        (("lr=cosin",), "There is no schedule 'cosin'"),
        (("gamma=linear:2",), r"gamma=linear:2 goes too far: gamma must lie between 0 and 1, got 1\."),
        (("lr=linear:-1",), r"lr=linear:-1 goes too far: lr must be positive, got -"),
    ],
)
def test_what_is_no_schedule_of_a_hyperparameter_is_explained(schedules: tuple[str, ...], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        ppo.Config(schedules=schedules, **SMALL)


def test_a_schedule_takes_the_place_of_annealing() -> None:
    constant = ppo.Config(schedules=("lr=constant",), **SMALL)
    assert float(constant.annealed(constant.hyperparams, constant.num_updates).lr) == pytest.approx(constant.lr)
    ppo.Config(schedules=("gamma=linear:1.01", "lr=linear:3", "clip_eps=cosine"), **SMALL)  # within their bounds
    both = ppo.Config(schedules=("ent_coef=cosine",), anneal_ent=True, **SMALL)
    with pytest.raises(ValueError, match=r"anneal_ent=True has no effect with schedules=.*leave ent_coef out of them"):
        both.make_env()


# On the command line


@pytest.fixture
def toys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(algos._MODULES, "toy", "toy_algorithm")
    monkeypatch.setenv("JAXRL_CACHE", "0")
    return tmp_path


def test_a_run_that_trains_on_without_its_goal_keeps_its_evaluations_and_its_best_state(toys: Path) -> None:
    main(["train", "toy", "--run-dir", "a", "--stop-at", "0.1", "--quiet", "--eval-episodes", "8", "--no-pictures"])
    first = [row["timesteps"] for row in read_rows(toys / "a" / "evaluations.jsonl")]
    main(["resume", "a", "--total-timesteps", "400", "--quiet"])
    later = [row["timesteps"] for row in read_rows(toys / "a" / "evaluations.jsonl")]
    assert later[: len(first)] == first
    assert len(later) - len(first) > 10  # of 20 in 50 updates, those that are still to come
    assert later[-1] == 400
    wins = [row["win_rate"] for row in read_rows(toys / "a" / "evaluations.jsonl")]
    [kept] = (toys / "a" / "best").iterdir()
    assert int(kept.name) * 8 == later[wins.index(max(wins))]


def test_goals_longer_runs_and_other_starts_from_the_command_line(
    toys: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    quick = ["--quiet", "--eval-episodes", "8", "--no-pictures"]
    main(["train", "toy", "--run-dir", "a", "--stop-at", "0.9", "--eval-every", "3", *quick])
    assert "The goal is reached: after 48 steps the win rate is 1, at least 0.9." in capsys.readouterr().err
    main(["resume", "a"])
    said = capsys.readouterr().out
    assert said.startswith(
        "The goal is reached: after 48 steps the win rate is 1, at least 0.9. The run in a is finished"
    )
    assert "`jaxrl resume a --stop-at N` sets a higher goal, `jaxrl resume a --total-timesteps 96` makes it" in said
    main(["resume", "a", "--total-timesteps", "1.6e2", "--quiet"])
    about = json.loads((toys / "a" / "run.json").read_text())
    assert (about["status"], about["timesteps"], about["goal"]) == ("finished", 160, None)
    assert about["lengthened"] == [{"total_timesteps": 80, "timesteps": 48}]
    main(["resume", "a", "--quiet"])
    assert (
        "The run in a is finished after 160 steps: `jaxrl eval a` plays it, `jaxrl resume a" in capsys.readouterr().out
    )
    with pytest.raises(SystemExit):
        main(["resume", "a", "--total-timesteps", "80"])
    assert "total_timesteps=160 and can only be made longer, got --total-timesteps 80" in capsys.readouterr().err

    main(["train", "toy", "--run-dir", "b", "--init-from", "a", "--init-best", *quick])
    assert "Starts with params of" in capsys.readouterr().err
    options = load("b").about["options"]
    assert options["init_from"] == {"run": str(toys / "a"), "learner": False, "best": True, "member": None}
    with pytest.raises(SystemExit):
        main(["train", "toy", "--run-dir", "c", "--init-learner", *quick])
    assert "need a run: --init-from RUN" in capsys.readouterr().err
    main(["train", "toy", "--run-dir", "b", "--init-from", "a", "--init-best", *quick])
    assert "The run in b is finished after 80 steps" in capsys.readouterr().out
