"""Population-based training as `search` runs it: members are points times seeds, and no two of them are clones."""

from typing import Any

import echo
import jax
import numpy as np
import pytest

import jaxrl
from jaxrl.train.devices.mesh import MeshShape
from jaxrl.train.fit import fit
from jaxrl.train.result import Result
from jaxrl.tuning import PBT, Trial

CONFIG = echo.Config()
OPTIONS: dict[str, Any] = {"eval_episodes": 2, "quiet": True, "test_seeds": 1}
SPACE: dict[str, Any] = {"lr": (1e-6, 1e-1, "log")}


@pytest.fixture
def results(monkeypatch: pytest.MonkeyPatch) -> list[Result]:
    """What `fit` returns to searches, as they go on."""
    seen = []

    def spy(*args: Any, **options: Any) -> Result:
        seen.append(fit(*args, **options))
        return seen[-1]

    monkeypatch.setattr("jaxrl.tuning.methods.fit", spy)
    return seen


def distinct(keys: jax.Array) -> int:
    return len(np.unique(np.asarray(jax.random.key_data(keys)), axis=0))


@pytest.mark.parametrize(
    ("tuning_seeds", "draw"), [(3, True), *(pytest.param(1, draw, marks=pytest.mark.slow) for draw in (True, False))]
)
def test_members_share_seeds_but_no_random_keys(tuning_seeds: int, draw: bool, results: list[Result]) -> None:
    method = PBT(generations=4, resample=1.0, draw=draw, finalists=1)
    jaxrl.search(echo, CONFIG, method=method, budget=16, tuning_seeds=tuning_seeds, **OPTIONS, **SPACE)
    [result] = results
    members = 16 * tuning_seeds
    past = jax.device_get(result.state.past)
    assert (past.parent != np.arange(members)[:, None])[:, 1:].sum() >= 3 * members // 4  # they have bred
    assert distinct(result.state.key) == members
    assert distinct(result.state.own.key) == members
    assert len(np.unique(result.state.own.runner)) == members


def test_run_json_has_the_devices_that_a_population_is_spread_over(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its members are, and never their environments, however many devices there are."""
    shapes = []

    def spy(*args: Any, **options: Any) -> Result:
        shapes.append(options["mesh"])
        return fit(*args, **options)

    monkeypatch.setattr("jaxrl.tuning.methods.fit", spy)
    jaxrl.search(echo, CONFIG, method=PBT(generations=2, finalists=1), budget=2, tuning_seeds=1, **OPTIONS, **SPACE)
    assert shapes == [MeshShape(data=1)]


@pytest.mark.parametrize("tuning_seeds", [3, pytest.param(1, marks=pytest.mark.slow)])
def test_children_differ_in_parent_and_in_what_is_changed(tuning_seeds: int, results: list[Result]) -> None:
    method = PBT(generations=4, resample=1.0, finalists=1)
    jaxrl.search(echo, CONFIG, method=method, budget=48 // tuning_seeds, tuning_seeds=tuning_seeds, **OPTIONS, **SPACE)
    past = jax.device_get(results[0].state.past)
    for generation in range(1, 4):
        parent = past.parent[:, generation]
        replaced = np.flatnonzero(parent != np.arange(48))
        assert len(replaced) == 12
        assert len(set(parent[replaced])) >= 5  # of 12; 12 draws find 7.8 of them on average
        assert len(set(past.hyperparams.lr[replaced, generation])) == 12


def test_children_move_in_all_directions(results: list[Result]) -> None:
    config = echo.Config(lr=3e-4, bonus=0.15)
    space: dict[str, Any] = {"lr": (1e-4, 1e-3, "log"), "bonus": (0.1, 0.2)}
    method = PBT(generations=2, quantile=0.5, resample=0.0, draw=False, finalists=1)
    jaxrl.search(echo, config, method=method, budget=32, tuning_seeds=1, **OPTIONS, **space)
    past = jax.device_get(results[0].state.past)
    replaced = np.flatnonzero(past.parent[:, 1] != np.arange(32))
    assert len(replaced) == 16
    changed = [(past.hyperparams.lr[m, 1] / 3e-4, past.hyperparams.bonus[m, 1]) for m in replaced]
    found = {(round(float(factor), 3), round(float(bonus), 3)) for factor, bonus in changed}
    assert found == {(0.8, 0.14), (0.8, 0.16), (1.2, 0.14), (1.2, 0.16)}


@pytest.mark.parametrize("method", [PBT(generations=2), "random", pytest.param("halving", marks=pytest.mark.slow)])
def test_a_curve_of_zeros_has_a_mean(method: Any) -> None:
    space: dict[str, Any] = {"lr": (1e-31, 1e-30, "log")}  # so low that nothing at all is learned
    found = jaxrl.search(echo, CONFIG, method=method, budget=2, tuning_seeds=1, **OPTIONS, **space)
    assert {trial.rank for trial in found.trials} == {(0.0, 0.0)}


def test_of_two_curves_the_one_without_episodes_is_the_worse() -> None:
    ranks = [Trial({}, [0.0], mean, 10).rank for mean in (None, -5.0, 0.0, 5.0)]
    assert ranks == sorted(set(ranks))


def test_a_search_goes_on_though_everybody_has_diverged_once() -> None:
    """Learning rates are drawn anew all the time, and above 1 nothing is finite; those who diverge are replaced."""
    found = jaxrl.search(
        echo,
        echo.Config(total_timesteps=60),
        method=PBT(generations=30, resample=1.0, finalists=1),
        budget=4,
        tuning_seeds=1,
        lr=(1e-6, 1e2, "log"),
        **OPTIONS,
    )
    assert found.best is not None
    assert 0 < found.best["lr"] <= 1
