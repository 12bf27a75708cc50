"""Recorded data for other libraries, written by the libraries themselves: Minari, flashbax's Vault, Parquet."""

from __future__ import annotations

import contextlib
import io
import json
import math
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from jaxrl.data.dataset import Dataset
from jaxrl.errors import MissingExtraError, shell_path
from jaxrl.registry import make, own_code

__all__ = ["CONVERTERS", "to_minari", "to_parquet", "to_vault"]

_LINE = "pip install 'jaxrl[data]'"


def to_minari(data: Dataset, name: str) -> str:
    """Write the episodes that ended as a Minari dataset, in Minari's own folder; returns a sentence.

    Its spaces are those of the environment, which is made for that. Each episode has T + 1 observations.

    Raises:
        ImportError: Minari is missing.
        ValueError: There are several agents, which Minari has no place for, or no episode ended.
    """
    try:
        import minari
        from minari.data_collector import EpisodeBuffer
    except ImportError as error:
        raise MissingExtraError(f"--to minari needs minari: {_LINE}") from error
    from jaxrl.interop.gymnasium import space_of

    if "agent_mask" in data.steps:
        raise ValueError(f"{data.path} has several agents, and Minari's episodes have one; use --to vault.")
    env = make(_library_env(data))
    finished = [(e.steps, e.final_observation) for e in data.episodes() if e.final_observation is not None]
    if not finished:
        raise ValueError(f"No episode in {data.path} was recorded to its end; record more steps.")
    buffers = []
    for number, (steps, final) in enumerate(finished):
        seen: Any = np.concatenate([steps["obs"], final[None]])  # arrays, where Minari's types say lists
        done: Any = steps["action"]
        facts = (steps[name].tolist() for name in ("reward", "terminated", "truncated"))
        buffers.append(EpisodeBuffer(number, None, None, seen, done, *facts))
    with warnings.catch_warnings(action="ignore", category=UserWarning):  # of authors, for those who publish
        made = minari.create_dataset_from_buffers(
            name,
            buffer=buffers,
            observation_space=space_of(env.observation_space()),
            action_space=space_of(env.action_space()),
            algorithm_name=str(data.about["origins"][0].get("algorithm", "")),
            description=f"Recorded by jaxrl in {data.env}.",
            jpeg_encoding=False,
        )
    return f"Wrote {made.total_episodes:,} episodes, {made.total_steps:,} steps: minari.load_dataset({name!r})"


def to_vault(data: Dataset, folder: str) -> str:
    """Write all steps as a vault of flashbax, one long sequence `[1, T B, N, …]` as in OG-MARL; returns a sentence.

    Raises:
        ImportError: flashbax is missing.
        ValueError: The folder's name is not one of a vault.
    """
    try:
        import jax.numpy as jnp
        from flashbax.buffers.trajectory_buffer import TrajectoryBufferState
        from flashbax.vault import Vault
    except ImportError as error:
        raise MissingExtraError(f"--to vault needs flashbax: {_LINE}") from error
    path = Path(folder)
    if path.suffix != ".vlt" or path.exists():
        raise ValueError(f"Name a new folder that ends in .vlt, such as --out {path.with_suffix('.vlt')}.new.vlt.")

    def in_line(leaf: np.ndarray) -> Any:
        return jnp.asarray(leaf.swapaxes(0, 1).reshape(1, -1, *leaf.shape[2:]))

    # Where one environment's steps end and another's begin, the sequence is cut.
    steps = dict(data.steps)
    cut = steps["truncated"].copy()
    cut[-1] |= ~steps["terminated"][-1]
    alone = "agent_mask" not in steps
    agents = 1 if alone else steps["agent_mask"].shape[2]

    def by_agent(name: str) -> Any:
        leaf = steps[name]
        return in_line(leaf[:, :, None] if alone else leaf)

    def of_all(leaf: np.ndarray) -> Any:
        return in_line(np.repeat(leaf[:, :, None], agents, axis=2))

    infos = {"legals": by_agent("action_mask")} if "action_mask" in steps else {}
    infos |= {"state": in_line(steps["global_state"])} if "global_state" in steps else {}
    experience = {
        "observations": by_agent("obs"),
        "actions": by_agent("action"),
        "rewards": by_agent("reward"),
        "terminals": of_all(steps["terminated"]),
        "truncations": of_all(cut),
        "infos": infos,
    }
    count = data.num_steps
    about = {"env": data.env, "origins": json.dumps(data.about["origins"])}
    with contextlib.redirect_stdout(io.StringIO()):  # it advises those who write as they train
        vault = Vault(path.name, experience, str(path.parent), "Recorded", metadata=about)
    state = TrajectoryBufferState(experience=experience, current_index=jnp.asarray(count), is_full=jnp.asarray(False))
    vault.write(state, source_interval=(0, count))
    return f"Wrote {count:,} steps: Vault({path.name!r}, rel_dir={str(path.parent)!r}, vault_uid='Recorded').read()"


def to_parquet(data: Dataset, file: str) -> str:
    """Write a table with a row for each step of each agent, observations and masks as lists; returns a sentence.

    Raises:
        ImportError: pyarrow is missing.
        ValueError: The file's name does not end in .parquet.
    """
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError as error:
        raise MissingExtraError(f"--to parquet needs pyarrow: {_LINE}") from error
    if Path(file).suffix != ".parquet":
        raise ValueError(f"Name a file that ends in .parquet, such as --out {shell_path(file)}.parquet.")
    steps = data.steps
    agents = steps["agent_mask"].shape[2] if "agent_mask" in steps else 1
    shape = (*steps["reward"].shape[:2], agents)
    columns: dict[str, np.ndarray] = {}
    columns["step"], columns["env"], columns["agent"] = np.indices(shape).reshape(3, -1)
    for name, leaf in steps.items():
        whole = name == "global_state" or leaf.shape[2:3] != (agents,)  # of an environment, not of an agent
        leaf = np.broadcast_to(leaf[:, :, None], (*shape, *leaf.shape[2:])) if whole else leaf
        columns[name] = leaf.reshape(math.prod(shape), -1).squeeze()
    lists = pa.FixedSizeListArray.from_arrays
    arrays = {
        name: pa.array(leaf) if leaf.ndim == 1 else lists(pa.array(leaf.reshape(-1)), leaf.shape[1])
        for name, leaf in columns.items()
    }
    table = pa.table(arrays, metadata={"env": data.env, "origins": json.dumps(data.about["origins"])})
    pq.write_table(table, file)
    return f"Wrote {table.num_rows:,} rows: pandas.read_parquet({file!r})"


def _library_env(data: Dataset) -> str:
    """The environment's name, unless it is code of somebody's own."""
    if own_code(data.env) is not None:
        raise ValueError(f"{data.path} names code of your own, which --to minari would execute; use --to parquet.")
    return data.env


CONVERTERS: dict[str, Callable[[Dataset, str], str]] = {
    "minari": to_minari,
    "vault": to_vault,
    "parquet": to_parquet,
}
