"""A folder of recorded steps: `dataset.json` and shards of NumPy arrays, which can be read after a crash at any moment.

A shard `00000.npz` holds T successive steps of B environments, leaves `[T, B, …]`:

    obs action reward terminated truncated reset    of each step; `reset` is True where `obs` begins an episode
    action_mask agent_mask global_state won         where the environment has them
    final_index[K, 2] final_observation[K, …]       what K ended episodes led to, by step in the shard and environment

`dataset.json` names the shards with their hashes. It is written anew after each of them, so a shard counts once it is
whole.
"""

from __future__ import annotations

import dataclasses
import hashlib
import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from jaxrl.durable import replace_file
from jaxrl.errors import printable

__all__ = ["Dataset", "Episode", "Writer", "load"]

_FORMAT = 1
_MANIFEST = "dataset.json"
_NEEDED = ("obs", "action", "reward", "terminated", "truncated", "reset")
_FINAL = ("final_index", "final_observation")


class Episode(NamedTuple):
    """T steps of one episode, as a view of a `Dataset`."""

    steps: dict[str, np.ndarray]
    """The arrays of the dataset without the axis of environments, `[T, …]`."""
    final_observation: np.ndarray | None
    """What the last step led to; None if the recording was cut before the episode ended."""

    @property
    def finished(self) -> bool:
        """True if the environment ended the episode."""
        return self.final_observation is not None

    @property
    def episode_return(self) -> float:
        """The sum of rewards, the mean over agents."""
        return float(self.steps["reward"].reshape(len(self.steps["reward"]), -1).mean(1).sum())


@dataclasses.dataclass(frozen=True, eq=False)
class Dataset:
    """Recorded steps of B environments, one after the other: arrays `[T, B, …]`."""

    path: Path
    about: dict[str, Any] = dataclasses.field(repr=False)
    """The content of dataset.json: `env`, `num_envs`, `origins`, `shards` and others."""
    steps: dict[str, np.ndarray] = dataclasses.field(repr=False)
    """By name, see above. Where the recording was cut between two steps, the first of them counts as truncated."""
    final_index: np.ndarray = dataclasses.field(repr=False)
    """int64 `[K, 2]`: the step, from 0 to T - 1, and the environment of each episode's end."""
    final_observation: np.ndarray = dataclasses.field(repr=False)
    """`[K, …]`, what they led to."""

    @property
    def env(self) -> str:
        """The environment's name with its options, as `jaxrl.make` takes it."""
        return self.about["env"]

    @property
    def num_steps(self) -> int:
        """Environment steps, T B."""
        return self.steps["reward"].shape[0] * self.num_envs

    @property
    def num_envs(self) -> int:
        """B."""
        return self.about["num_envs"]

    def episodes(self) -> Iterator[Episode]:
        """The episodes, environment by environment; nothing is copied."""
        finals = {tuple(index): row for row, index in enumerate(self.final_index.tolist())}
        ends = self.steps["terminated"] | self.steps["truncated"]
        for env in range(self.num_envs):
            last = np.flatnonzero(ends[:, env])
            last = last if len(last) and last[-1] == len(ends) - 1 else [*last, len(ends) - 1]
            for first, end in zip([0, *(np.asarray(last[:-1], int) + 1)], last, strict=True):
                steps = {name: array[first : end + 1, env] for name, array in self.steps.items()}
                row = finals.get((int(end), env))
                yield Episode(steps, None if row is None else self.final_observation[row])


class Writer:
    """Adds steps to a folder, which is new or holds steps of the same environment.

    Args:
        path: The folder.
        env: The environment's name with its options.
        num_envs: B.
        origin: Who acted, for `dataset.json`; plain numbers and texts.

    Raises:
        ValueError: The folder holds steps of another environment, or of another number of them, or is damaged.
        OSError: It cannot be written.
    """

    def __init__(self, path: str | Path, env: str, num_envs: int, origin: dict[str, Any]) -> None:
        self.path = Path(path)
        self._about: dict[str, Any] = {"format": _FORMAT, "env": env, "num_envs": num_envs, "origins": [], "shards": []}
        if (self.path / _MANIFEST).exists():
            self._about = _manifest(self.path)
            there = (self._about["env"], self._about["num_envs"])
            if there != (env, num_envs):
                raise ValueError(
                    f"{self.path} holds steps of {printable(there[0])} by {there[1]} environments, not of {env} by "
                    f"{num_envs}; name another folder."
                )
        self._origin = len(self._about["origins"])
        self._about["origins"].append(origin)
        self.path.mkdir(parents=True, exist_ok=True)

    def write(self, steps: dict[str, np.ndarray]) -> None:
        """Add a shard, whose arrays are those of the first one: see the module."""
        file = f"{len(self._about['shards']):05d}.npz"
        buffer = io.BytesIO()
        np.savez_compressed(buffer, **steps)  # pyright: ignore[reportArgumentType]
        content = buffer.getvalue()
        replace_file(self.path / file, content)
        digest, length = hashlib.sha256(content).hexdigest(), len(steps["reward"])
        self._about["shards"].append({"file": file, "steps": length, "origin": self._origin, "sha256": digest})
        replace_file(self.path / _MANIFEST, json.dumps(self._about, indent=1).encode())


def load(path: str | Path) -> Dataset:
    """All steps of a folder, in memory.

    Raises:
        FileNotFoundError: There is no dataset.
        ValueError: It is damaged; the message says which file.
    """
    path = Path(path)
    about = _manifest(path)
    shards = [_read(path / shard["file"], shard) for shard in about["shards"]]
    if not shards:
        raise ValueError(f"{path} holds no steps yet; record some: jaxrl record RUN --steps 10000 --out {path}")
    if any(shard.keys() != shards[0].keys() for shard in shards):
        raise ValueError(f"The shards in {path} hold different arrays; record them again, in another folder.")
    steps = {name: np.concatenate([shard[name] for shard in shards]) for name in shards[0] if name not in _FINAL}

    # Steps of different shards are numbered from the first one on.
    first = np.cumsum([0, *(len(shard["reward"]) for shard in shards[:-1])])
    index = [shard["final_index"] + [start, 0] for shard, start in zip(shards, first, strict=True)]
    # Nobody knows what follows a step after which a recording was cut.
    done = steps["terminated"] | steps["truncated"]
    steps["truncated"][:-1] |= steps["reset"][1:] & ~done[:-1]
    finals = np.concatenate([shard["final_observation"] for shard in shards])
    return Dataset(path, about, steps, np.concatenate(index).astype(np.int64).reshape(-1, 2), finals)


def _manifest(path: Path) -> dict[str, Any]:
    """The content of dataset.json; raises as `load`."""
    file = path / _MANIFEST
    if not file.is_file():
        raise FileNotFoundError(
            f"There is no dataset in {path}: it has no {_MANIFEST}. Record one: jaxrl record RUN --steps 10000 --out "
            f"{path}"
        )
    try:
        about = json.loads(file.read_text(encoding="utf-8"))
        version = about["format"]
        env, num_envs, origins = str(about["env"]), int(about["num_envs"]), list(about["origins"])
        shards = [
            {
                "file": Path(shard["file"]).name,  # nothing outside the folder
                "steps": int(shard["steps"]),
                "origin": int(shard["origin"]),
                "sha256": str(shard["sha256"]),
            }
            for shard in about["shards"]
        ]
    except Exception as error:  # a damaged text may raise anything
        raise ValueError(f"{file} is damaged; its shards can be read by NumPy, but record them again.") from error
    if version != _FORMAT:
        raise ValueError(f"{file} is of format {printable(str(version))}, and this version of jaxrl reads {_FORMAT}.")
    return {"format": version, "env": env, "num_envs": num_envs, "origins": origins, "shards": shards}


def _read(file: Path, shard: dict[str, Any]) -> dict[str, np.ndarray]:
    """The arrays of a shard, unless it is not what was written."""
    try:
        content = file.read_bytes()
    except OSError as error:
        raise ValueError(f"{file} cannot be read: {error.strerror or error}; its dataset names it.") from error
    if hashlib.sha256(content).hexdigest() != shard["sha256"]:
        raise ValueError(f"{file} is damaged: its content is not what was recorded; record the steps again.")
    with np.load(io.BytesIO(content), allow_pickle=False) as arrays:
        found = {name: arrays[name] for name in arrays.files}
    if missing := [name for name in (*_NEEDED, *_FINAL) if name not in found]:
        raise ValueError(f"{file} lacks {', '.join(missing)}; record the steps again.")
    return found
