"""Destinations of a run's metrics besides metrics.jsonl: Weights & Biases, TensorBoard, or your own logger.

fit(algo, config, "runs/a", logger="wandb")
fit(algo, config, "runs/b", logger={"kind": "tensorboard", "names": "cleanrl", "per_seed": True})

class Print(Logger):
    def row(self, row):
        print(row["timesteps"], row["return_mean"])

fit(algo, config, logger=Print())
"""

from jaxrl.train.loggers.base import Kind, Logger, LoggerOptions, Names, follow, make_logger
from jaxrl.train.loggers.tracks import Track, tracks

__all__ = ["Kind", "Logger", "LoggerOptions", "Names", "Track", "follow", "make_logger", "tracks"]
