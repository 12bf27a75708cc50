"""Runs that several files go on with: one that was stopped, and one of files of one's own."""

import shutil
from pathlib import Path

import pytest
from own_files import ENV, OPTIONS, forget, write_algorithm
from stopped_runs import change
from toy_runs import run

import jaxrl
from jaxrl.train.folder.run_folder import RunFolder
from jaxrl.train.run import SearchRun


@pytest.fixture(scope="session")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A whole run."""
    place = tmp_path_factory.mktemp("runs") / "run"
    run(run_dir=place, log_every=2, checkpoint_every_updates=4, search=SearchRun(notes={"purpose": "a test"}))
    return place


@pytest.fixture
def folder(template: Path, tmp_path: Path) -> RunFolder:
    """As if its process had been killed."""
    shutil.copytree(template, tmp_path / "run")
    folder = RunFolder(tmp_path / "run")
    change(folder, status="running")
    return folder


@pytest.fixture
def made(tmp_path: Path) -> Path:
    """A finished run whose algorithm and environment come from files."""
    module = write_algorithm(tmp_path / "mine.py")
    (tmp_path / "my_env.py").write_text(ENV)
    config = module.Config(env=f"{tmp_path}/my_env.py:Mine", total_timesteps=32)
    jaxrl.fit(module.make(config), config, tmp_path / "run", **OPTIONS)
    forget()
    return tmp_path / "run"
