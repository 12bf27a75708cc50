"""TensorBoard event files, written by tensorboardX, which needs neither TensorFlow nor TensorBoard."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from jaxrl.errors import MissingExtraError
from jaxrl.train.loggers.base import Logger, Names
from jaxrl.train.loggers.tracks import Track, tracks

try:
    from tensorboardX import SummaryWriter
except ImportError as error:
    raise MissingExtraError("The tensorboard logger needs tensorboardX: pip install 'jaxrl[tensorboard]'") from error

__all__ = ["TensorBoardLogger"]


class TensorBoardLogger(Logger):
    """Writes `tensorboard/`, or a subfolder of it for each member; `tensorboard --logdir runs` shows all of them."""

    def __init__(self, names: Names = "jaxrl", per_seed: bool = False) -> None:
        self._names: Names = names
        self._per_seed = per_seed
        self._folder = Path()
        self._tracks: list[Track] = []
        self._writers: list[SummaryWriter] = []

    def open(self, about: dict[str, Any], folder: Path | None, say: Callable[[str], None]) -> None:
        if folder is None:
            raise ValueError("The tensorboard logger needs a place: give a run_dir.")
        self._folder = folder / "tensorboard"
        self._tracks = tracks(about, self._names, self._per_seed)

    def row(self, row: dict[str, Any]) -> None:
        self._write(row["timesteps"], [track.row(row) for track in self._tracks])

    def evaluation(self, row: dict[str, Any]) -> None:
        self._write(row["timesteps"], [track.evaluation(row) for track in self._tracks])

    def close(self, about: dict[str, Any]) -> None:
        for writer in self._writers:
            writer.close()

    def _write(self, step: int, numbers: list[dict[str, float]]) -> None:
        if not self._writers:
            self._writers = [self._begin(track, step) for track in self._tracks]
        for track, writer, each in zip(self._tracks, self._writers, numbers, strict=True):
            for name, value in each.items():
                if name != track.step:
                    writer.add_scalar(name, value, step)

    def _begin(self, track: Track, step: int) -> SummaryWriter:
        """Open a track's writer at the step of its first number.

        A continued run writes again from this step on, and TensorBoard drops the old numbers from there.
        """
        folder = self._folder / track.name if len(self._tracks) > 1 else self._folder
        writer = SummaryWriter(str(folder), purge_step=step)
        rows = "\n".join(f"|{name}|{value}|" for name, value in track.hyperparameters.items())
        writer.add_text("hyperparameters", f"|param|value|\n|-|-|\n{rows}", step)
        return writer
