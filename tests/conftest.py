"""Shared by all tests: every key is consumed once, or the test fails; compiling is what takes the time."""

import contextlib
import gc
import os
import sys
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path

os.environ.setdefault("JAX_PLATFORMS", "cpu")
# Almost half of the suite's time is LLVM optimising programs that run for milliseconds, and XLA's newer way to emit
# kernels takes twice the time of the older one, which later versions no longer have.
os.environ["XLA_FLAGS"] = " ".join(
    [
        *os.environ.get("XLA_FLAGS", "").split(),
        "--xla_backend_optimization_level=0",
        *(
            ["--xla_cpu_use_fusion_emitters=false", "--xla_cpu_parallel_codegen_split_count=1"]
            if tuple(map(int, version("jaxlib").split(".")[:2])) < (0, 11)
            else []
        ),
    ]
)
# Compiling takes two thirds of it, and most programs are those of the last run; `make clean` forgets them.
os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(Path(__file__).parents[1] / "build" / "compiled"))
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")
os.environ.setdefault("JAX_TRACEBACK_IN_LOCATIONS_LIMIT", "0")  # nobody profiles what tests compile

# `make test` installs compilers for accelerators beside the environment, not into it: there, every program of JAX
# would look for their devices, and say on stderr that there are none.
sys.path.append(str(Path(sys.prefix) / "accelerators"))

import jax
import psutil
import pytest
from jax.experimental.compilation_cache import compilation_cache

import jaxrl
from jaxrl import registry

jax.config.update("jax_debug_key_reuse", True)
gc.set_threshold(50_000, 20, 20)  # it looks through millions of objects of traces, most of which stay anyway
jax.devices()  # JAX starts with one device, whichever test comes first: commands would give it one for each core

# Helpers that tests of several folders share.
SHARED = (
    "algos",
    "check",
    "envs/overcooked",
    "envs/social",
    "interop",
    "levels",
    "templates",
    "train",
    "train/folder",
    "tuning",
)
sys.path += [str(Path(__file__).parent / folder) for folder in SHARED]


@contextlib.contextmanager
def _cache_in(folder: Path) -> Iterator[None]:
    """Compiled programs are kept in another folder meanwhile."""
    before = jax.config.values["jax_compilation_cache_dir"]
    try:
        jax.config.update("jax_compilation_cache_dir", str(folder))
        compilation_cache.reset_cache()
        yield
    finally:
        jax.config.update("jax_compilation_cache_dir", before)
        compilation_cache.reset_cache()


@pytest.fixture(scope="session", autouse=True)
def _records_apart(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """What training remembers of its runs is not written into the home of who tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))
        yield


@pytest.fixture(scope="session", autouse=True)
def _no_power_cuts() -> Iterator[None]:
    """Nobody waits for the disk, which takes milliseconds for each of thousands of small files."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda file: None)
        yield


@pytest.fixture(scope="session", autouse=True)
def _compile_quickly() -> Iterator[None]:
    """`fit` asks for more optimisation than other programs of the suite get."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("jaxrl.train.programs.compiler_options", lambda: None)
        yield


@pytest.fixture(scope="module", autouse=True)
def _forget_compiled_programs() -> Iterator[None]:
    """Modules share compiled programs until these take much memory; kept for the whole suite they would fill it."""
    yield
    if psutil.Process().memory_info().rss > 5e9:  # bytes, now: the most that it ever was would stay above
        jax.clear_caches()


@pytest.fixture
def nothing_compiled(tmp_path: Path) -> Iterator[None]:
    """For a test that counts on an empty cache of compiled programs."""
    with _cache_in(tmp_path / "compiled"):
        yield


@pytest.fixture
def toys(monkeypatch: pytest.MonkeyPatch) -> None:
    """`toy/alone` and `toy/team` have names, which are gone after the test."""
    import observed

    jaxrl.list_envs()
    for table in ("_FACTORIES", "_FIXED", "_ALIASES"):
        monkeypatch.setattr(registry, table, dict(getattr(registry, table)))
    jaxrl.register("toy/alone", observed.Alone)
    jaxrl.register("toy/team", observed.Team)
