"""The same command again: it continues its run, unless that has ended or was another one."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from jaxrl.train.checkpoint import Checkpoints
from jaxrl.train.lock import locked
from jaxrl.train.run_folder import RunFolder, config_to_json

__all__ = ["continues", "earlier"]

_OPTIONS = ("log_every", "eval_every", "eval_episodes")
"""What decides the rows of a run, besides its config and its seeds; all else may change on the way."""


def continues(run_dir: Path, config: Any, options: dict[str, Any]) -> bool:
    """Whether `run_dir` holds this very run with something to continue from.

    A run that was interrupted before its first checkpoint begins anew: its files are set aside, and it is said.

    Args:
        run_dir: The folder asked for; it need not exist.
        config: The algorithm's.
        options: As `fit` takes them.

    Raises:
        FileExistsError: The run has ended, or is another one, or is being trained by another process.
    """
    folder = RunFolder(run_dir)
    if not (folder.path / "run.json").is_file():
        return False
    with locked(folder.path):
        try:
            about = folder.read()
        except ValueError as error:
            raise FileExistsError(f"{folder.path}/run.json is damaged ({error}); choose another --run-dir.") from error
        _check(folder.path, about, config, options)
        if Checkpoints(folder.checkpoints).updates:
            return True
        place = _set_aside(folder)
    kept = f"; what it had written is in {place}" if place else ""
    print(f"{folder.path} was interrupted before its first checkpoint, so it begins anew{kept}.", file=sys.stderr)
    return False


def earlier(folder: RunFolder | None) -> dict[str, Any]:
    """What run.json goes on saying when a run is continued: the command that began it, and how often it has been."""
    if folder is None or not (folder.path / "run.json").is_file():
        return {}
    about = folder.read()
    return {"command": about["command"], "resumed": about.get("resumed", 0) + 1}


def _check(path: Path, about: dict[str, Any], config: Any, options: dict[str, Any]) -> None:
    """Raise unless the run is this one and unfinished."""
    asked = {**config_to_json(config), "algorithm": _class(config), "num_seeds": options.get("num_seeds", 1)}
    asked |= {name: options.get(name) for name in _OPTIONS}
    had = {**about["config"], "algorithm": about["config_class"], "num_seeds": about["num_seeds"]}
    had |= {name: about["options"].get(name) for name in _OPTIONS}
    differing = list(_differences(had, json.loads(json.dumps(asked))))
    if differing:
        other = "" if about["status"] == "finished" else f", or continue that one with `jaxrl resume {path}`"
        raise FileExistsError(
            f"{path} already holds another run: {', '.join(differing)}. Name another folder with --run-dir{other}."
        )
    if about["status"] == "finished":
        raise FileExistsError(
            f"{path} already holds a run, this very one, and it is finished: `jaxrl eval {path}` plays it. To train "
            f"again name another folder with --run-dir."
        )
    if about["status"] == "diverged":
        raise FileExistsError(
            f"The run in {path} has ended: {about.get('error', 'it has diverged.')} To go on from the last good "
            f"checkpoint without the updates that are not finite, type: jaxrl resume {path} --on-nan skip"
        )


def _differences(had: dict[str, Any], asked: dict[str, Any]) -> Iterator[str]:
    """For example `lr is 0.001 there and 0.002 here`."""
    for name in dict.fromkeys([*asked, *had]):
        there, here = had.get(name, "unknown"), asked.get(name, "unknown")
        if isinstance(there, dict) and isinstance(here, dict):
            yield from (f"{name}.{text}" for text in _differences(there, here))
        elif there != here:
            yield f"{name} is {_words(there)} there and {_words(here)} here"


def _words(value: Any) -> str:
    return "left out" if value is None else str(value)


def _class(config: Any) -> str:
    return f"{type(config).__module__}:{type(config).__qualname__}"


def _set_aside(folder: RunFolder) -> Path | None:
    """Make the folder free. What has been learned there, if anything, is kept in a folder inside, which is returned."""
    files = [path for path in folder.path.iterdir() if not path.name.startswith("interrupted-")]
    if not folder.metrics.size and not folder.best.exists():
        (folder.path / "run.json").unlink()
        folder.evaluations.path.unlink(missing_ok=True)
        shutil.rmtree(folder.checkpoints, ignore_errors=True)
        return None
    place = folder.path / f"interrupted-{1 + len(list(folder.path.glob('interrupted-*')))}"
    place.mkdir()
    for path in files:
        path.rename(place / path.name)
    return place
