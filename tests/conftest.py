"""Shared by all tests: every key is consumed once, or the test fails; compiling is what takes the time."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path

os.environ.setdefault("JAX_PLATFORMS", "cpu")
# Almost half of the suite's time is LLVM optimising programs that run for milliseconds.
os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} --xla_backend_optimization_level=0".strip()

import jax
import pytest
from jax.experimental.compilation_cache import compilation_cache

import jaxrl
from jaxrl import registry

jax.config.update("jax_debug_key_reuse", True)

# Helpers that tests of several folders share.
SHARED = ("algos", "check", "envs/overcooked", "envs/social", "train", "tuning")
sys.path += [str(Path(__file__).parent / folder) for folder in SHARED]


@pytest.fixture(scope="session", autouse=True)
def _records_apart(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """What training remembers of its runs is not written into the home of who tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))
        yield


@pytest.fixture(scope="module", autouse=True)
def _forget_compiled_programs():
    """Compiled programs are shared within a module; kept for the whole suite they would fill the memory."""
    yield
    jax.clear_caches()


@pytest.fixture(scope="module")
def shared_compilation(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Runs of the same toy share their compilation."""
    before = jax.config.values["jax_persistent_cache_min_compile_time_secs"]
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    jax.config.update("jax_compilation_cache_dir", str(tmp_path_factory.getbasetemp() / "compiled"))
    compilation_cache.reset_cache()
    yield
    jax.config.update("jax_persistent_cache_min_compile_time_secs", before)
    jax.config.update("jax_compilation_cache_dir", None)
    compilation_cache.reset_cache()


@pytest.fixture
def toys(monkeypatch: pytest.MonkeyPatch) -> None:
    """`toy/alone` and `toy/team` have names, which are gone after the test."""
    import observed

    jaxrl.list_envs()
    for table in ("_FACTORIES", "_FIXED", "_ALIASES"):
        monkeypatch.setattr(registry, table, dict(getattr(registry, table)))
    jaxrl.register("toy/alone", observed.Alone)
    jaxrl.register("toy/team", observed.Team)
