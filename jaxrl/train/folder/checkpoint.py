"""Checkpoints: the whole train state on disk, verified when it is read back.

Orbax writes the arrays and makes each checkpoint appear atomically. This module adds what Orbax lacks: a hash for every
leaf (Orbax reads flipped bytes back without an error), a strict comparison of dtypes (it casts silently), the newest
*good* checkpoint instead of the newest one, saves that cannot be skipped unnoticed, and reading that does not touch the
folder: Orbax's manager removes the temporary folders of a save that another process is in the middle of.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import logging
import re
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
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
from jaxrl.train.folder.json_file import read_json, to_json
from jaxrl.train.folder.json_lines import RowCheck

__all__ = [
    "CheckpointReader",
    "Checkpoints",
    "Restored",
    "make_manifest",
    "read_manifest",
]

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
        _silence_orbax()

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
                self._say(
                    f"The checkpoint {self.folder / str(update)} is damaged, so an older one is used: {_said(error)}"
                )
        if damaged:
            raise CheckpointError(f"None of the {damaged} checkpoints in {self.folder} is intact.")
        raise CheckpointError(f"There is no checkpoint in {self.folder}.")

    def _read(self, update: int, target: Any) -> Restored:
        # What was saved has to be what is wanted, apart from the replay buffer.
        step = self.folder / str(update)
        manifest = read_manifest(step)
        if manifest["leaves"].keys() == describe(without_replay(target)).keys():
            target = without_replay(target)
        compare(manifest["leaves"], describe(target), step)
        # The arrays; a number stands for those that are empty, see `_write`.
        shapes = jax.tree.map(hosts.plain, target)
        places = jax.tree.map(lambda x: np.zeros(x.shape, x.dtype) if x.size else np.zeros(1, np.float32), shapes)
        handler = ocp.StandardCheckpointHandler(multiprocessing_options=_alone())
        try:
            with _for_orbax(step) as place:
                arrays = handler.restore(place / "state", args=ocp.args.StandardRestore(places))
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
        # Orbax reads flipped bytes without an error, so the hashes decide.
        for name, leaf in hashed(target, arrays).items():
            if leaf["sha256"] != manifest["leaves"][name]["sha256"]:
                raise ValueError(f"the content of {name} is not what was saved")
        return Restored(update, arrays, manifest["extra"])


class Checkpoints(CheckpointReader):
    """Writes and reads the checkpoints of the run that this process trains.

    Saving is synchronous: when `save` returns, the checkpoint is complete on disk, and the first one has been read
    back. Use it as a context manager. With several processes, all must call `save` and `restore`; only process 0
    touches the folder.

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
        self._readable = False  # whether a checkpoint of this process has been read back

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
        manifest, shapes = make_manifest(update, state, arrays, extra), jax.eval_shape(lambda: state)
        hosts.on_main(lambda: self._write(update, arrays, manifest, shapes), CheckpointError)
        return self.folder / str(update)

    def _write(self, update: int, arrays: Any, manifest: dict[str, Any], shapes: Any) -> None:
        folder = self.folder / str(update)
        content = ocp.args.Composite(
            # Orbax refuses empty arrays, so a single number stands in for them.
            state=ocp.args.StandardSave(jax.tree.map(lambda x: x if x.size else np.zeros(1, np.float32), arrays)),
            manifest=ocp.args.JsonSave(manifest),
        )
        # Replace what is at this update or later, and leave nothing behind if that fails.
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            self._sweep()
            for later in [there for there in self.updates if there >= update]:
                shutil.rmtree(self.folder / str(later))
            with _for_orbax(self.folder) as place:
                self._orbax().save(place / str(update), args=content)
        except Exception as error:
            self._sweep()
            reason = why(error, self.folder, _OVERHEAD + sum(array.nbytes for array in jax.tree.leaves(arrays)))
            raise CheckpointError(f"The checkpoint {folder} could not be written: {reason}.") from error
        try:
            if not self._readable:  # whatever spoils one spoils all, and would only be seen when they are needed
                self._read(update, shapes)
        except Exception as error:
            shutil.rmtree(folder, ignore_errors=True)
            raise CheckpointError(f"The checkpoint {folder} was written but cannot be read: {_said(error)}") from error
        self._readable = True
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


@contextlib.contextmanager
def _for_orbax(folder: Path) -> Iterator[Any]:
    """A path of a folder that Orbax, which finds the parts of a checkpoint by a pattern, does not take for one."""
    if not set(str(folder)) & set("*?[]\\"):
        yield folder
        return
    with tempfile.TemporaryDirectory(prefix="jaxrl-") as place:
        alias = Path(place) / "checkpoints"
        alias.symlink_to(folder, target_is_directory=True)
        yield alias


def _said(error: Exception) -> str:
    """The first line of an error: Orbax adds many."""
    return (str(error).strip() or repr(error)).splitlines()[0]


def _alone() -> Any:
    """Options that keep Orbax in process 0 from waiting for the others."""
    return ocp.options.MultiprocessingOptions(0, {0}, barrier_sync_key_prefix="main")


def make_manifest(update: int, state: Any, arrays: Any, extra: dict[str, Any] | None) -> dict[str, Any]:
    """The content for `read_manifest`; numbers in the JSON-able `extra` that are not finite become None."""
    content = json.loads(to_json({"update": update, "leaves": hashed(state, arrays), "extra": extra or {}}))
    return {**content, "sha256": _digest(content)}


def read_manifest(folder: Path) -> dict[str, Any]:
    """The manifest of a checkpoint: `update`, `leaves` (dtype, shape and hash by name) and `extra`.

    Raises:
        OSError: It cannot be read.
        ValueError: It is damaged, or not one that `Checkpoints` writes.
    """
    manifest = read_json(folder / "manifest" / "metadata")
    if manifest.get("sha256", _digest(manifest)) != _digest(manifest):
        raise ValueError("the content of its manifest is not what was saved")
    extra = manifest.get("extra")
    if not isinstance(manifest.get("leaves"), dict) or not isinstance(extra, dict):
        raise ValueError("its manifest does not say what is in it")
    if "evaluation" in extra:
        RowCheck("return_mean")(extra["evaluation"])
    return manifest


def _digest(manifest: dict[str, Any]) -> str:
    """The hash of a manifest's content, excluding the stored hash."""
    content = {name: value for name, value in manifest.items() if name != "sha256"}
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def describe(tree: Any) -> dict[str, dict[str, Any]]:
    """Map leaf names to dtype and shape; the values are not read."""
    leaves = jax.tree_util.tree_leaves_with_path(tree)
    return {jax.tree_util.keystr(p): {"dtype": str(x.dtype), "shape": list(x.shape)} for p, x in leaves}


def hashed(state: Any, arrays: Any) -> dict[str, dict[str, Any]]:
    """Map leaf names to dtype, shape and the hash of the bytes in `arrays`."""
    manifest = describe(state)
    for entry, array in zip(manifest.values(), jax.tree.leaves(arrays), strict=True):
        entry["sha256"] = hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest()
    return manifest


def compare(saved: dict[str, dict[str, Any]], wanted: dict[str, dict[str, Any]], folder: Path) -> None:
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


@functools.cache
def _silence_orbax() -> None:
    """From now on, let Orbax's threads not print the errors that it raises too.

    If one array of several cannot be written or read, every thread logs the error that the caller gets anyway, and
    TensorStore finds the event loop closed under each of the other arrays, also a moment after the caller got it.
    """
    logging.getLogger("absl").addFilter(lambda record: "_SignalingThread.run() raised" not in record.getMessage())
    before = sys.unraisablehook

    def hook(unraisable: Any) -> None:
        orphan = unraisable.object is None and unraisable.exc_type is RuntimeError
        if not (orphan and str(unraisable.exc_value) == "Event loop is closed"):
            before(unraisable)

    sys.unraisablehook = hook
