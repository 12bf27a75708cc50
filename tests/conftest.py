"""Shared by all tests: every key is consumed once, or the test fails; compiling is what takes the time."""

import os

os.environ.setdefault("JAX_PLATFORMS", "cpu")
# Almost half of the suite's time is LLVM optimising programs that run for milliseconds.
os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} --xla_backend_optimization_level=0".strip()

import jax
import pytest

jax.config.update("jax_debug_key_reuse", True)


@pytest.fixture(scope="module", autouse=True)
def _forget_compiled_programs():
    """Compiled programs are shared within a module; kept for the whole suite they would fill the memory."""
    yield
    jax.clear_caches()
