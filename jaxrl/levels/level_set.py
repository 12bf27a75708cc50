"""Saved levels: starts of an environment's episodes in one file, so that every policy is evaluated on the same."""

from __future__ import annotations

import dataclasses
import hashlib
import io
import json
import shlex
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.tree_util import keystr, tree_flatten_with_path, tree_leaves_with_path

from jaxrl.display import on_host
from jaxrl.durable import replace_file
from jaxrl.environment import Environment, check_environment
from jaxrl.errors import printable
from jaxrl.keys import abstract_key
from jaxrl.registry import made_name, same_name

__all__ = ["LevelSet", "make_levels", "read_set", "take"]

_FORMAT = 1
_BATCH = 256  # levels drawn at once
_PATIENCE = 20  # draws for each level that is wanted, before too few different ones are an error


@dataclasses.dataclass(frozen=True, eq=False)
class LevelSet:
    """L levels: starts of an environment's episodes. What happens after a start may still be random."""

    env: str
    """The environment's name with its options, as `jaxrl.make` takes it."""
    starts: Any = dataclasses.field(repr=False)
    """(observation, state) with NumPy leaves `[L, …]`; random keys are JAX's. With `jaxrl.wrappers.RandomParams` the
    state holds the level's own parameters."""
    seed: int
    """The seed they were drawn with, or that of the run whose levels they are."""
    score: np.ndarray | None = None
    """float32 `[L]`, what made a run keep each level; None for levels that were drawn."""

    def __len__(self) -> int:
        return jax.tree.leaves(self.starts)[0].shape[0]

    @property
    def digest(self) -> str:
        """A hash of all levels in their order: the same for two sets only if their levels are."""
        return hashlib.sha256(b"".join(on_host(leaf).tobytes() for leaf in jax.tree.leaves(self.starts))).hexdigest()

    def save(self, path: str | Path) -> None:
        """Write one .npz file, or raise OSError: an array for each leaf under its path, and `about`, a text in JSON."""
        about = {"format": _FORMAT, "env": self.env, "levels": len(self), "seed": self.seed}
        entries = {"about": np.array(json.dumps(about))}
        entries |= {} if self.score is None else {"score": np.asarray(self.score, np.float32)}
        entries |= {keystr(where): on_host(leaf) for where, leaf in tree_leaves_with_path(self.starts)}
        buffer = io.BytesIO()
        np.savez_compressed(buffer, **entries)  # pyright: ignore[reportArgumentType]
        replace_file(Path(path), buffer.getvalue())

    @classmethod
    def load(cls, path: str | Path, env: Environment) -> LevelSet:
        """A saved set, for the environment that it was made in.

        Raises:
            OSError: There is no such file, or it cannot be read.
            ValueError: It is damaged or empty, or its levels are not starts of `env`; the message says what to do.
        """
        check_environment(env, "LevelSet.load")
        about, entries = read_set(path)
        if not same_name(about["env"], made_name(env)):
            name = shlex.quote(printable(about["env"]))
            raise ValueError(f"{path} holds levels of {name}, not of {made_name(env)}: play there with --env {name}.")
        leaves, structure = tree_flatten_with_path(jax.eval_shape(env.reset, abstract_key()))
        wanted = {"score": ((about["levels"],), np.dtype(np.float32))} if "score" in entries else {}
        for where, leaf in leaves:
            stored = jax.eval_shape(jax.random.key_data, leaf) if _is_key(leaf) else leaf
            wanted[keystr(where)] = ((about["levels"], *stored.shape), stored.dtype)
        if wanted != {name: (array.shape, array.dtype) for name, array in entries.items()}:
            raise ValueError(
                f"The levels in {path} do not begin an episode here: parameters, wrappers or versions differ, or the "
                f"file is damaged. Make the set again, with the --params of the run if it has any."
            )
        arrays = [
            jax.random.wrap_key_data(jnp.asarray(entries[keystr(where)])) if _is_key(leaf) else entries[keystr(where)]
            for where, leaf in leaves
        ]
        return cls(about["env"], jax.tree.unflatten(structure, arrays), about["seed"], entries.get("score"))


def read_set(path: str | Path) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """What a saved set says of itself, `env`, `levels` (L) and `seed`, and its arrays; raises as `LevelSet.load`."""
    try:
        with Path(path).open("rb") as opened, np.load(opened, allow_pickle=False) as file:
            entries = {name: file[name] for name in file.files}
        about = json.loads(str(entries.pop("about")))
        if about["format"] != _FORMAT or about["levels"] < 1:
            raise ValueError
        return {"env": str(about["env"]), "levels": int(about["levels"]), "seed": int(about["seed"])}, entries
    except OSError as error:
        raise OSError(f"The level set {path} cannot be read: {error.strerror or error}.") from error
    except Exception as error:  # a damaged archive may raise anything
        raise ValueError(f"{path} is damaged or no level set of this version; make it again.") from error


def make_levels(env: Environment, count: int, seed: int = 0) -> LevelSet:
    """Draw L different levels on the CPU, as `reset` makes them: the first ones of a larger set are those of a smaller.

    Two levels differ if their states do in anything but random keys. `count` is L, and `seed` determines the levels.

    Raises:
        ValueError: `count` is below 1, or the environment has fewer different starts; the message says how many.
    """
    check_environment(env, "make_levels")
    if count < 1:
        raise ValueError(f"count must be at least 1, got {count}.")

    @jax.jit
    def draw(numbers: jax.Array) -> Any:
        return env.batch_reset(jax.vmap(lambda number: jax.random.fold_in(jax.random.key(seed), number))(numbers))

    seen: dict[bytes, int] = {}  # the draw that first gave each level
    parts = []
    for first in range(0, _PATIENCE * count + _BATCH, _BATCH):
        with jax.default_device(jax.local_devices(backend="cpu")[0]):  # the same levels whichever accelerator there is
            parts.append(jax.device_get(draw(np.arange(first, first + _BATCH, dtype=np.uint32))))
        leaves = [leaf for leaf in jax.tree.leaves(parts[-1][1]) if not _is_key(leaf)]
        for row in range(_BATCH):
            seen.setdefault(hashlib.blake2b(b"".join(leaf[row].tobytes() for leaf in leaves)).digest(), first + row)
        if len(seen) >= count:
            starts = jax.tree.map(lambda *leaves: (jnp if _is_key(leaves[0]) else np).concatenate(leaves), *parts)
            return LevelSet(made_name(env), take(starts, np.array(list(seen.values())[:count])), seed)
    raise ValueError(
        f"{made_name(env)} has only {len(seen)} different starts, not {count}; use a count of {len(seen)}."
    )


def take(starts: Any, index: np.ndarray) -> Any:
    """The starts with these numbers, leaves `[…, …]` for `index[…]`."""
    return jax.tree.map(lambda leaf: leaf[index], starts)


def _is_key(leaf: Any) -> bool:
    return jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)
