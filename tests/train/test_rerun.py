"""A run again, from its run.json alone."""

import dataclasses
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
import toy_algorithm as toy

from jaxrl.train.fit import fit
from jaxrl.train.folder.load import load
from jaxrl.train.folder.run_folder import RunFolder
from jaxrl.train.rerun import compare_rows, rerun, warnings_for

ROW = {"timesteps": 8, "seconds": 0.1, "steps_per_second": 80.0, "win_rate": [0.1, 0.2], "losses": {"policy": 0.3}}


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run whose options are no defaults."""
    config = toy.Config(seed=5, sizes=(3,))
    folder = tmp_path_factory.mktemp("runs") / "original"
    members = [{"seed": 5}, {"seed": 9}, {"seed": 2}]
    options: dict[str, Any] = {"log_every": 3, "eval_every": 4, "eval_episodes": 8, "pictures": False}
    fit(toy.make(config), config, folder, members=members, quiet=True, **options)
    return folder


def test_the_same_numbers_come_out(original: Path, tmp_path: Path) -> None:
    rerun(load(original), tmp_path / "again", quiet=True)
    before, after = RunFolder(original), RunFolder(tmp_path / "again")
    assert [row["timesteps"] for row in after.metrics.read()] == [24, 48, 72, 80]
    found = compare_rows(before.metrics.read(), after.metrics.read())
    assert found.same
    assert found.rows == 4
    assert compare_rows(before.evaluations.read(), after.evaluations.read()).same
    for name in ("config", "options", "members", "mesh", "evaluation"):
        assert before.read()[name] == after.read()[name]


def test_another_seed_is_told_apart(original: Path, tmp_path: Path) -> None:
    run = load(original)
    other = dataclasses.replace(run, about={**run.about, "members": [{"seed": 5}, {"seed": 9}, {"seed": 3}]})
    rerun(other, tmp_path / "other", quiet=True)
    found = compare_rows(run.folder.metrics.read(), RunFolder(tmp_path / "other").metrics.read())
    assert not found.same
    assert found.first == 24
    assert "return_mean" in found.fields


@pytest.mark.quick
def test_times_do_not_count_and_one_bit_does() -> None:
    later = {**ROW, "seconds": 5.0, "steps_per_second": 1.0}
    assert compare_rows([ROW], [later]).same
    off = {**ROW, "losses": {"policy": float(np.nextafter(0.3, 1.0))}}
    assert compare_rows([ROW, ROW], [ROW, off]) == (2, 8, ("losses",))
    assert compare_rows([ROW], [{**ROW, "extra": 1}]).fields == ("extra",)


def test_runs_of_different_length_are_compared_as_far_as_both_go() -> None:
    assert compare_rows([ROW], [ROW, ROW]) == (1, None, ())
    assert not compare_rows([], [ROW]).same


def test_what_differs_from_then_is_told_before(original: Path) -> None:
    about = load(original).about
    clean = {**about, "git": None if about["git"] is None else {**about["git"], "dirty": False}}
    assert all("git" in sentence or "it now" in sentence for sentence in warnings_for(clean))
    [*_, device] = warnings_for({**clean, "devices": ["gpu:0 NVIDIA H200"]})
    assert device == "The device was NVIDIA H200 and is cpu now."
    with jax.enable_x64(True):
        [*_, setting] = warnings_for(clean)
    assert setting == "JAX_ENABLE_X64 was False and is True now."
    [*_, spread] = warnings_for({**clean, "mesh": {"member": 64, "data": 1}})
    assert spread == "It ran on 64 devices and 1 are visible, so it is spread differently."
