"""Recorded data: the steps of a policy or a person in a folder, to learn from and to give to others."""

from jaxrl.data.dataset import Dataset, Episode, Writer, load
from jaxrl.data.record import record

__all__ = ["Dataset", "Episode", "Writer", "load", "record"]
