"""A run that was stopped, which several files go on with."""

import shutil
from pathlib import Path

import pytest
from stopped_runs import change
from toy_runs import run

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
