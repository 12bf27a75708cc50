"""What is tormented: a training, a sweep or a search; when it is done, and what it must be then."""

from __future__ import annotations

import fnmatch
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxrl.train.folder.load import load

__all__ = ["KINDS", "Keepsakes", "Kind", "differences", "find", "run_folders", "status"]

_TIMES = ("seconds", "steps_per_second")
_VOLATILE = ("command", "git", "versions", "devices", "xla_flags", "jax_settings", "status")


class Kind(NamedTuple):
    """A command."""

    name: str
    words: tuple[str, ...]
    """Without --run-dir."""
    file: str
    """Its `status` says when all is done."""


def _kind(name: str, file: str, words: str) -> Kind:
    common = "--env CartPole-v1 --num-envs 4 --hidden 8 --log-every 50 --eval-episodes 8 --quiet"
    return Kind(name, (name, "ppo", *common.split(), *words.split()), file)


KINDS = (
    _kind(
        "train",
        "run.json",
        "--num-steps 16 --total-timesteps 384000 --eval-every 1500 --checkpoint-every-updates 250 --no-pictures",
    ),
    _kind(
        "sweep",
        "sweep.json",
        "--num-steps 8 16 --lr 1e-3 3e-3 --num-seeds 2 --total-timesteps 96000 --checkpoint-every-updates 250",
    ),
    _kind(
        "search",
        "checklist.json",
        "--num-steps 16 --lr 1e-4:1e-2:log --method halving --budget 4 --tuning-seeds 2 --test-seeds 2 "
        "--total-timesteps 64000 --checkpoint-every-updates 125",
    ),
)
"""Small, but long enough for several faults each."""


def status(path: Path) -> str | None:
    """What a JSON file says under `status`; None if it is not there."""
    try:
        return json.loads(path.read_text()).get("status")
    except FileNotFoundError:
        return None


def find(folder: Path, pattern: str) -> list[Path]:
    """Files and folders of such a name, except inside of checkpoints; others may come and go meanwhile."""
    found = []
    for place, folders, files in os.walk(folder):
        found += [Path(place) / name for name in [*folders, *files] if fnmatch.fnmatch(name, pattern)]
        folders[:] = [] if place.endswith(("checkpoints", "best")) else folders
    return sorted(found)


def run_folders(folder: Path) -> list[Path]:
    """The runs in a folder, without what was set aside."""
    return [path.parent for path in find(folder, "run.json") if "interrupted-" not in str(path)]


class Keepsakes:
    """Remembers rows that nothing may take away: those of a run that begins anew, and those that were set aside.

    Args:
        folder: Of the subject.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._rows: dict[bytes, str] = {}

    def look(self) -> None:
        """Remember what is there; nobody is writing now."""
        for path in find(self._folder, "metrics.jsonl"):
            saved = any(p.name.isdigit() for p in (path.parent / "checkpoints").glob("*"))
            rows = path.read_bytes()
            if rows and (not saved or "interrupted-" in str(path)):
                self._rows[rows] = str(path)

    def lost(self) -> list[str]:
        """Where rows were that are nowhere now."""
        there = [path.read_bytes() for path in find(self._folder, "metrics.jsonl")]
        return [f"rows set aside are gone: {path}" for rows, path in self._rows.items() if rows not in there]


def differences(folder: Path, reference: Path, file: str) -> list[str]:
    """What is other than in a subject that nobody has disturbed."""
    mine, others = ({path.relative_to(root): path for path in run_folders(root)} for root in (folder, reference))
    found = [f"run {name} is in one only" for name in sorted(set(mine) ^ set(others))]
    for name in sorted(set(mine) & set(others)):
        found += [f"run {name}: {text}" for text in _other(mine[name], others[name])]
    about, wanted = (json.loads((root / file).read_text()) for root in (folder, reference))
    names = [] if file == "run.json" else [name for name in wanted if name not in _VOLATILE]
    return found + [f"{file}: another {name}" for name in names if about.get(name) != wanted[name]]


def _other(run: Path, reference: Path) -> Iterator[str]:
    """What is other in a run than in another one."""
    about, wanted = (json.loads((path / "run.json").read_text()) for path in (run, reference))
    for name in ("status", "evaluation", "diverged"):
        if about.get(name) != wanted.get(name):
            yield f"{name} is {about.get(name)} instead of {wanted.get(name)}"
    for name in ("metrics.jsonl", "evaluations.jsonl"):
        rows, others = (_timeless(path / name) for path in (run, reference))
        if rows != others:
            first = next((i for i, (a, b) in enumerate(zip(rows, others, strict=False)) if a != b), "the end")
            yield f"{name} differs from row {first} on ({len(rows)} rows instead of {len(others)})"
    try:
        same = _same(load(run).state, load(reference).state)
    except Exception as error:  # whatever is wrong with it
        yield f"the last checkpoint is not good: {error!r}"
    else:
        if not same:
            yield "the last state is another one"


def _timeless(path: Path) -> list[dict[str, Any]]:
    rows = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    return [{name: value for name, value in row.items() if name not in _TIMES} for row in rows]


def _same(one: Any, other: Any) -> bool:
    """Bit for bit."""
    leaves = [jax.tree.leaves(jax.tree.map(_plain, tree)) for tree in (one, other)]
    return all(a.tobytes() == b.tobytes() for a, b in zip(*leaves, strict=True))


def _plain(leaf: Any) -> np.ndarray:
    return np.asarray(jax.random.key_data(leaf) if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key) else leaf)
