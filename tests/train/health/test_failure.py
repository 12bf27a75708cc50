"""A run that an error ends says so in run.json; out of memory, it says how much was wanted and what to lower."""

import json
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxrl.algos import ppo
from jaxrl.cli import main
from jaxrl.train.health.failure import failure_noted, out_of_memory


def test_bytes_wanted_and_bytes_there_are_named() -> None:
    with pytest.raises(jax.errors.JaxRuntimeError) as of_xla:
        jnp.zeros(10**13).block_until_ready()
    with pytest.raises(MemoryError) as of_numpy:
        np.ones(10**13)
    of_a_gpu = jax.errors.JaxRuntimeError("RESOURCE_EXHAUSTED: Out of memory while trying to allocate 15.50GiB.")
    said = [out_of_memory(error) or "" for error in (of_xla.value, of_numpy.value, of_a_gpu, MemoryError())]
    assert said[0].startswith("Out of memory: 4e+04 GB more were wanted, and each device has ")
    assert said[1].startswith("Out of memory: 8e+04 GB more were wanted, and this machine has ")
    assert said[2].startswith("Out of memory: 16.6 GB more were wanted, and each device has ")
    assert said[3].startswith("Out of memory, and this machine has ")
    assert all(text.endswith(" GB in all.") for text in said)


@pytest.mark.parametrize("error", [RuntimeError("RESOURCE_EXHAUSTED: a quota"), jax.errors.JaxRuntimeError("INTERNAL")])
def test_other_errors_are_none_of_memory(error: Exception) -> None:
    assert out_of_memory(error) is None


@pytest.mark.parametrize("status", ["running", "finished"])
def test_a_run_that_goes_on_has_failed(tmp_path: Path, status: str) -> None:
    (tmp_path / "run.json").write_text(json.dumps({"status": status, "seed": 3}))
    with pytest.raises(ZeroDivisionError) as raised, failure_noted(tmp_path, ppo.Config(), 1, 512):
        raise ZeroDivisionError("division by zero")
    failed = {"status": "failed", "seed": 3, "error": "division by zero"}
    there = json.loads((tmp_path / "run.json").read_text())
    assert there == (failed if status == "running" else {"status": status, "seed": 3})
    assert not hasattr(raised.value, "__notes__")


def test_a_training_without_memory_ends_with_a_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    flags = "train ppo --env classic/cartpole --hidden 4 --num-envs 4 --num-steps 8 --num-seeds 2 --no-pictures"
    with pytest.raises(SystemExit) as ended:
        main([*flags.split(), "--eval-episodes", "1e11", "--run-dir", str(tmp_path / "run")])
    assert ended.value.code == 1
    said = capsys.readouterr().err
    assert said.startswith("jaxrl: Out of memory: 800 GB more were wanted, and this machine has ")
    assert said.endswith(
        "Lower --num-envs (4) or --num-steps (8) or --num-seeds (2) or --eval-episodes (100000000000), or raise "
        "--num-minibatches (4); `jaxrl plan` with the same flags says how much fits.\n"
    )
    with pytest.raises(SystemExit) as watched:
        main(["watch", "--once", str(tmp_path / "run")])
    assert watched.value.code == 1
    assert "failed" in capsys.readouterr().out
