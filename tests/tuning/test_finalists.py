"""The best of a population by its own score may have been lucky; the finalists show what their lineages teach."""

import dataclasses
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import echo
import numpy as np
import pytest

import jaxrl
from jaxrl.algorithm import Algorithm
from jaxrl.tuning import PBT, Task, Trial
from jaxrl.tuning.finalists import train_finalists

CONFIG = echo.Config()
OPTIONS: dict[str, Any] = {"eval_episodes": 2, "quiet": True}
SPACE: dict[str, Any] = {"lr": (1e-6, 1e-1, "log")}
EVERY = 9


def make_lucky(config: echo.Config) -> Algorithm:
    """Echo, of which a member begins with luck that is worth more than it can learn."""
    algo = echo.make(config)

    def init(key: Any, hyperparams: Any = None) -> echo.State:
        state = algo.init(key, hyperparams)
        return dataclasses.replace(state, params={"theta": 100 * state.runner})

    return algo._replace(init=init)


def search(algorithm: Any, run_dir: Path | None = None, **options: Any) -> Any:
    return jaxrl.search(algorithm, CONFIG, run_dir, tuning_seeds=2, test_seeds=2, **OPTIONS, **SPACE, **options)


def taught(lineage: list[dict[str, float]]) -> float:
    """What a lineage of four generations teaches."""
    return sum(EVERY * echo.gain(point["lr"]) for point in lineage)


def task(lrs: list[list[float]]) -> tuple[Task, list[list[dict[str, float]]]]:
    options = {**OPTIONS, "mesh": None}
    return Task(echo, CONFIG, SPACE, 8, [5, 3], None, None, options), [[{"lr": lr} for lr in line] for line in lrs]


def test_luck_does_not_win() -> None:
    lucky: Any = SimpleNamespace(make=make_lucky)
    result = search(lucky, method=PBT(generations=4), budget=16)
    population, finals = result.trials[:-4], result.trials[-4:]
    assert {len(trial.scores) for trial in population} == {1}
    assert finals[0].point == max(population, key=lambda trial: trial.score).point
    best = max(finals, key=lambda trial: trial.score)
    assert best.score > finals[0].score + 1  # all begin with the luck of the same seeds
    assert result.best == best.point == result.incumbents[-1].point


def test_finalists_follow_their_lineages_with_every_tuning_seed() -> None:
    asked, lineages = task([[1e-6, 1e-2, 1e-2, 1e-3], [1e-2, 1e-4, 1e-6, 1e-2]])
    for trial, lineage in zip(train_finalists(asked, lineages, EVERY), lineages, strict=True):
        assert trial.point == lineage[-1]
        assert trial.timesteps == CONFIG.total_timesteps
        algo = echo.make(CONFIG)
        alone = jaxrl.fit(
            algo, CONFIG, members=asked.members([{}]), lineage={"every_updates": EVERY, "points": lineage}, **OPTIONS
        )
        assert alone.evaluation is not None
        np.testing.assert_allclose(trial.scores, alone.evaluation["return_mean"], rtol=1e-6)
        np.testing.assert_allclose(trial.scores, [taught(lineage)] * 2, rtol=1e-5)


def test_a_finalist_that_diverges_has_no_score() -> None:
    asked, lineages = task([[1e-2, 10.0, 1e-2, 1e-2], [1e-2, 1e-2, 1e-2, 1e-2]])
    diverged, healthy = train_finalists(asked, lineages, EVERY)
    assert (diverged.scores, healthy.scores) == ([None, None], [pytest.approx(36)] * 2)
    asked, lineages = task([[1e-2, 10.0, 1e-2, 1e-2], [10.0, 1e-2, 1e-2, 1e-2]])
    assert [trial.scores for trial in train_finalists(asked, lineages, EVERY)] == [[None, None]] * 2


def test_if_every_finalist_diverges_the_best_member_wins(monkeypatch: pytest.MonkeyPatch) -> None:
    def none(asked: Task, lineages: Any, every: int) -> list[Trial]:
        return [Trial(lineage[-1], [None, None], float(i), 36) for i, lineage in enumerate(lineages)]

    monkeypatch.setattr("jaxrl.tuning.pbt.train_finalists", none)
    result = search(echo, method=PBT(generations=4), budget=8)
    best = max(result.trials, key=lambda trial: trial.score)
    assert result.best == best.point == result.incumbents[-1].point


@pytest.mark.parametrize(
    ("budget", "finalists", "plan"),
    [
        (1, 4, (1, 1)),
        (7, 4, (7, 1)),
        (8, 4, (6, 2)),
        (15, 4, (12, 3)),
        (16, 4, (12, 4)),
        (100, 4, (96, 4)),
        (100, 1, (100, 1)),
        (100, 99, (75, 25)),
    ],
)
def test_finalists_get_at_most_a_quarter_of_the_budget(budget: int, finalists: int, plan: tuple[int, int]) -> None:
    asked, _ = task([])
    assert PBT(finalists=finalists).plan(dataclasses.replace(asked, budget=budget)) == plan


def test_a_search_spends_its_budget_and_records_its_finalists(tmp_path: Path) -> None:
    result = search(echo, tmp_path / "search", method=PBT(generations=4), budget=9)
    assert sum(trial.timesteps * len(trial.scores) for trial in result.trials) == 9 * 2 * CONFIG.total_timesteps
    about = json.loads((tmp_path / "search" / "tuning" / "finalists" / "run.json").read_text())
    assert about["tuning_seeds"] == [0, 1]
    assert [own["seed"] for own in about["members"]] == [0, 1, 0, 1]
    lineages = about["population"]["lineages"]
    assert [lineage[-1] for lineage in lineages] == [trial.point for trial in result.trials[-2:]]
    assert result.lineage in lineages


def test_members_with_one_lineage_need_no_final() -> None:
    result = jaxrl.search(echo, CONFIG, method=PBT(generations=2), budget=8, test_seeds=1, lr=[1e-3], **OPTIONS)
    assert [len(trial.scores) for trial in result.trials] == [1] * 6 * 3
    assert result.lineage == [{"lr": pytest.approx(1e-3)}] * 2
