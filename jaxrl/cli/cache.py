"""JAX's persistent compilation cache for the command line: a second run starts without compiling."""

from __future__ import annotations

import hashlib
import os
import platform
from pathlib import Path

import jax

__all__ = ["use_cache"]


def use_cache() -> Path | None:
    """Turn on the cache in the user's cache folder, and return its path.

    Nothing happens with `JAXRL_CACHE=0`, or if the user has configured a cache folder for JAX. Each kind of processor
    has its own folder, since machines may share homes but not compiled code.
    """
    unwanted = os.environ.get("JAXRL_CACHE", "1").lower() in ("0", "false", "no", "off")
    if unwanted or getattr(jax.config, "jax_compilation_cache_dir", None):
        return None
    try:
        root = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
        folder = root / "jaxrl" / f"xla-{_processor()}"
        folder.mkdir(parents=True, exist_ok=True)
    except (OSError, RuntimeError):
        return None  # an unwritable home, or none, as in a container with any user's number, must not prevent training
    jax.config.update("jax_compilation_cache_dir", str(folder))
    return folder


def _processor() -> str:
    """Eight hexadecimal digits that distinguish processors with different instruction sets."""
    text = platform.machine()
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        text += next((line for line in lines if line.startswith(("flags", "Features"))), "")
    except OSError:
        text += platform.processor()
    return hashlib.sha256(text.encode()).hexdigest()[:8]
