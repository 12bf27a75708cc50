"""The best of a population by its own score may have been lucky; finalists show what their lineages teach."""

import dataclasses
from types import SimpleNamespace
from typing import Any

import echo
import jax.numpy as jnp
import numpy as np
import pytest

import jaxrl
from jaxrl.algorithm import Algorithm
from jaxrl.rl.devices import member_index
from jaxrl.train.run import SearchRun
from jaxrl.tuning import PBT, Task, Trial
from jaxrl.tuning.pbt import Past, ancestors, distant, grown, train_finalists
from jaxrl.tuning.search_space import Point

CONFIG = echo.Config()
EVERY = 9  # updates per generation
# Members 0 to 2 descend from member 0, which had two children in the middle generation; 3 descends from itself.
PARENT = np.array([[0, 0, 0], [1, 0, 1], [2, 0, 1], [3, 3, 3]])


def task(budget: int = 8, algorithm: Any = echo) -> Task:
    options = {"eval_episodes": 2, "quiet": True, "mesh": None}
    return Task(algorithm, CONFIG, {"lr": (1e-6, 1e-1, "log")}, budget, [5, 3], None, None, options)


def lineages(*rates: list[float]) -> list[list[Point]]:
    return [[{"lr": lr} for lr in own] for own in rates]


def test_luck_does_not_win() -> None:
    """The luckiest member has the worst learning rate, and a better score than any other can learn."""
    drawn = task().draws(12)
    worst = min(range(4, 12), key=lambda i: echo.gain(drawn[i]["lr"]))  # the first 8 members are also finalists

    def make(config: echo.Config) -> Algorithm:
        algo = echo.make(config)

        def init(key: Any, hyperparams: Any = None) -> echo.State:
            luck = jnp.where(member_index() == 2 * worst, 100.0, 0.0)
            return dataclasses.replace(algo.init(key, hyperparams), params={"theta": luck})

        return algo._replace(init=init)

    found = PBT(generations=2, resample=0.0)(task(16, SimpleNamespace(make=make)))
    members, finals = found.trials[:-4], found.trials[-4:]
    lucky, best = max(members, key=lambda trial: trial.rank), max(finals, key=lambda trial: trial.score)
    assert lucky.score >= 100
    assert finals[0].point == lucky.point
    assert finals[0].scores == [pytest.approx(lucky.score - 100, abs=1e-3)] * 2
    assert best.score > 10 * finals[0].score
    assert found.best == best.point == found.incumbents[-1].point
    spent = len(members) * CONFIG.total_timesteps
    halfway, grown, *judged = [each.timesteps for each in found.incumbents]
    assert (halfway, grown) == (spent // 2, spent)
    assert judged
    assert all(spent < each <= 16 * 2 * CONFIG.total_timesteps for each in judged)


def test_finalists_follow_their_lineages_with_every_tuning_seed() -> None:
    asked, both = task(), lineages([1e-6, 1e-2, 1e-2, 1e-3], [1e-2, 1e-4, 1e-6, 1e-2])
    for trial, own in zip(train_finalists(asked, both, EVERY), both, strict=True):
        assert trial.point == own[-1]
        assert trial.timesteps == CONFIG.total_timesteps
        assert trial.scores == [pytest.approx(sum(EVERY * echo.gain(point["lr"]) for point in own), rel=1e-5)] * 2
    again: Any = {"every_updates": EVERY, "points": both[0]}
    alone = jaxrl.fit(
        echo.make(CONFIG), CONFIG, members=asked.members([{}]), search=SearchRun(lineage=again), **asked.options
    )
    assert alone.evaluation is not None
    assert train_finalists(asked, both, EVERY)[0].scores == alone.evaluation["return_mean"]


@pytest.mark.parametrize("second", [[1e-2] * 4, [10.0] * 4])
def test_a_finalist_that_diverges_has_no_score(second: list[float]) -> None:
    diverged, other = train_finalists(task(), lineages([1e-2, 10.0, 1e-2, 1e-2], second), EVERY)
    assert diverged.scores == [None, None]
    assert other.scores == ([None, None] if second[0] > 1 else [pytest.approx(36)] * 2)


def test_if_every_finalist_diverges_the_best_member_wins(monkeypatch: pytest.MonkeyPatch) -> None:
    def none(asked: Task, lineages: list[list[Point]], every: int) -> list[Trial]:
        return [Trial(own[-1], [None, None], float(i), 36) for i, own in enumerate(lineages)]

    monkeypatch.setattr("jaxrl.tuning.pbt.train_finalists", none)
    found = PBT(generations=4)(task())
    best = max(found.trials, key=lambda trial: trial.score)
    assert found.best == best.point == found.incumbents[-1].point


@pytest.mark.parametrize(
    ("scores", "expected"),
    [
        ([4.0, 3.0, 2.0, 1.0], [0, 2, 3]),  # 1 never changed either, and so has the lineage of 0
        ([1.0, 2.0, 3.0, 4.0], [3, 2, 1]),
        ([4.0, 3.0, np.nan, np.nan], [0]),
    ],
)
def test_finalists_are_healthy_members_of_different_lineages(scores: list[float], expected: list[int]) -> None:
    rates = np.array([[1e-3, 1e-3], [1e-3, 1e-3], [1e-3, 2e-3], [1e-3, 3e-3]], np.float32)
    parent = np.array([[0, 0], [1, 1], [2, 1], [3, 0]])
    past = Past(echo.Hyperparams(rates, np.zeros((4, 2))), jnp.zeros((4, 2)), jnp.array(parent))
    state = SimpleNamespace(past=past, params={"theta": np.array(scores, np.float32)})
    result: Any = SimpleNamespace(state=state, evaluation={"return_mean": scores}, metrics={})
    found = grown(task(), result, 18, 3)
    assert [own[-1]["lr"] for own in found.lineages] == [rates[m, 1] for m in expected]


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
    assert PBT(finalists=finalists).plan(task(budget)) == plan


def test_a_line_of_parents() -> None:
    parent = np.array([[0, 0, 2], [1, 1, 1], [2, 1, 2]])
    assert ancestors(parent, 0) == [1, 2, 0]
    assert ancestors(parent, 1) == [1, 1, 1]


def test_the_most_distant_relatives_are_chosen_and_the_best_of_each_family() -> None:
    assert distant(PARENT, [2, 1, 0, 3], 1) == [2]
    assert distant(PARENT, [2, 1, 0, 3], 2) == [2, 3]  # two ancestors at first, though 1 and 0 are better than 3
    assert distant(PARENT, [1, 2, 0, 3], 3) == [1, 0, 3]  # 2 is a child of 1


def test_there_may_be_fewer_members_to_choose_from() -> None:
    assert distant(PARENT, [2, 1, 0, 3], 9) == [2, 1, 0, 3]
    assert distant(PARENT, [1], 2) == [1]
