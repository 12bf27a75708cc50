"""Random keys: a check of those that users give, and a stand-in for tracing without one."""

from __future__ import annotations

from numbers import Integral
from typing import Any

import jax
import jax.numpy as jnp

__all__ = ["abstract_key", "check_key"]


def abstract_key() -> jax.ShapeDtypeStruct:
    """The shape and dtype of a random key, for `jax.eval_shape` and the like."""
    return jax.eval_shape(lambda: jax.random.key(0))


def check_key(key: Any, taker: str) -> None:
    """Raise unless `key` holds typed keys, of any shape.

    Args:
        key: The given value.
        taker: The function that takes it, as the subject of the message.

    Raises:
        TypeError: It is an old-style key, a seed, or not a key at all.
    """
    dtype = getattr(key, "dtype", None)
    if dtype is not None and jnp.issubdtype(dtype, jax.dtypes.prng_key):
        return
    if key is None:
        raise TypeError(f"{taker} takes a key; give jax.random.key(0), or any other seed.")
    if isinstance(key, Integral):
        raise TypeError(f"{taker} takes a key, not the seed {key}; give jax.random.key({key}).")
    if dtype is None:
        given = f"a {type(key).__name__}"
    else:
        given = "the old kind of jax.random.PRNGKey" if dtype == jnp.uint32 else f"an array of {dtype}"
    raise TypeError(f"{taker} takes keys made by jax.random.key(seed), not {given}.")
