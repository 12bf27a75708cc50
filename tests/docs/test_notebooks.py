"""The notebooks run from top to bottom, each in a process of its own, and their stored outputs are small and whole."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))
QUICK = {"2_environments"}  # the others train


def test_there_are_seven():
    assert [path.stem[0] for path in NOTEBOOKS] == list("1234567")


@pytest.mark.parametrize(
    "name", [pytest.param(p.stem, marks=() if p.stem in QUICK else pytest.mark.slow) for p in NOTEBOOKS]
)
def test_runs(name):
    pytest.importorskip("matplotlib")
    # The suite compiles with few optimisations, which is wrong for programs that train.
    environment = {**os.environ, "XLA_FLAGS": ""}
    command = [sys.executable, str(FOLDER / "run.py"), "--plain", name]
    done = subprocess.run(command, capture_output=True, text=True, timeout=590, env=environment)
    assert done.returncode == 0, done.stderr[-3000:]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_outputs_are_stored_whole_and_small(path):
    cells = [cell for cell in json.loads(path.read_text(encoding="utf-8"))["cells"] if cell["cell_type"] == "code"]
    counts = [cell["execution_count"] for cell in cells]
    assert counts == list(range(1, len(cells) + 1)), "Run make notebooks KEEP=--keep: they were not executed in order."
    outputs = [output for cell in cells for output in cell["outputs"]]
    assert outputs
    assert "error" not in {output["output_type"] for output in outputs}
    assert path.stat().st_size < 300_000
