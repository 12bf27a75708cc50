"""The logger interface, how to make a logger from a name, and how `fit` opens and closes it."""

from __future__ import annotations

import contextlib
import dataclasses
import importlib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, get_args

from jaxrl.errors import error_text
from jaxrl.train.callbacks import Callback
from jaxrl.train.devices.hosts import is_main

__all__ = ["Kind", "Logger", "LoggerOptions", "Names", "follow", "make_logger"]

Kind = Literal["jsonl", "wandb", "tensorboard"]
Names = Literal["jaxrl", "cleanrl"]


class Logger(Callback):
    """A callback for metrics that does nothing: override the methods you need and pass it to `fit(logger=…)`.

    An error in `open` ends `fit`. An error in another method is reported, and the logger is off from then on.
    """

    def open(self, about: dict[str, Any], folder: Path | None, say: Callable[[str], None]) -> None:
        """The run begins or continues.

        Args:
            about: The content of run.json.
            folder: The run's folder; None if it writes nothing.
            say: Shows a sentence to the user.
        """

    def row(self, row: dict[str, Any]) -> None:
        """A new row, as in metrics.jsonl."""

    def evaluation(self, row: dict[str, Any]) -> None:
        """A new evaluation, as in evaluations.jsonl."""

    def close(self, about: dict[str, Any]) -> None:
        """The run has ended; `about["status"]` and the other facts in run.json say how."""


@dataclasses.dataclass(frozen=True)
class LoggerOptions:
    """The options of a built-in logger."""

    kind: Kind = "jsonl"
    """The kind of logger; `jsonl` means only metrics.jsonl, which is always written."""
    names: Names = "jaxrl"
    """The naming of metrics: as in metrics.jsonl, or as in CleanRL."""
    per_seed: bool = False
    """True if each seed or member gets its own run (folder, file), instead of one with the mean over all of them."""

    def __post_init__(self) -> None:
        for name, choices in (("kind", get_args(Kind)), ("names", get_args(Names))):
            if getattr(self, name) not in choices:
                raise ValueError(f"logger: {name} must be one of {', '.join(choices)}; got {getattr(self, name)!r}.")
        if self.kind == "jsonl" and (self.names, self.per_seed) != ("jaxrl", False):
            raise ValueError(
                f"logger: names={self.names} and per_seed={self.per_seed} have no effect on metrics.jsonl; leave them "
                f"out, or choose the kind wandb or tensorboard."
            )


_CLASSES = {
    "wandb": "jaxrl.train.loggers.to_wandb:WandbLogger",
    "tensorboard": "jaxrl.train.loggers.to_tensorboard:TensorBoardLogger",
}


def make_logger(logger: str | Mapping[str, Any] | Logger | None) -> tuple[Logger, dict[str, Any] | None]:
    """Make the logger that `fit` was given, and its options for run.json (None for the user's own logger).

    Args:
        logger: The kind, the fields of `LoggerOptions`, or a logger.

    Raises:
        ValueError: There is no such logger.
        MissingExtraError: Its package is not installed; the message has the command that installs it.
    """
    if isinstance(logger, Logger):
        return (_Guarded(logger, type(logger).__name__) if is_main() else Logger()), None
    options = LoggerOptions(logger or "jsonl") if not isinstance(logger, Mapping) else LoggerOptions(**logger)  # pyright: ignore[reportArgumentType]
    if options.kind == "jsonl" or not is_main():
        return Logger(), dataclasses.asdict(options)
    module, _, name = _CLASSES[options.kind].partition(":")
    made = getattr(importlib.import_module(module), name)(options.names, options.per_seed)
    return _Guarded(made, options.kind), dataclasses.asdict(options)


@contextlib.contextmanager
def follow(logger: Logger, about: dict[str, Any], folder: Path | None, say: Callable[[str], None]) -> Iterator[Logger]:
    """Open a logger, and close it with the latest `about` however the run ends."""
    logger.open(about, folder, say)
    try:
        yield logger
    finally:
        logger.close(about)


class _Guarded(Logger):
    """A logger whose failure ends the logging but not the training, which is worth more."""

    def __init__(self, logger: Logger, kind: str) -> None:
        self._logger: Logger | None = logger
        self._kind = kind
        self._say: Callable[[str], None] = print

    def open(self, about: dict[str, Any], folder: Path | None, say: Callable[[str], None]) -> None:
        self._say = say
        assert self._logger is not None
        self._logger.open(about, folder, say)  # a mistake in the set-up is reported at once

    def row(self, row: dict[str, Any]) -> None:
        self._try(lambda logger: logger.row(row))

    def evaluation(self, row: dict[str, Any]) -> None:
        self._try(lambda logger: logger.evaluation(row))

    def close(self, about: dict[str, Any]) -> None:
        self._try(lambda logger: logger.close(about))

    def _try(self, call: Callable[[Logger], None]) -> None:
        if self._logger is None:
            return
        try:
            call(self._logger)
        except Exception as error:  # whatever foreign code raises
            self._logger = None
            self._say(f"The {self._kind} logger has failed and is off; training goes on. It said: {error_text(error)}")
