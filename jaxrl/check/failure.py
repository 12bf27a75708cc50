"""The message of a failed check, and the comparison of two trees."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np

__all__ = ["ContractError", "Failure", "at_index", "check_name", "differences", "first_line", "listed", "to_numpy"]


class Failure(NamedTuple):
    """One broken promise."""

    problem: str
    """What is wrong, in one sentence."""
    advice: str
    """What to change, in one sentence."""
    check: str = ""
    """The name of the check that found it."""


class ContractError(ValueError):
    """An environment breaks the contract; `failures` lists every broken promise that was found."""

    def __init__(self, name: str, failures: list[Failure]) -> None:
        self.failures = failures
        lines = [f"- {f.check}: {f.problem} {f.advice}" for f in failures]
        count = f"{len(failures)} promise{'s' if len(failures) > 1 else ''}"
        super().__init__("\n".join([f"The environment {name!r} breaks {count} of the environment contract:", *lines]))


def check_name(check: Callable[..., Any]) -> str:
    """The name of a check in reports."""
    return getattr(check, "__name__", "check").removeprefix("check_")


def at_index(tree: Any, index: int) -> Any:
    """The tree's leaves at one index of their leading axis, on the host if they are there."""
    if any(isinstance(leaf, jax.Array) for leaf in jax.tree.leaves(tree)):
        return _on_device(tree, np.int32(index))  # as one program, not one a shape
    return _leaves_at(tree, index)


def _leaves_at(tree: Any, index: Any) -> Any:
    return jax.tree.map(lambda leaf: leaf[index], tree)


_on_device = jax.jit(_leaves_at)


def to_numpy(tree: Any) -> Any:
    """The tree on the host; typed keys become their bits."""

    def convert(leaf: Any) -> np.ndarray:
        if isinstance(leaf, jax.Array) and jax.numpy.issubdtype(leaf.dtype, jax.dtypes.prng_key):
            leaf = jax.random.key_data(leaf)
        return np.asarray(leaf)

    return jax.tree.map(convert, tree)


def differences(a: Any, b: Any, *, exact: bool = False) -> list[str]:
    """The names of the leaves that differ between two trees (of NumPy arrays); NaN equals NaN.

    Unless `exact`, floats may differ by rounding, since XLA orders sums differently from program to program.
    """
    leaves_a, tree_a = jax.tree_util.tree_flatten_with_path(a)
    leaves_b, tree_b = jax.tree_util.tree_flatten_with_path(b)
    if tree_a != tree_b:
        return [f"the tree itself ({tree_a} and {tree_b})"]
    return [
        jax.tree_util.keystr(path) or "the value"
        for (path, x), (_, y) in zip(leaves_a, leaves_b, strict=True)
        if not _same(np.asarray(x), np.asarray(y), exact)
    ]


def _same(x: np.ndarray, y: np.ndarray, exact: bool) -> bool:
    if x.shape != y.shape:
        return False
    if not np.issubdtype(x.dtype, np.inexact):
        return np.array_equal(x, y)
    if exact:
        return np.array_equal(x, y, equal_nan=True)
    return np.allclose(x, y, rtol=1e-4, atol=1e-5, equal_nan=True)


def listed(names: list[str]) -> str:
    """The first three names, and the number of further ones."""
    shown = ", ".join(names[:3])
    return f"{shown} and {len(names) - 3} more" if len(names) > 3 else shown


def first_line(error: Exception) -> str:
    """The first line of an error's message without its full stop, or the error's type if it has no message."""
    lines = str(error).strip().splitlines()
    return lines[0].rstrip(".") if lines else type(error).__name__
