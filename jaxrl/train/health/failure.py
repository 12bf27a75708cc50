"""The record of a run that an error ends: in its run.json and, out of memory, with the flags to lower."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax

from jaxrl.display import data_size
from jaxrl.train.cost import device_memory, host_memory
from jaxrl.train.folder.json_file import read_json, write_json

__all__ = ["failure_noted", "out_of_memory"]

_WANTED = re.compile(r"allocat\w*\s+([\d.]+)\s*(bytes|[KMGTPE]i?B)")
_LOWER = ("num_envs", "num_steps", "buffer_size", "batch_size", "num_seeds", "eval_episodes")


def out_of_memory(error: BaseException) -> str | None:
    """A sentence about an error of XLA or NumPy that lacks memory, with the bytes wanted; None for any other error."""
    exhausted = isinstance(error, jax.errors.JaxRuntimeError) and "RESOURCE_EXHAUSTED" in str(error)
    if not exhausted and not isinstance(error, MemoryError):
        return None
    found = _WANTED.search(str(error))
    wanted = ""
    if found:
        power = "bKMGTPE".index(found[2][0])
        wanted = f": {data_size(float(found[1]) * (1024 if 'i' in found[2] else 1000) ** power)} more were wanted"
    there, who = (device_memory(), "each device") if exhausted else (host_memory(), "this machine")
    return f"Out of memory{wanted}{f', and {who} has {data_size(there)} in all' if there else ''}."


@contextlib.contextmanager
def failure_noted(run_dir: Path | None, config: Any, num_seeds: int, eval_episodes: int) -> Iterator[None]:
    """Note the error that ends a run in a run.json that says "running"; out of memory, its notes say what to lower."""
    try:
        yield
    except Exception as error:
        trouble = out_of_memory(error)
        if trouble:
            error.add_note(_advice(config, num_seeds, eval_episodes))
        with contextlib.suppress(OSError, ValueError):  # the error says more
            content = {} if run_dir is None else read_json(run_dir / "run.json")
            if run_dir is not None and content["status"] == "running":
                write_json(run_dir / "run.json", {**content, "status": "failed", "error": trouble or str(error)})
        raise


def _advice(config: Any, num_seeds: int, eval_episodes: int) -> str:
    """The flags of a training that make it smaller, with their values now."""
    values = {**vars(config), "num_seeds": num_seeds, "eval_episodes": eval_episodes}
    flags = {name: f"--{name.replace('_', '-')} ({values.get(name)})" for name in (*_LOWER, "num_minibatches")}
    lower = [flags[name] for name in _LOWER if (values.get(name) or 0) > 1]
    more = f", or raise {flags['num_minibatches']}" if "num_minibatches" in values else ""
    return f"Lower {' or '.join(lower)}{more}; `jaxrl plan` with the same flags says how much fits."
