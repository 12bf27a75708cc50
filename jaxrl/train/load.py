"""Open a run again: its folder says what it was, its checkpoint what it had learned."""

from __future__ import annotations

import importlib
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import jax

from jaxrl.algorithm import Algorithm
from jaxrl.environment import Environment
from jaxrl.fields import settled
from jaxrl.train.checkpoint import CheckpointError, Checkpoints
from jaxrl.train.programs import initial_state, member_keys
from jaxrl.train.run_folder import RunFolder, config_from_json, latest_run

__all__ = ["LoadedRun", "load_run"]


class LoadedRun(NamedTuple):
    """A run made ready for use."""

    folder: RunFolder
    about: dict[str, Any]
    """The content of run.json."""
    module: ModuleType
    """The algorithm's module."""
    config: Any
    algo: Algorithm
    env: Environment

    def restore(self, best: bool = False) -> Any:
        """The train state of the newest good checkpoint; with several seeds its leaves are `[M, …]`.

        With `best` it is the state that had the best score in an evaluation during training.

        Raises:
            CheckpointError: There is none, none is good, or it does not fit the config in run.json.
        """
        place = self.folder.best if best else self.folder.checkpoints
        if best and not place.exists():
            raise CheckpointError(
                f"{self.folder.path} has no best checkpoint: they are kept when --eval-every is given."
            )
        members = self.about["num_seeds"]
        keys = jax.eval_shape(lambda: member_keys(self.config.seed, members))
        shape = jax.eval_shape(partial(initial_state, self.algo, members), keys)
        with Checkpoints(place) as checkpoints:
            return checkpoints.restore(shape).state


def load_run(path: str | Path | None = None) -> LoadedRun:
    """The run in a folder, or the latest one in runs/ for None.

    Raises:
        FileNotFoundError: There is no run.
    """
    folder = RunFolder.open(latest_run() if path is None else path)
    about = folder.read()
    module = importlib.import_module(about["config_class"].partition(":")[0])
    # What had no effect then is refused now, so it is left out.
    config = settled(config_from_json(about["config_class"], about["config"]))
    return LoadedRun(folder, about, module, config, module.make(config), config.make_env())
