"""Searches recover from a learning rate that learns nothing: the benchmark's own runs, at full length."""

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

FILE = Path(__file__).resolve().parent.parent.parent / "baselines" / "recover.py"


@pytest.fixture(scope="module")
def benchmark() -> ModuleType:
    spec = importlib.util.spec_from_file_location("recover", FILE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("method", ["halving", "pbt"])
@pytest.mark.parametrize("task", ["probe", "cartpole"])
def test_five_of_five(task: str, method: str, benchmark: ModuleType) -> None:
    found = [benchmark.recover(task, method, seed) for seed in range(5)]
    assert [row["recovered"] for row in found] == [True] * 5, found


@pytest.mark.slow
@pytest.mark.parametrize(("task", "seeds", "most"), [("probe", 64, 58), ("cartpole", 5, 0)])
def test_the_learning_rate_is_bad_indeed(task: str, seeds: int, most: int, benchmark: ModuleType) -> None:
    """Three quarters of all untrained networks guess the probe's two situations, so it takes many seeds to tell."""
    _, goal = benchmark.TASKS[task]
    assert sum(score >= goal for score in benchmark.without(task, seeds)) <= most
