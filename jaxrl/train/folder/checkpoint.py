"""Checkpoints: the whole train state on disk, verified when it is read back.

Orbax writes the arrays and makes each checkpoint appear atomically. This module adds what Orbax lacks: a hash for every
leaf (Orbax reads flipped bytes back without an error), a strict comparison of dtypes (it casts silently), the newest
*good* checkpoint instead of the newest one, saves that cannot be skipped unnoticed, and reading that does not touch the
folder: Orbax's manager removes the temporary folders of a save that another process is in the middle of.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple

import jax
import numpy as np
import orbax.checkpoint as ocp

from jaxrl.algorithm import without_replay
from jaxrl.errors import CheckpointError
from jaxrl.train.devices import hosts
from jaxrl.train.folder.disk import why
from jaxrl.train.folder.echoes import silence_echoes
from jaxrl.train.folder.json_file import read_json, to_json

__all__ = ["CheckpointReader", "Checkpoints", "Restored"]


_OVERHEAD = 100_000
"""The approximate bytes that Orbax writes besides the arrays."""
_NUMBER = re.compile("0|[1-9][0-9]{0,18}")
"""The name of a checkpoint's folder."""


class Restored(NamedTuple):
    """A checkpoint that was read and verified."""

    update: int
    """Updates done at that time."""
    state: Any
    """The train state."""
    extra: dict[str, Any]
    """The data that the host stored beside it."""


class CheckpointReader:
    """Reads the checkpoints of one run: nothing in the folder is created, changed or removed.

    With several processes, all must call `restore`; only process 0 looks into the folder.

    Args:
        folder: Contains one folder per checkpoint, named by the number of updates.
        say: Called with a sentence for every checkpoint that is skipped.
    """

    def __init__(self, folder: str | Path, say: Callable[[str], None] = print) -> None:
        self.folder = Path(folder).absolute()
        self._say = say
        silence_echoes()

    @property
    def updates(self) -> list[int]:
        """The updates that have a folder, ascending; whether a checkpoint is good is known only after reading it."""
        if not self.folder.is_dir():
            return []
        return sorted(int(path.name) for path in self.folder.iterdir() if _NUMBER.fullmatch(path.name))

    def restore(self, target: Any) -> Restored:
        """The newest good checkpoint, in the form of `target`, without its replay buffer if that was not saved.

        Args:
            target: The saved state, as arrays or as shapes (`jax.eval_shape(algo.init, key)`).

        Raises:
            CheckpointError: There is no checkpoint, none is good, or it belongs to another configuration.
        """
        read = hosts.on_main(lambda: self._newest(target), CheckpointError)
        whole = read is None or jax.tree.structure(read.state) == jax.tree.structure(target)
        update, extra, whole = hosts.main_says((read.update, read.extra, whole) if read else (0, {}, True))
        target = target if whole else without_replay(target)
        return Restored(update, hosts.broadcast(read.state if read else None, target), extra)

    def _newest(self, target: Any) -> Restored:
        """The newest good checkpoint, with its state as NumPy arrays."""
        tried: set[int] = set()
        damaged = 0
        while left := [update for update in self.updates if update not in tried]:  # a running training saves more
            update = left[-1]
            tried.add(update)
            try:
                return self._read(update, target)
            except CheckpointError:
                raise
            except Exception as error:  # Orbax raises a dozen types for damaged files
                if not (self.folder / str(update)).exists():
                    continue  # the running training has removed it
                damaged += 1
                first_line = (str(error).strip() or repr(error)).splitlines()[0]
                self._say(
                    f"The checkpoint {self.folder / str(update)} is damaged, so an older one is used: {first_line}"
                )
        if damaged:
            raise CheckpointError(f"None of the {damaged} checkpoints in {self.folder} is intact.")
        raise CheckpointError(f"There is no checkpoint in {self.folder}.")

    def _read(self, update: int, target: Any) -> Restored:
        step = self.folder / str(update)
        manifest = read_json(step / "manifest" / "metadata")
        if manifest.get("sha256", _digest(manifest)) != _digest(manifest):
            raise ValueError("the content of its manifest is not what was saved")
        if manifest["leaves"].keys() == _describe(without_replay(target)).keys():
            target = without_replay(target)
        _compare(manifest["leaves"], _describe(target), step)
        shapes = jax.tree.map(hosts.plain, target)
        places = jax.tree.map(lambda x: np.zeros(x.shape, x.dtype) if x.size else np.zeros(1, np.float32), shapes)
        place: Any = step / "state"  # Orbax's annotation asks for another kind of path, but this one works
        handler = ocp.StandardCheckpointHandler(multiprocessing_options=_alone())
        try:
            arrays = handler.restore(place, args=ocp.args.StandardRestore(places))
        except ValueError as error:
            if "tree structures do not match" not in str(error):
                raise
            raise CheckpointError(
                f"The checkpoint {step} has the same arrays in another tree, so another version of the code wrote it; "
                f"run.json names that version and its git commit."
            ) from error
        finally:
            handler.close()
        arrays = jax.tree.map(lambda x, shape: x if shape.size else np.zeros(shape.shape, shape.dtype), arrays, shapes)
        for name, leaf in _manifest(target, arrays).items():
            if leaf["sha256"] != manifest["leaves"][name]["sha256"]:
                raise ValueError(f"the content of {name} is not what was saved")
        return Restored(update, arrays, manifest["extra"])


class Checkpoints(CheckpointReader):
    """Writes and reads the checkpoints of the run that this process trains.

    Saving is synchronous: when `save` returns, the checkpoint is complete on disk. Use it as a context manager. With
    several processes, all must call `save` and `restore`; only process 0 touches the folder.

    Args:
        folder: Created when the first checkpoint is saved. No other process may save there.
        keep: How many of the newest checkpoints to keep.
        say: Called with a sentence for every checkpoint that is skipped.
    """

    def __init__(self, folder: str | Path, keep: int = 3, say: Callable[[str], None] = print) -> None:
        if keep < 1:
            raise ValueError(f"keep must be at least 1, got {keep}.")
        super().__init__(folder, say)
        self._keep = keep
        self._checkpointer: Any = None

    def __enter__(self) -> Checkpoints:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Release Orbax's threads."""
        if self._checkpointer is not None:
            self._checkpointer.close()
            self._checkpointer = None

    def save(self, update: int, state: Any, extra: dict[str, Any] | None = None) -> Path:
        """Write `state` and the JSON-able `extra`, replacing checkpoints of this and later updates; return the folder.

        Numbers in `extra` that are not finite become None.

        Raises:
            CheckpointError: Nothing was written (full disk, no permission …); older checkpoints are untouched.
        """
        arrays = jax.tree.map(hosts.fetch, state)  # NumPy arrays: the same on any number of devices and hosts
        facts = {"update": update, "leaves": _manifest(state, arrays), "extra": extra or {}}
        manifest = json.loads(to_json(facts))  # as it will be read
        content = ocp.args.Composite(
            # Orbax refuses empty arrays, so a single number stands in for them.
            state=ocp.args.StandardSave(jax.tree.map(lambda x: x if x.size else np.zeros(1, np.float32), arrays)),
            manifest=ocp.args.JsonSave({**manifest, "sha256": _digest(manifest)}),
        )
        needed = _OVERHEAD + sum(array.nbytes for array in jax.tree.leaves(arrays))
        hosts.on_main(lambda: self._write(update, content, needed), CheckpointError)
        return self.folder / str(update)

    def _write(self, update: int, content: ocp.args.Composite, needed: int) -> None:
        folder = self.folder / str(update)
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            self._sweep()
            for later in [there for there in self.updates if there >= update]:
                shutil.rmtree(self.folder / str(later))
            self._orbax().save(folder, args=content)
        except Exception as error:
            self._sweep()
            reason = why(error, self.folder, needed)
            raise CheckpointError(f"The checkpoint {folder} could not be written: {reason}.") from error
        for old in self.updates[: -self._keep]:
            shutil.rmtree(self.folder / str(old), ignore_errors=True)

    def _orbax(self) -> Any:
        """The checkpointer, which writes atomically; Orbax's manager would also read, and fail on, other folders."""
        if self._checkpointer is None:
            handler = ocp.CompositeCheckpointHandler(composite_options=ocp.CompositeOptions(_alone()))
            self._checkpointer = ocp.Checkpointer(handler, multiprocessing_options=_alone())
        return self._checkpointer

    def _sweep(self) -> None:
        """Remove the remains of a killed or failed save: they are of no use and take up space."""
        for path in self.folder.glob("*.orbax-checkpoint-tmp*"):
            shutil.rmtree(path, ignore_errors=True)


def _alone() -> Any:
    """Options that keep Orbax in process 0 from waiting for the others."""
    return ocp.options.MultiprocessingOptions(0, {0}, barrier_sync_key_prefix="main")


def _digest(manifest: dict[str, Any]) -> str:
    """The hash of a manifest's content, excluding the stored hash."""
    content = {name: value for name, value in manifest.items() if name != "sha256"}
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def _describe(tree: Any) -> dict[str, dict[str, Any]]:
    """Map leaf names to dtype and shape; the values are not read."""
    leaves = jax.tree_util.tree_leaves_with_path(tree)
    return {jax.tree_util.keystr(p): {"dtype": str(x.dtype), "shape": list(x.shape)} for p, x in leaves}


def _manifest(state: Any, arrays: Any) -> dict[str, dict[str, Any]]:
    """Map leaf names to dtype, shape and the hash of the bytes in `arrays`."""
    manifest = _describe(state)
    for entry, array in zip(manifest.values(), jax.tree.leaves(arrays), strict=True):
        entry["sha256"] = hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest()
    return manifest


def _compare(saved: dict[str, dict[str, Any]], wanted: dict[str, dict[str, Any]], folder: Path) -> None:
    """Raise CheckpointError if the checkpoint has other leaves, dtypes or shapes than wanted."""
    for name in [*wanted, *saved]:
        there, here = (_words(leaves.get(name)) for leaves in (saved, wanted))
        if there != here and there.startswith("key<") and here.startswith("key<"):
            raise CheckpointError(
                f"The checkpoint {folder} was made with another kind of random keys: {name} is {there} in it and "
                f"{here} here. Set JAX_DEFAULT_PRNG_IMPL to what the run's run.json has under jax_settings."
            )
        if there != here:
            raise CheckpointError(
                f"The checkpoint {folder} belongs to another configuration: {name or 'the state'} is {there} in it and "
                f"{here} here. Use the configuration in the run's run.json."
            )


def _words(leaf: dict[str, Any] | None) -> str:
    return "absent" if leaf is None else f"{leaf['dtype']}{leaf['shape']}"
