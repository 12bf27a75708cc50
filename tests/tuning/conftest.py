"""Finished searches and sweeps, which several files look at."""

import json
import shutil
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from searches import UPDATES, search
from swept import TOY, Config, sweep_toys

from jaxrl import algos
from jaxrl.tuning import PBT


@pytest.fixture(scope="session")
def halved(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A finished search by halving."""
    return search(tmp_path_factory.mktemp("search") / "halving", method="halving", budget=3)


@pytest.fixture(scope="session")
def folder(halved: Any) -> Path:
    """Its folder."""
    return halved.run_dir


@pytest.fixture(scope="session")
def evolved(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A finished search by PBT, with a lineage that changes."""
    return search(
        tmp_path_factory.mktemp("search") / "pbt",
        method=PBT(generations=4, draw=False),
        budget=8,
        log_every=1,
        checkpoint_every_updates=9,
    )


@pytest.fixture
def stopped(evolved: Any, tmp_path: Path) -> Path:
    """As if its test had been stopped three quarters of the way."""
    folder = Path(shutil.copytree(evolved.run_dir, tmp_path / "search"))
    shutil.rmtree(folder / "test" / "checkpoints" / str(UPDATES))
    file = folder / "test" / "run.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), "status": "stopped", "timesteps": 27}))
    return folder


@pytest.fixture
def _no_deadly_signal() -> Iterator[None]:
    """SIGTERM fails the test, if nothing else handles it, and does not kill the others."""

    def fail(number: int, frame: Any) -> None:
        raise AssertionError("a signal that nothing handles")

    before = signal.signal(signal.SIGTERM, fail)
    yield
    signal.signal(signal.SIGTERM, before)


@pytest.fixture
def _echo_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(algos._MODULES, "echo", "echo")
    monkeypatch.setenv("JAXRL_CACHE", "0")


@pytest.fixture(scope="session")
def toy_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("toy") / "sweep"


@pytest.fixture(scope="session")
def toy_sweep(toy_folder: Path) -> Any:
    """Two groups of four members, each trained in two halves."""
    return sweep_toys(toy_folder)


@pytest.fixture
def _toy_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, Config.__module__, TOY)
    monkeypatch.setitem(algos._MODULES, "toy", Config.__module__)
    monkeypatch.setenv("JAXRL_CACHE", "0")
