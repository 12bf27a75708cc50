"""A policy in a file: as StableHLO, as a module that needs NumPy alone, or only its parameters."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jax
import jax.export

from jaxrl.deploy.inference import Inference
from jaxrl.deploy.numpy_module import numpy_module
from jaxrl.deploy.params import save_params
from jaxrl.durable import replace_file
from jaxrl.errors import MissingExtraError

__all__ = ["FORMATS", "export"]

FORMATS = (".stablehlo", ".py", ".safetensors")
"""The suffixes of the files, one for each format."""

_PLATFORMS = ("cpu", "cuda", "rocm", "tpu")


def export(inference: Inference, path: Path) -> Path:
    """Write a policy in the format of the file's suffix and return the path; see `Policy.export`."""
    if path.suffix in FORMATS:
        path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".safetensors":
        save_params(path, inference.params)
    elif path.suffix == ".py":
        replace_file(path, numpy_module(inference).encode())
    elif path.suffix == ".stablehlo":
        replace_file(path, _stablehlo(inference))
    else:
        raise ValueError(f"The file's suffix gives the format: {', '.join(FORMATS)}; got {path.name}.")
    return path


def _stablehlo(inference: Inference) -> bytes:
    """The function with its parameters, for every platform and every size of the batch."""
    try:
        import flatbuffers  # noqa: F401  (JAX needs it to write the file)
    except ImportError as error:
        raise MissingExtraError("A .stablehlo file needs flatbuffers: pip install 'jaxrl[deploy]'") from error

    def act(*given: Any) -> Any:
        return inference.function(inference.params, *given)

    exported = jax.export.export(jax.jit(act), platforms=_PLATFORMS)(*inference.arguments.values())
    return bytes(exported.serialize())
