"""Population-based training as `search` runs it: members are points times seeds, and no two of them are clones."""

from typing import Any

import echo
import pytest

import jaxrl
from jaxrl.tuning import PBT, Trial

CONFIG = echo.Config()
OPTIONS: dict[str, Any] = {"eval_episodes": 2, "quiet": True, "test_seeds": 1}
SPACE: dict[str, Any] = {"lr": (1e-6, 1e-1, "log")}


@pytest.mark.parametrize("method", [PBT(generations=2), "random", "halving"])
def test_a_curve_of_zeros_has_a_mean(method: Any) -> None:
    space: dict[str, Any] = {"lr": (1e-31, 1e-30, "log")}  # so low that nothing at all is learned
    found = jaxrl.search(echo, CONFIG, method=method, budget=2, tuning_seeds=1, **OPTIONS, **space)
    assert {trial.rank for trial in found.trials} == {(0.0, 0.0)}


def test_of_two_curves_the_one_without_episodes_is_the_worse() -> None:
    ranks = [Trial({}, [0.0], mean, 10).rank for mean in (None, -5.0, 0.0, 5.0)]
    assert ranks == sorted(set(ranks))
