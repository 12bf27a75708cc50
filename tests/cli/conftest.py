"""An empty folder to run in, and the toy among the algorithms."""

from pathlib import Path

import pytest

from jaxrl import algos

TOYS = Path(__file__).resolve().parent.parent / "train"


@pytest.fixture(autouse=True)
def workplace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(TOYS))
    monkeypatch.setitem(algos._MODULES, "toy", "toy_algorithm")
    monkeypatch.setenv("JAXRL_CACHE", "0")
    return tmp_path
