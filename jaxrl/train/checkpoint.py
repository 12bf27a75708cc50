"""Checkpoints: the whole train state on disk, verified when it is read back.

Orbax writes the arrays and makes each checkpoint appear at once or not at all. What it does not do is done here: a hash
for every leaf (Orbax reads flipped bytes back without an error), a strict comparison of dtypes (it casts silently), the
newest *good* checkpoint instead of the newest one, and saves that cannot be skipped unnoticed.
"""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple

import jax
import numpy as np
import orbax.checkpoint as ocp

from jaxrl.train import hosts
from jaxrl.train.disk import why

__all__ = ["CheckpointError", "Checkpoints", "Restored"]


_OVERHEAD = 100_000
"""Bytes that Orbax writes besides the arrays, about."""


class CheckpointError(RuntimeError):
    """No checkpoint could be written, or none that is good and fits could be read."""


class Restored(NamedTuple):
    """A checkpoint that was read and verified."""

    update: int
    """Updates that had been done."""
    state: Any
    """The train state."""
    extra: dict[str, Any]
    """What the host stored beside it."""


class Checkpoints:
    """The checkpoints of one run, one folder for each under `folder`, named by the number of updates.

    Saving is synchronous: when `save` returns, the checkpoint is complete on disk. Use it as a context manager. With
    several processes, all must call `save` and `restore`; only process 0 touches the folder.

    Args:
        folder: Made when the first checkpoint is saved.
        keep: How many of the newest to keep.
        say: Told, in a sentence, about every checkpoint that is passed over.
    """

    def __init__(self, folder: str | Path, keep: int = 3, say: Callable[[str], None] = print) -> None:
        if keep < 1:
            raise ValueError(f"keep must be at least 1, got {keep}.")
        self.folder = Path(folder).absolute()
        self._keep = keep
        self._say = say
        self._manager: Any = None

    def __enter__(self) -> Checkpoints:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the folder."""
        if self._manager is not None:
            self._manager.close()
            self._manager = None

    @property
    def updates(self) -> list[int]:
        """The updates there is a folder for, ascending; whether one is good shows when it is read."""
        if not self.folder.is_dir():
            return []
        return sorted(int(path.name) for path in self.folder.iterdir() if path.name.isdigit())

    def save(self, update: int, state: Any, extra: dict[str, Any] | None = None) -> Path:
        """Write `state` and the JSON-able `extra`; those of this and of later updates give way. Returns the folder.

        Raises:
            CheckpointError: Nothing was written (full disk, no permission …); older checkpoints are untouched.
        """
        arrays = jax.tree.map(hosts.fetch, state)  # NumPy's own: the same on any number of devices and hosts
        content = ocp.args.Composite(
            # Orbax refuses arrays without elements, so a number stands for them.
            state=ocp.args.StandardSave(jax.tree.map(lambda x: x if x.size else np.zeros(1, np.float32), arrays)),
            manifest=ocp.args.JsonSave({"update": update, "leaves": _manifest(state, arrays), "extra": extra or {}}),
        )
        needed = _OVERHEAD + sum(array.nbytes for array in jax.tree.leaves(arrays))
        hosts.on_main(lambda: self._write(update, content, needed), CheckpointError)
        return self.folder / str(update)

    def _write(self, update: int, content: ocp.args.Composite, needed: int) -> None:
        folder = self.folder / str(update)
        try:
            self._give_way(update)
            saved = self._orbax().save(update, args=content)
        except Exception as error:
            self._sweep()
            reason = why(error, self.folder, needed)
            raise CheckpointError(f"The checkpoint {folder} could not be written: {reason}.") from error
        if not saved:
            raise CheckpointError(f"The checkpoint {folder} was not written; is another process using the folder?")

    def restore(self, target: Any) -> Restored:
        """The newest good checkpoint, in the form of `target`.

        Args:
            target: What was saved, as arrays or as shapes (`jax.eval_shape(algo.init, key)`).

        Raises:
            CheckpointError: There is none, none is good, or it belongs to another configuration.
        """
        read = hosts.on_main(lambda: self._newest(target), CheckpointError)
        update, extra = hosts.main_says((read.update, read.extra) if read else (0, {}))
        return Restored(update, hosts.broadcast(read.state if read else None, target), extra)

    def _newest(self, target: Any) -> Restored:
        """The newest good checkpoint, its state as NumPy arrays."""
        updates = self.updates
        if not updates:
            raise CheckpointError(f"There is no checkpoint in {self.folder}.")
        for update in reversed(updates):
            try:
                return self._read(update, target)
            except CheckpointError:
                raise
            except Exception as error:  # Orbax raises a dozen types for what lies damaged on a disk
                first_line = (str(error).strip() or repr(error)).splitlines()[0]
                self._say(
                    f"The checkpoint {self.folder / str(update)} is damaged, so an older one is used: {first_line}"
                )
        raise CheckpointError(f"None of the {len(updates)} checkpoints in {self.folder} is intact.")

    def _read(self, update: int, target: Any) -> Restored:
        manager = self._orbax()
        manifest = manager.restore(update, args=ocp.args.Composite(manifest=ocp.args.JsonRestore()))["manifest"]
        _compare(manifest["leaves"], _describe(target), self.folder / str(update))
        shapes = jax.tree.map(hosts.plain, target)
        places = jax.tree.map(lambda x: np.zeros(x.shape, x.dtype) if x.size else np.zeros(1, np.float32), shapes)
        content = ocp.args.Composite(state=ocp.args.StandardRestore(places))
        arrays = manager.restore(update, args=content)["state"]
        arrays = jax.tree.map(lambda x, shape: x if shape.size else np.zeros(shape.shape, shape.dtype), arrays, shapes)
        for name, leaf in _manifest(target, arrays).items():
            if leaf["sha256"] != manifest["leaves"][name]["sha256"]:
                raise ValueError(f"the content of {name} is not what was saved")
        return Restored(update, arrays, manifest["extra"])

    def _orbax(self) -> Any:
        if self._manager is None:
            options = ocp.CheckpointManagerOptions(
                max_to_keep=self._keep,
                enable_async_checkpointing=False,
                cleanup_tmp_directories=True,
                create=False,
                multiprocessing_options=ocp.options.MultiprocessingOptions(0, {0}, barrier_sync_key_prefix="main"),
            )
            self.folder.mkdir(parents=True, exist_ok=True)
            self._manager = ocp.CheckpointManager(self.folder, options=options)
        return self._manager

    def _give_way(self, update: int) -> None:
        """Remove `update` and what is newer: Orbax would refuse without a word to write below its newest step."""
        newer = [u for u in self.updates if u >= update]
        for u in newer:
            shutil.rmtree(self.folder / str(u))
        if newer:
            self.close()

    def _sweep(self) -> None:
        """Remove what a failed save left behind: it is of no use and takes up space."""
        self.close()
        for path in self.folder.glob("*.orbax-checkpoint-tmp*"):
            shutil.rmtree(path, ignore_errors=True)


def _describe(tree: Any) -> dict[str, dict[str, Any]]:
    """Leaf name to dtype and shape; the values are not looked at."""
    leaves = jax.tree_util.tree_leaves_with_path(tree)
    return {jax.tree_util.keystr(p): {"dtype": str(x.dtype), "shape": list(x.shape)} for p, x in leaves}


def _manifest(state: Any, arrays: Any) -> dict[str, dict[str, Any]]:
    """Leaf name to dtype, shape and hash of the bytes, which are those of `arrays`."""
    manifest = _describe(state)
    for entry, array in zip(manifest.values(), jax.tree.leaves(arrays), strict=True):
        entry["sha256"] = hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest()
    return manifest


def _compare(saved: dict[str, dict[str, Any]], wanted: dict[str, dict[str, Any]], folder: Path) -> None:
    """Raise where the checkpoint has other leaves, dtypes or shapes than wanted."""
    for name in [*wanted, *saved]:
        there, here = (_words(leaves.get(name)) for leaves in (saved, wanted))
        if there != here:
            raise CheckpointError(
                f"The checkpoint {folder} belongs to another configuration: {name or 'the state'} is {there} in it and "
                f"{here} here. Use the configuration in the run's run.json."
            )


def _words(leaf: dict[str, Any] | None) -> str:
    return "absent" if leaf is None else f"{leaf['dtype']}{leaf['shape']}"
