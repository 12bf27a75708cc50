"""`make bench-gpu`, with small numbers on a CPU: the tables are complete, and what does not fit is told."""

import dataclasses
import json
from pathlib import Path
from types import ModuleType
from typing import Any

import jax
import pytest

from jaxrl.source_file import load_source

FILE = Path(__file__).resolve().parents[1] / "baselines" / "speed" / "gpu.py"


@pytest.fixture(scope="module")
def script() -> ModuleType:
    return load_source(FILE)


def test_tables_are_written_with_the_devices_name(script: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def too_large(algorithm: str, env: str, num_envs: int, *others: Any) -> float:
        if num_envs > 100:
            raise jax.errors.JaxRuntimeError("RESOURCE_EXHAUSTED: Out of memory")
        return measured(algorithm, env, num_envs, *others)

    measured = script.train
    monkeypatch.setattr(script, "train", too_large)
    this = dataclasses.replace(script.ACCELERATORS["h100"], name=jax.devices()[0].device_kind)
    monkeypatch.setitem(script.ACCELERATORS, "this", this)
    flags = "--envs matrix/rock_paper_scissors --num-envs 1 4 --steps 2 --train-envs smax/3m --train-num-envs 8 1024"
    script.main([*flags.split(), "--updates", "1", "--repeats", "1", "--out", str(tmp_path)])
    table, raw = sorted(tmp_path.iterdir(), key=lambda path: path.suffix, reverse=True)
    assert table.name.startswith("accelerator_")
    assert "cpu" in table.name
    text = table.read_text()
    assert "| random play, steps/s | 1 | 4 |" in text
    assert "| smax/3m, predicted | " in text
    assert text.rstrip().endswith("does not fit |")
    found = json.loads(raw.read_text())
    assert found["play"]["matrix/rock_paper_scissors"][1] > 0
    assert found["train"]["smax/3m"][0] > 0
    assert found["train"]["smax/3m"][1] is None
    assert found["train"]["smax/3m, predicted"][0] == found["predicted"]["smax/3m"]["8"]["speed"] > 0


def test_other_errors_are_not_hidden(script: ModuleType):
    def broken() -> float:
        raise jax.errors.JaxRuntimeError("INTERNAL: something else")

    with pytest.raises(jax.errors.JaxRuntimeError, match="something else"):
        script.unless_too_large(broken)
