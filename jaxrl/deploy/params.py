"""Parameters in a file of their own: nested dicts of arrays in the safetensors format, which any framework reads."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxrl.durable import replace_file
from jaxrl.errors import MissingExtraError

__all__ = ["flattened", "load_params", "nested", "save_params"]

_DTYPES: dict[str, np.dtype] = {
    **{f"I{bits}": np.dtype(f"int{bits}") for bits in (8, 16, 32, 64)},
    **{f"U{bits}": np.dtype(f"uint{bits}") for bits in (8, 16, 32, 64)},
    **{f"F{bits}": np.dtype(f"float{bits}") for bits in (16, 32, 64)},
    "BF16": np.dtype(jnp.bfloat16),
    "BOOL": np.dtype(bool),
    "C64": np.dtype(np.complex64),
}
"""The names of the format, and their dtypes."""


def save_params(path: str | Path, params: Mapping[str, Any]) -> None:
    """Save parameters as safetensors. Saving and loading changes neither names, shapes, dtypes nor any bit.

    Args:
        path: The file, which ends in .safetensors; an existing one is replaced, and a missing folder is made.
        params: Dicts of arrays, nested as deep as you like, such as `policy.params` or `state.params`. An array inside
            is saved under its keys joined by `/`.

    Raises:
        MissingExtraError: safetensors is not installed.
        TypeError: `params` holds something else than dicts with text as keys, and arrays of numbers.
        ValueError: A dict is empty, a key is empty or has a `/` in it, or the file has another suffix, which would
            mislead other programs.
    """
    path = Path(path)
    if path.suffix != ".safetensors":
        raise ValueError(f"save_params writes the safetensors format; call the file {path.stem}.safetensors.")
    numpy_format = _safetensors("save_params").numpy
    arrays = {}
    for name, leaf in flattened(params).items():
        if isinstance(leaf, jax.Array) and jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
            raise TypeError(f"{name} is a random key, which the format does not have; save its jax.random.key_data.")
        array = np.asarray(leaf)
        array = array.astype(array.dtype.newbyteorder("="), order="C")
        if array.dtype not in _DTYPES.values():
            raise TypeError(
                f"Parameters are arrays of numbers, but {name} is a {type(leaf).__name__} of {array.dtype}."
            )
        arrays[name] = array
    path.parent.mkdir(parents=True, exist_ok=True)
    replace_file(path, numpy_format.save(arrays))


def load_params(path: str | Path) -> dict[str, Any]:
    """Load parameters that `save_params` saved: nested dicts of NumPy arrays. No code is executed.

    Raises:
        MissingExtraError: safetensors is not installed.
        FileNotFoundError: There is no such file.
        ValueError: It is not in the safetensors format, or damaged.
    """
    safetensors = _safetensors("load_params")
    content = Path(path).read_bytes()
    try:
        entries = safetensors.deserialize(content)
        return nested(
            {
                name: np.frombuffer(entry["data"], _DTYPES[entry["dtype"]]).reshape(entry["shape"])
                for name, entry in entries
            }
        )
    except (safetensors.SafetensorError, KeyError) as error:
        raise ValueError(f"{path} holds no parameters in the safetensors format, or is damaged: {error}.") from error


def flattened(params: Any, name: str = "") -> dict[str, Any]:
    """The leaves of nested dicts by their keys joined by `/`.

    Raises:
        TypeError: There is a list, a tuple or a NamedTuple, or a key is not text.
        ValueError: A dict is empty, or a key cannot be joined.
    """
    if not isinstance(params, Mapping):
        if isinstance(params, (list, tuple)) or not name:
            here, kind = name or "params", type(params).__name__
            raise TypeError(f"Parameters are nested dicts of arrays, but {here} is a {kind}; make a dict of it.")
        return {name: params}
    if not params:
        raise ValueError(f"{name or 'params'} is an empty dict, which would not be there after loading.")
    leaves = {}
    for key, value in params.items():
        if not isinstance(key, str):
            raise TypeError(f"The keys of parameters are text, but {name or 'params'} has the key {key!r}.")
        if not key or "/" in key:
            raise ValueError(f"Names are keys joined by /, so {name or 'params'} cannot have the key {key!r}.")
        leaves |= flattened(value, f"{name}/{key}" if name else key)
    return leaves


def nested(leaves: Mapping[str, Any]) -> dict[str, Any]:
    """The inverse of `flattened`."""
    params: dict[str, Any] = {}
    for name, leaf in leaves.items():
        *outer, last = name.split("/")
        inner = params
        for key in outer:
            inner = inner.setdefault(key, {})
        inner[last] = leaf
    return params


def _safetensors(what: str) -> Any:
    try:
        import safetensors
        import safetensors.numpy
    except ImportError as error:
        raise MissingExtraError(f"{what} needs safetensors: pip install 'jaxrl[deploy]'") from error
    return safetensors
