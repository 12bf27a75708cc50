"""Search for good hyperparameters: random, grid, successive halving, population-based training.

    result = jaxrl.search(ppo, config, method="halving", budget=16, lr=(1e-5, 1e-1, "log"))
    result.best           # {"lr": 0.0021}
    result.test           # its greedy evaluation after retraining on seeds that the search has not used

Each method is a small class with its options and one call, `method(task) -> Found`; `search` does the rest.
"""

from jaxrl.tuning.methods import Found, Grid, Halving, Incumbent, Method, Random, StoppedError, Task, Trial
from jaxrl.tuning.pbt import PBT

__all__ = [
    "PBT",
    "Found",
    "Grid",
    "Halving",
    "Incumbent",
    "Method",
    "Random",
    "StoppedError",
    "Task",
    "Trial",
]
