"""Trees of arrays, such as the parameters of an environment."""

from __future__ import annotations

from typing import TypeVar

import jax
import numpy as np

__all__ = ["as_arrays"]

Tree = TypeVar("Tree")


def as_arrays(tree: Tree) -> Tree:
    """The tree with its Python numbers as 32-bit NumPy scalars, so that it can be vmapped and never recompiles."""
    kinds = {bool: np.bool_, int: np.int32, float: np.float32}
    return jax.tree.map(lambda leaf: kinds[type(leaf)](leaf) if type(leaf) in kinds else leaf, tree)
