"""Begin a run anew in its folder: the files of an interrupted one are set aside, never deleted."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from jaxrl.train.folder.lock import NAME as LOCK
from jaxrl.train.folder.run_folder import RunFolder

__all__ = ["begin_anew"]


def begin_anew(folder: RunFolder) -> None:
    """Free the folder: set the files of an interrupted run aside, and say so."""
    if not (folder.path / "run.json").is_file():
        return
    place = _set_aside(folder)
    kept = f"; what it had written is in {place}" if place else ""
    print(f"{folder.path} was interrupted before its first checkpoint, so it begins anew{kept}.", file=sys.stderr)


def _set_aside(folder: RunFolder) -> Path | None:
    """The folder inside that holds the files now; None if nothing had been learned.

    The files that show that there is a run move last: if the process is killed on the way, it is set aside next time.
    """
    if not folder.metrics.size and not folder.best.exists():
        shutil.rmtree(folder.checkpoints, ignore_errors=True)
        folder.evaluations.path.unlink(missing_ok=True)
        (folder.path / "run.json").unlink()
        return None
    number = 1
    while (place := folder.path / f"interrupted-{number}").exists():
        number += 1
    files = [file for file in folder.path.iterdir() if file.name != LOCK and not file.name.startswith("interrupted-")]
    place.mkdir()
    last = (folder.best.name, folder.metrics.path.name, "run.json")
    for file in sorted(files, key=lambda file: last.index(file.name) if file.name in last else -1):
        file.rename(place / file.name)
    return place
