"""The copies of the user's own files in a run folder are executed; what they miss there is told, with where it lay."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from jaxrl.source_file import SourceFile, load_source
from jaxrl.train.folder.sources import FOLDER
from jaxrl.train.folder.typable import typable

__all__ = ["DEFINED", "data_asked_for", "load_kept"]

DEFINED = {
    "algorithm": "algorithm is",
    "env": "environment is",
    "params": "parameters are",
    "network": "network is",
}
"""What a file of each role defines, for sentences."""


def load_kept(kept: SourceFile, about: Mapping[str, Any], folder: Path, role: str) -> None:
    """Execute a copy.

    Args:
        kept: The copy; see `kept_source`.
        about: The content of run.json.
        folder: The run folder.
        role: What the copy was made for, one of the `sources` in run.json.

    Raises:
        ImportError: It imports what is neither kept nor installed; the message says what to type.
        FileNotFoundError: It reads a file that is not kept; the message says what to type.
    """
    try:
        with data_asked_for(about, folder):
            load_source(kept, beside=False)
    except ImportError as error:
        lay, name = _lay(about["sources"][role]), (error.name or "").partition(".")[0]
        there = name and ((lay / name).is_dir() or (lay / f"{name}.py").is_file())  # an older run kept none of these
        raise ImportError(
            f"{kept.path}, where its {DEFINED[role]} defined, cannot be imported here: {error}. Install what is "
            f"missing, or put the folder that it lies in on PYTHONPATH: type PYTHONPATH="
            f"{typable(lay) if there else 'FOLDER'} before the command."
        ) from error


@contextlib.contextmanager
def data_asked_for(about: Mapping[str, Any], folder: Path) -> Iterator[None]:
    """Ask for the data files that kept code looks for beside itself: a run keeps none.

    Args:
        about: The content of run.json.
        folder: The run folder.

    Raises:
        FileNotFoundError: A file is missing there; the message says what to copy.
    """
    try:
        yield
    except FileNotFoundError as error:
        missing = Path(os.fsdecode(error.filename)) if isinstance(error.filename, str | bytes) else Path()
        place = (folder / FOLDER).absolute()
        if not missing.absolute().is_relative_to(place):
            raise
        inner = missing.absolute().relative_to(place)
        lay = list(dict.fromkeys(_lay(source) / inner for source in about.get("sources", {}).values()))
        lay = [path for path in lay if path.exists()] or lay
        raise FileNotFoundError(
            f"The code of {folder} reads {inner}, and the run keeps no data: copy that file from where it lay into "
            f"{folder / FOLDER}, cp {typable(lay[0])} {typable(folder / FOLDER / inner)}"
        ) from error


def _lay(source: Mapping[str, Any]) -> Path:
    """The folder that a file lay in when the run was made, as one types it here."""
    folder = Path(source["path"]).parent
    return folder.absolute() if folder.is_dir() else folder
