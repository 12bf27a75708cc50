"""Runs that were stopped, and what becomes of them."""

from pathlib import Path
from typing import Any

import pytest
from toy_runs import CONFIG

from jaxrl.train.folder.continuation import Stage, decide, left_to_do
from jaxrl.train.folder.run_folder import RunFolder, describe_run
from jaxrl.train.folder.same_run import wanted

OPTIONS = {"log_every": 2, "eval_every": None, "eval_episodes": 8, "checkpoint_every_updates": 4}


def change(folder: RunFolder, **facts: Any) -> None:
    folder.write({**folder.read(), **facts})


def pretend(place: Path, config: Any, members: Any = 1, **asked: Any) -> RunFolder:
    """A run that was stopped, without the trouble of training it."""
    folder = RunFolder.create(place)
    about = wanted(config, members, OPTIONS, **asked)
    folder.write({**describe_run(config, about["num_seeds"]), **about, "status": "stopped"})
    folder.metrics.append({"timesteps": 8})
    (folder.checkpoints / "4").mkdir(parents=True)
    return folder


def stage(folder: RunFolder, config: Any = CONFIG, members: Any = 1, **options: Any) -> Stage:
    return decide(folder, config, wanted(config, members, {**OPTIONS, **options}))


def refusal(folder: RunFolder, config: Any = CONFIG, members: Any = 1, **options: Any) -> str:
    with pytest.raises(FileExistsError) as error:
        left_to_do(folder.path, config, wanted(config, members, {**OPTIONS, **options}))
    return str(error.value)


def content(path: Path) -> dict[str, bytes]:
    """All files with what is in them."""
    return {str(file.relative_to(path)): file.read_bytes() for file in path.rglob("*") if file.is_file()}
