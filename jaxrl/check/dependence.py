"""What results depend on, found from a trace without running anything."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from jax.interpreters import partial_eval

from jaxrl.check.static import Shapes
from jaxrl.keys import abstract_key

__all__ = ["params_used", "used_leaves"]


def used_leaves(function: Callable[..., Any], *args: Any) -> np.ndarray:
    """Whether anything that `function(*args)` returns depends on each leaf of the last argument, bool `[leaves]`.

    `args` are pytrees of arrays or of their shapes. A leaf counts as used if it takes part in a computation whose
    result is returned, even if its value turns out not to matter.
    """
    jaxpr = jax.make_jaxpr(function)(*args).jaxpr
    _, used = partial_eval.dce_jaxpr(jaxpr, [True] * len(jaxpr.outvars))
    count = len(jax.tree.leaves(args[-1]))
    return np.array(used[len(used) - count :], bool)


def params_used(shapes: Shapes, method: str) -> np.ndarray:
    """Which parameters affect the results of a method of the environment, bool `[leaves]`.

    `method` is a reset method, such as `"batch_reset"`, or a step method, such as `"step_env"`.
    """
    key = abstract_key()
    inputs = (key,) if "reset" in method else (key, shapes.state, shapes.action)
    if method.startswith("batch_"):
        inputs = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct((2, *leaf.shape), leaf.dtype), inputs)
    return used_leaves(getattr(shapes.env, method), *inputs, shapes.params)
