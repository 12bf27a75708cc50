"""Open a run again: its folder says what it was, its checkpoint what it had learned."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import jax

from jaxrl.algorithm import Algorithm
from jaxrl.environment import Environment
from jaxrl.errors import CheckpointError
from jaxrl.fields import settled
from jaxrl.train.folder.checkpoint import CheckpointReader
from jaxrl.train.folder.run_folder import RunFolder, config_from_json, latest_run
from jaxrl.train.folder.sources import NAMED, changed, restored
from jaxrl.train.folder.trust import check_own_code, trusted_class
from jaxrl.train.folder.typed import spelled
from jaxrl.train.programs import initial_state, member_keys

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

        With `best` it is the state that had the best score in an evaluation during training. The folder is only read.

        Raises:
            CheckpointError: There is none, none is good, or it does not fit the config in run.json.
        """
        place = self.folder.best if best else self.folder.checkpoints
        if best and not place.exists():
            raise CheckpointError(
                f"{self.folder.path} has no best checkpoint: they are kept when --eval-every is given."
            )
        with _told(self.folder.path):
            keys = jax.eval_shape(lambda: member_keys(self.config.seed, self.about["num_seeds"]))
            shape = jax.eval_shape(partial(initial_state, self.algo, self.about["num_seeds"]), keys)
        return CheckpointReader(place).restore(shape).state


def load_run(path: str | Path | None = None, *, trust: bool = False) -> LoadedRun:
    """The run in a folder, or the latest one in runs/ for None.

    Args:
        path: The folder, which is only read.
        trust: Whether the folder may name a module to import that is none of jaxrl's algorithms, although this user has
            not made the run on this machine.

    Raises:
        FileNotFoundError: There is no run.
        UntrustedRunError: Code would be executed that nobody has vouched for.
        ValueError: run.json is damaged, or describes a run that cannot be made here.
    """
    folder = RunFolder.open(latest_run() if path is None else path)
    about = folder.read()
    config_class = trusted_class(about, folder.path, trust)
    check_own_code(about, folder.path, trust)
    for sentence in changed(about):
        print(sentence, file=sys.stderr)
    module = sys.modules[config_class.__module__]
    with _told(folder.path):
        # What had no effect then is refused now, so it is left out.
        content = {"env": about["env"], **about["config"]}
        content |= {role: restored(content[role], folder.path) for role in NAMED if content.get(role)}
        config = settled(config_from_json(config_class, content))
        for own in about["members"] or ():
            config_from_json(config_class, {**about["config"], **spelled(own)})
        return LoadedRun(folder, about, module, config, module.make(config), config.make_env())


@contextlib.contextmanager
def _told(path: Path) -> Iterator[None]:
    """Whatever goes wrong with a config that is not this version's, or was changed, is told in a sentence."""
    try:
        yield
    except ImportError:  # it names the package and the line that installs it
        raise
    except Exception as error:
        reason = (str(error).strip() or repr(error)).splitlines()[0].rstrip(".")
        raise ValueError(f"The run in {path} cannot be made again here: {reason}.") from error
