"""Makes `toy_algorithm` importable by the tests beside it, and lets runs of the same toy share their compilation."""

import sys
from collections.abc import Iterator
from pathlib import Path

import jax
import pytest
from jax.experimental.compilation_cache import compilation_cache

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture(scope="module", autouse=True)
def shared_compilation(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    before = jax.config.values["jax_persistent_cache_min_compile_time_secs"]
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    jax.config.update("jax_compilation_cache_dir", str(tmp_path_factory.getbasetemp() / "compiled"))
    compilation_cache.reset_cache()
    yield
    jax.config.update("jax_persistent_cache_min_compile_time_secs", before)
    jax.config.update("jax_compilation_cache_dir", None)
    compilation_cache.reset_cache()
