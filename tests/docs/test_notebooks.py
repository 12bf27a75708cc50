"""The notebooks run from top to bottom, each in a process of its own, and their stored outputs are small and whole."""

import importlib
import inspect
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))


def test_there_are_eight():
    assert [path.stem[0] for path in NOTEBOOKS] == list("12345678")


@pytest.mark.slow
@pytest.mark.parametrize("name", [path.stem for path in NOTEBOOKS])
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


def test_printed_sources_are_those_of_today():
    """What a notebook prints by `inspect.getsource`, and the names that its text says are in there."""
    cells = json.loads((FOLDER / "4_change_an_algorithm.ipynb").read_text(encoding="utf-8"))["cells"]
    printed = {}
    for cell in cells:
        if found := re.fullmatch(r"print\(inspect\.getsource\((\w+)\.(\w+)\)\)", "".join(cell["source"])):
            function = getattr(importlib.import_module(f"jaxrl.algos.{found[1]}"), found[2])
            printed[".".join(found.groups())] = stored = "".join(cell["outputs"][0]["text"])
            assert stored == inspect.getsource(function) + "\n", "Run make notebooks KEEP=--keep."
    assert set(printed) == {"ippo.make", "ppo.update"}
    text = next(text for text in map("".join, (cell["source"] for cell in cells)) if "right only once" in text)
    assert all(f"{name}(" in printed["ppo.update"] for name in re.findall(r"`(\w+)`", text))
