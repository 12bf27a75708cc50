"""What a logger is, how a name becomes one, and how `fit` takes it along."""

from __future__ import annotations

import contextlib
import dataclasses
import importlib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, get_args

from jaxrl.train.devices.hosts import is_main
from jaxrl.train.health.mishap import in_words
from jaxrl.train.hooks import Hook

__all__ = ["Kind", "Logger", "LoggerOptions", "Names", "follow", "make_logger"]

Kind = Literal["jsonl", "wandb", "tensorboard"]
Names = Literal["jaxrl", "cleanrl"]


class Logger(Hook):
    """Is told what happens in a run. This one does nothing: override what you need and hand it to `fit(logger=…)`.

    What `open` raises ends `fit`. What another method raises is said, and the logger is off from then on.
    """

    def open(self, about: dict[str, Any], folder: Path | None, say: Callable[[str], None]) -> None:
        """The run begins, or is continued.

        Args:
            about: What run.json says.
            folder: The run's; None if it writes nothing.
            say: Shows a sentence to the user.
        """

    def row(self, row: dict[str, Any]) -> None:
        """One more row, as in metrics.jsonl."""

    def evaluation(self, row: dict[str, Any]) -> None:
        """One more evaluation, as in evaluations.jsonl."""

    def close(self, about: dict[str, Any]) -> None:
        """The run has ended; `about["status"]` and the other facts in run.json tell how."""


@dataclasses.dataclass(frozen=True)
class LoggerOptions:
    """One of the loggers that come with jaxrl."""

    kind: Kind = "jsonl"
    """`jsonl` is metrics.jsonl alone, which is always written."""
    names: Names = "jaxrl"
    """What metrics are called: as in metrics.jsonl, or as CleanRL calls them."""
    per_seed: bool = False
    """A run (a folder, a file) for each seed or member, instead of one with the mean over all of them."""

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
    """What `fit` was given as a logger, and how run.json records it (None for one of the user's own).

    Args:
        logger: The kind, the fields of `LoggerOptions`, or a logger.

    Raises:
        ValueError: There is no such logger.
        MissingExtraError: Its package is not installed; the message has the line that installs it.
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
    """Open a logger and close it however the run ends, with what `about` says by then."""
    logger.open(about, folder, say)
    try:
        yield logger
    finally:
        logger.close(about)


class _Guarded(Logger):
    """A logger whose failure ends the logging, not the training, which is worth more."""

    def __init__(self, logger: Logger, kind: str) -> None:
        self._logger: Logger | None = logger
        self._kind = kind
        self._say: Callable[[str], None] = print

    def open(self, about: dict[str, Any], folder: Path | None, say: Callable[[str], None]) -> None:
        self._say = say
        assert self._logger is not None
        self._logger.open(about, folder, say)  # a mistake in the set-up is told at once

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
            self._say(f"The {self._kind} logger has failed and is off; training goes on. It said: {in_words(error)}")
