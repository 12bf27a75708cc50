"""Saved levels: starts of an environment's episodes in one file, so that every policy is evaluated on the same."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import io
import json
import shlex
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.tree_util import keystr, tree_flatten_with_path

from jaxrl.display import on_host
from jaxrl.durable import replace_file
from jaxrl.environment import Environment, check_environment
from jaxrl.errors import printable, shell_path
from jaxrl.keys import abstract_key
from jaxrl.registry import parse_options, shown_name
from jaxrl.wrappers.base import nested

__all__ = ["LevelSet", "make_levels", "name_of", "read_about", "take"]

_FORMAT = 1
_BATCH = 256  # levels drawn at once
_PATIENCE = 20  # draws for each different start without a new one: another as likely would be missed once in e^20 times


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
        """Write the set as one .npz file: an array for each leaf under its path, and `about`, a text in JSON.

        Raises:
            OSError: It cannot be written; an older file is unchanged.
        """
        about = {"format": _FORMAT, "env": self.env, "levels": len(self), "seed": self.seed}
        entries = {"about": np.array(json.dumps({**about, "jaxrl": metadata.version("jaxrl")}))}
        entries |= {} if self.score is None else {"score": np.asarray(self.score, np.float32)}
        leaves, _ = tree_flatten_with_path(self.starts)
        entries |= {keystr(where): on_host(leaf) for where, leaf in leaves}
        buffer = io.BytesIO()
        np.savez_compressed(buffer, **entries)  # pyright: ignore[reportArgumentType]
        replace_file(Path(path), buffer.getvalue())

    @classmethod
    def load(cls, path: str | Path, env: Environment) -> LevelSet:
        """A saved set, for the environment that it was made in.

        Raises:
            FileNotFoundError: There is no such file.
            OSError: It cannot be read.
            ValueError: It is damaged or empty, or its levels are not starts of `env`; the message says what to do.
        """
        check_environment(env, "LevelSet.load")
        about, entries = _read(Path(path))
        score = entries.pop("score", None)
        _check_env(path, about["env"], env)
        leaves, structure = tree_flatten_with_path(jax.eval_shape(env.reset, abstract_key()))
        named = {keystr(where): leaf for where, leaf in leaves}
        if not about["levels"]:
            raise ValueError(f"{path} holds no level; make another set, with a --count of at least 1.")
        # Other names are another structure, such as that of a wrapper; other arrays are another version's.
        if other := sorted(named.keys() ^ entries.keys()):
            has = "lacks" if other[0] in named else "has"
            raise ValueError(
                f"The levels in {path} do not begin an episode here: the set {has} {printable(other[0])}. Parameters "
                f"or wrappers differ; make a set for this environment, with the --params of its run if it has any."
            )
        arrays = [
            _restored(entries[name], leaf, about["levels"], f"{path}: {printable(name)}")
            for name, leaf in named.items()
        ]
        if score is not None and (score.shape, score.dtype) != ((about["levels"],), np.float32):
            raise ValueError(f"{path} is damaged: score must be float32 [{about['levels']}]. Make the set again.")
        return cls(about["env"], jax.tree.unflatten(structure, arrays), about["seed"], score)


def read_about(path: str | Path) -> dict[str, Any]:
    """What a saved set says of itself: `env`, `levels` (L), `seed`, `jaxrl` (the version), and its `leaves` by name.

    Raises:
        OSError, ValueError: See `LevelSet.load`.
    """
    about, entries = _read(Path(path))
    return {**about, "leaves": {name: entry for name, entry in entries.items() if name != "score"}}


def make_levels(
    env: Environment, count: int, seed: int = 0, told: Callable[[int, int], None] = lambda done, total: None
) -> LevelSet:
    """Draw L different levels on the CPU, as `reset` makes them: the first ones of a larger set are those of a smaller.

    Two levels differ if their states do in anything but random keys.

    Args:
        env: The environment.
        count: L.
        seed: Determines the levels.
        told: Called with the number of levels so far, and L.

    Raises:
        ValueError: `count` is below 1, or the environment has fewer different starts; the message says how many.
    """
    check_environment(env, "make_levels")
    if count < 1:
        raise ValueError(f"count must be at least 1, got {count}.")

    @jax.jit
    def draw(numbers: jax.Array) -> Any:
        return env.batch_reset(jax.vmap(lambda number: jax.random.fold_in(jax.random.key(seed), number))(numbers))

    seen: set[bytes] = set()
    parts, drawn, last = [], 0, 0  # `last` draws had been made when the last new level was found
    batch = min(_BATCH, count)
    while len(seen) < count:
        if drawn - last > max(_BATCH, _PATIENCE * len(seen)):
            have = f"{len(seen)} different start{'s' * (len(seen) > 1)}"
            raise ValueError(
                f"{name_of(env)} has {have} in {drawn:,} draws, not {count:,}; use a count of {len(seen)}."
            )
        with _on_cpu():
            starts = draw(np.arange(drawn, drawn + batch, dtype=np.uint32))
        drawn += batch
        new = []
        for row, mark in enumerate(_marks(starts[1], batch)):
            if mark not in seen and len(seen) < count:
                seen.add(mark)
                new.append(row)
        if new:
            parts.append(take(jax.tree.map(_on_host, starts), np.array(new)))
            last = drawn
        told(len(seen), count)
    starts = jax.tree.map(lambda *leaves: (jnp if _is_key(leaves[0]) else np).concatenate(leaves), *parts)
    return LevelSet(name_of(env), starts, seed)


def take(starts: Any, index: np.ndarray) -> Any:
    """The starts with these numbers, leaves `[…, …]` for `index[…]`."""
    return jax.tree.map(lambda leaf: leaf[index], starts)


def _on_cpu() -> contextlib.AbstractContextManager[Any]:
    """A context that computes on the CPU, where it gives the same levels whichever accelerator there is."""
    try:
        return jax.default_device(jax.local_devices(backend="cpu")[0])
    except RuntimeError:  # JAX was told to know accelerators alone
        return contextlib.nullcontext()


def _marks(state: Any, count: int) -> list[bytes]:
    """A hash for each of `count` states, of all leaves but random keys."""
    leaves = [np.asarray(leaf) for leaf in jax.tree.leaves(state) if not _is_key(leaf)]
    return [hashlib.blake2b(b"".join(leaf[row].tobytes() for leaf in leaves)).digest() for row in range(count)]


def name_of(env: Environment) -> str:
    """The name by which the environment, or the one in its wrappers, was made."""
    return next((each.made_as for each in nested(env) if each.made_as), env.name)


def _is_key(leaf: Any) -> bool:
    return jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)


def _on_host(leaf: Any) -> Any:
    return leaf if _is_key(leaf) else np.asarray(leaf)


def _restored(array: np.ndarray, like: jax.ShapeDtypeStruct, levels: int, name: str) -> Any:
    """A leaf `[L, …]` from what `save` has written.

    Raises:
        ValueError: It is not `like` the leaf of one start.
    """
    key = _is_key(like)
    stored = jax.eval_shape(jax.random.key_data, like) if key else like
    shape = (levels, *stored.shape)
    if (array.shape, array.dtype) != (shape, stored.dtype):
        raise ValueError(
            f"{name} is {array.dtype} {list(array.shape)}, and here it must be {stored.dtype} {list(shape)}: "
            f"the set is damaged or comes from another version; make it again."
        )
    return jax.random.wrap_key_data(jnp.asarray(array)) if key else array


def _read(path: Path) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """What the set says of itself, and its arrays by name."""
    make = f"`jaxrl levels make ENV --out {shell_path(path)}`"
    try:
        with path.open("rb") as opened, np.load(opened, allow_pickle=False) as file:
            entries = {name: file[name] for name in file.files}
        about = json.loads(str(entries.pop("about")))
        kinds = {name: type(about[name]) for name in ("format", "env", "levels", "seed", "jaxrl")}
    except FileNotFoundError:
        raise FileNotFoundError(f"There is no level set {path}; {make} makes one.") from None
    except OSError as error:
        raise OSError(f"{path} cannot be read: {error.strerror or error}.") from error
    except Exception as error:  # a damaged archive may raise anything
        raise ValueError(f"{path} is damaged, or no level set; {make} makes it again.") from error
    if about["format"] != _FORMAT:
        raise ValueError(f"{path} was written by another version of jaxrl, {printable(str(about['jaxrl']))}; use that.")
    if kinds != {"format": int, "env": str, "levels": int, "seed": int, "jaxrl": str}:
        raise ValueError(f"{path} is damaged: its text does not describe a level set; {make} makes it again.")
    return about, entries


def _check_env(path: str | Path, made_in: str, env: Environment) -> None:
    """Raise ValueError unless a set made in the environment of that name is one for `env`."""
    if _identity(made_in) != _identity(here := name_of(env)):
        theirs, ours = (shlex.quote(printable(name)) for name in (made_in, here))
        raise ValueError(
            f"{path} holds levels of {theirs}, not of {ours}: play them there with --env {theirs}, or make others "
            f"with `jaxrl levels make {ours} --out FILE.npz`."
        )


def _identity(name: str) -> tuple[str, dict[str, Any] | str]:
    """An environment's name wherever it was loaded from, and its options in any order."""
    name, _, query = shown_name(name).partition("?")
    try:
        return name, parse_options(query)
    except ValueError:
        return name, query
