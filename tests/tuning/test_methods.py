"""Random search, grids, successive halving, population-based training: each finds what is known to be best."""

import dataclasses
import json
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import echo
import numpy as np
import pytest
from searches import CONFIG, OPTIONS, RATES, UPDATES, learned, search, spent, task

from jaxrl.errors import DivergedError
from jaxrl.train.fit import fit
from jaxrl.train.live.progress import Progress
from jaxrl.tuning import PBT, Grid, Halving, Random, Task, Trial
from jaxrl.tuning.methods import StoppedError, best_so_far
from jaxrl.tuning.search_space import draws

# Random and grid


def test_random_search_tries_as_many_draws_as_the_budget_pays_for(tmp_path: Path) -> None:
    result = search(tmp_path / "search", method="random", budget=5)
    assert [trial.point for trial in result.trials] == draws(CONFIG, {"lr": RATES}, 5)
    for trial in result.trials:
        np.testing.assert_allclose(trial.scores, [learned(trial)] * 2, rtol=1e-5)
    best = max(result.trials, key=learned)
    assert result.best == best.point
    np.testing.assert_allclose(result.test["return_mean"], [learned(best)] * 3, rtol=1e-5)
    assert result.incumbents[-1].point == best.point
    assert spent(result.trials) == 5 * 2 * UPDATES


def test_draws_from_lists_are_all_different() -> None:
    lists: dict[str, Any] = {"lr": [1e-4, 1e-3, 1e-2], "width": [1, 2]}
    for count, found in ((1, 1), (2, 2), (5, 5), (6, 6), (9, 6)):
        tried = draws(CONFIG, lists, count)
        assert len({repr(point) for point in tried}) == len(tried) == found
    assert draws(CONFIG, lists, 5) == tried[:5]
    mixed = draws(CONFIG, {**lists, "lr": RATES}, 20)
    assert [point["lr"] for point in mixed] == [point["lr"] for point in draws(CONFIG, {"lr": RATES}, 20)]
    huge = {
        "lr": [i / 1e5 for i in range(1, 1000)],
        "width": list(range(1, 1000)),
        "bonus": [float(i) for i in range(1000)],
    }
    assert len(draws(CONFIG, huge, 62)) == 62  # of a grid that would not fit in memory


@pytest.mark.parametrize(("method", "paid"), [(Random(), 9), (Grid(), 9), (Halving(), 35)])
def test_a_space_with_fewer_points_than_the_budget_pays_for_is_told_of(
    method: Any, paid: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(*_: Any) -> None:
        raise StoppedError

    monkeypatch.setattr(Task, "train", stop)
    monkeypatch.setattr(Task, "fit", stop)
    for rates in ([1e-3], [1e-3, 1e-2]):
        with pytest.raises(StoppedError):
            method(dataclasses.replace(task(9), space={"lr": rates}, options={**OPTIONS, "mesh": None, "quiet": False}))
    one, two = capsys.readouterr().out.splitlines()
    assert one.startswith(f"The space has 1 point, and a budget of 9 pays for {paid}: each is tried once")
    assert two.startswith("The space has 2 points")


def test_a_grid_has_all_combinations_of_lists() -> None:
    result = search(method="grid", budget=4, lr=[1e-4, 1e-3], width=[1, 2])
    assert [trial.point for trial in result.trials] == [{"lr": lr, "width": w} for lr in (1e-4, 1e-3) for w in (1, 2)]
    assert result.best == {"lr": 1e-3, "width": 1}  # of equals the first


def test_of_equal_scores_the_one_that_learned_earlier_is_the_best() -> None:
    trials = [Trial({"lr": lr}, [1.0, 1.0], mean, 10) for lr, mean in ((1, 0.3), (2, 0.8), (3, 0.5))]
    assert [(each.timesteps, each.point["lr"]) for each in best_so_far(trials)] == [(20, 1), (40, 2)]


def test_a_point_of_which_a_seed_has_diverged_is_the_worst() -> None:
    trials = [Trial({"lr": 1}, [9.0, None], 9.0, 10), Trial({"lr": 2}, [-5.0, -6.0], -7.0, 10)]
    assert [each.point for each in best_so_far(trials)] == [{"lr": 2}]
    result = search(method="grid", lr=[1e-3, 10.0])
    assert result.best == {"lr": 1e-3}
    assert result.trials[1].scores == [None, None]


@pytest.mark.parametrize("method", ["random", "halving", "pbt"])
def test_if_everything_diverges_it_is_said(method: str) -> None:
    with pytest.raises(DivergedError):
        search(method=method, lr=(2.0, 3.0), budget=4)


# Successive halving


@pytest.mark.parametrize("budget", [1, 2, 5, 16, 64])
@pytest.mark.parametrize("updates", [1, 2, 9, 36, 1000])
def test_halving_spends_no_more_than_its_budget(budget: int, updates: int) -> None:
    plan = Halving().plan(task(budget, total_timesteps=updates))
    ends, counts = zip(*plan, strict=True)
    cost = np.dot(np.diff([0, *ends]), counts)
    assert cost <= budget * updates
    assert ends[-1] == updates
    assert list(ends) == sorted(set(ends))
    if budget == 16 and updates == 36:
        assert plan == [(4, 62), (12, 20), (36, 6)]
        assert cost > 0.95 * budget * updates


def test_halving_lets_the_best_go_on_from_where_they_are(halved: Any) -> None:
    result = halved
    rungs = [[t for t in result.trials if t.timesteps == end] for end in (4, 12, 36)]
    assert [len(rung) for rung in rungs] == [13, 4, 1]
    for before, after in pairwise(rungs):
        best = sorted(before, key=learned, reverse=True)[: len(after)]
        assert [t.point for t in after] == [t.point for t in best]
    for trial in result.trials:  # nothing was lost on the way
        np.testing.assert_allclose(trial.scores, [learned(trial)] * 2, rtol=1e-5)
    config = dataclasses.replace(CONFIG, **result.best)
    alone = fit(echo.make(config), config, eval_episodes=2, quiet=True)
    assert alone.evaluation is not None
    assert rungs[-1][0].scores[0] == alone.evaluation["return_mean"]  # bit for bit
    assert result.incumbents[-1].timesteps == (4 * 13 + 8 * 4 + 24) * 2


def test_of_equal_scores_halving_continues_those_that_learned_earlier(monkeypatch: pytest.MonkeyPatch) -> None:
    rungs: list[list[float]] = []

    def fit(_: Any, algo: Any, members: Any, *rest: Any) -> Any:
        rungs.append([own["lr"] for own in members[::2]])
        return SimpleNamespace(state=None)

    def even(_: Any, tried: Any, result: Any, updates: int) -> list[Trial]:
        return [Trial(point, [1.0, 1.0], float(number), updates) for number, point in enumerate(tried)]

    monkeypatch.setattr(Task, "fit", fit)
    monkeypatch.setattr(Task, "trials", even)
    Halving()(task(3))
    first, second, third = rungs
    assert second == first[:-5:-1]  # the last four of 13
    assert third == second[-1:]


def test_progress_of_a_rung_counts_its_own_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = []

    class Seen(Progress):
        """Keeps what it would have shown after each row."""

        def row(self, row: dict[str, Any]) -> None:
            super().row(row)
            view = self.view
            own = row["timesteps"] - view.first
            assert view.speed == pytest.approx(own * view.members / row["seconds"])
            assert view.left == pytest.approx((view.total - row["timesteps"]) * row["seconds"] / own)
            shown.append((view.first, row["timesteps"], view.total, view.done))

    monkeypatch.setattr("jaxrl.train.run.make_progress", lambda title, total, quiet, *rest: Seen(title, total, *rest))
    search(method=Halving(), budget=3, log_every=4)
    rungs = [(0, 4, 4, 1.0), (4, 8, 12, 0.5), (4, 12, 12, 1.0), *((12, t, 36, (t - 12) / 24) for t in range(16, 37, 4))]
    assert shown[: len(rungs)] == rungs


def test_halving_with_a_single_member() -> None:
    result = search(method=Halving(rungs=2), budget=1, tuning_seeds=[7], test_seeds=[9])
    np.testing.assert_allclose(result.test["return_mean"], learned(result.trials[-1]), rtol=1e-5)


# Population-based training


def test_pbt_finds_a_schedule_that_teaches_others_the_same(tmp_path: Path) -> None:
    """The toy is deterministic: if lineage, parents and parameters fit together, the test equals the population."""
    result = search(tmp_path / "search", method=PBT(generations=9, draw=False), budget=16)
    assert len(result.lineage) == 9
    assert result.lineage[0] == {"lr": pytest.approx(CONFIG.lr)}
    assert result.lineage[-1] == result.best
    assert echo.gain(result.best["lr"]) > 100 * echo.gain(CONFIG.lr)
    reached = sum(echo.gain(point["lr"]) * 4 for point in result.lineage)
    np.testing.assert_allclose(result.test["return_mean"], [reached] * 3, rtol=1e-4)
    assert max(trial.scores[0] for trial in result.trials) == pytest.approx(reached, rel=1e-4)
    assert [each.timesteps for each in result.incumbents[:9]] == [12 * 2 * 4 * i for i in range(1, 10)]
    assert result.incumbents[-1].timesteps <= 16 * 2 * UPDATES


def test_members_train_as_they_would_alone_until_they_breed(tmp_path: Path) -> None:
    """Random keys are others than alone, but the toy's rewards do not depend on them."""
    search(tmp_path / "search", method=PBT(generations=2), budget=3)
    folder = tmp_path / "search" / "tuning" / "population"
    about = json.loads((folder / "run.json").read_text())
    rows = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    for m, own in enumerate(about["members"][:2]):
        config = dataclasses.replace(CONFIG, **own)
        alone = fit(echo.make(config), config, eval_episodes=2, quiet=True).metrics["return_mean"]
        together = [row["return_mean"][m] for row in rows]
        np.testing.assert_array_equal(together[: UPDATES // 2], alone[: UPDATES // 2])
