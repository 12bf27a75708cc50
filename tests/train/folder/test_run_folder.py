"""What a run folder accepts, and that configs survive it."""

import dataclasses
import json
import os
import shlex
from pathlib import Path
from typing import Any, Literal

import pytest
import toy_algorithm as toy

from jaxrl.train.folder.load import load
from jaxrl.train.folder.run_folder import RunFolder, config_from_json, config_to_json, describe_run, latest_run


def test_a_new_or_empty_folder_is_taken(tmp_path: Path) -> None:
    assert RunFolder.create(tmp_path).path == tmp_path
    RunFolder.create(tmp_path / "a" / "b")
    assert (tmp_path / "a" / "b").is_dir()


def test_what_holds_something_is_not(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").touch()
    with pytest.raises(FileExistsError, match="has something else in it; name another one with --run-dir"):
        RunFolder.create(tmp_path)
    with pytest.raises(FileExistsError, match="something else"):
        RunFolder.create(tmp_path / "notes.txt")
    (tmp_path / "run.json").write_text("{}")
    with pytest.raises(FileExistsError, match="holds a run"):
        RunFolder.create(tmp_path)


def test_only_runs_can_be_opened(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="holds no run"):
        RunFolder.open(tmp_path)


@pytest.mark.parametrize("part", ["run.json", "checkpoints", "checkpoints/12"])
def test_a_part_of_a_run_tells_which_run_it_is_in(part: str, tmp_path: Path) -> None:
    RunFolder.create(tmp_path / "a").write({})
    with pytest.raises(
        FileNotFoundError, match=f"a/{part} holds no run .*; it is in the run {tmp_path}/a, so name that"
    ):
        RunFolder.open(tmp_path / "a" / part)


def test_the_latest_run_is_found(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="jaxrl train ippo"):
        latest_run(tmp_path)
    for name in ("a", "b"):
        RunFolder.create(tmp_path / name).write({})
    os.utime(tmp_path / "b" / "run.json", (0, 0))
    assert latest_run(tmp_path) == tmp_path / "a"


@dataclasses.dataclass(frozen=True)
class Inner:
    sizes: tuple[int, ...] = (3, 4)


@dataclasses.dataclass(frozen=True)
class Outer:
    inner: Inner = dataclasses.field(default_factory=Inner)
    pairs: tuple[tuple[str, int], ...] = (("a", 1),)
    sharing: Literal["all"] | tuple[int, ...] = (0, 1)
    names: list[str] = dataclasses.field(default_factory=list)
    lr: float | None = None


@pytest.mark.parametrize("config", [Outer(), Outer(inner=Inner(()), sharing="all", names=["x"], lr=0.1)])
def test_configs_come_back_as_they_were(config: Outer) -> None:
    data = json.loads(json.dumps(config_to_json(config)))
    assert config_from_json(Outer, data) == config


def test_a_field_that_json_cannot_hold_is_named() -> None:
    strange: Any = Path("x")
    with pytest.raises(TypeError, match=r"run.json cannot hold names=.*x.* of test_run_folder.Outer; make it a number"):
        config_to_json(Outer(names=[strange]))


def test_the_command_can_be_typed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    words = ["jaxrl", "train", "toy", "--env", "smax/3m?map width=32&x=1", "--run-dir", "my runs/a"]
    monkeypatch.setattr("sys.argv", ["/usr/bin/jaxrl", *words[1:]])
    assert shlex.split(describe_run(toy.Config(), 1)["command"]) == words
    monkeypatch.setattr("sys.argv", ["/usr/lib/jaxrl/__main__.py", *words[1:]])
    assert shlex.split(describe_run(toy.Config(), 1)["command"]) == ["python", "-m", *words]
    monkeypatch.setattr("sys.argv", ["algos/ppo.py", *words[1:]])
    assert shlex.split(describe_run(toy.Config(), 1)["command"]) == ["python", "algos/ppo.py", *words[1:]]


def test_options_of_another_version_are_named() -> None:
    with pytest.raises(ValueError, match="has no option warp_factor"):
        config_from_json(Inner, {"sizes": [1], "warp_factor": 9})


def test_run_json_is_enough_to_build_everything_again(tmp_path: Path) -> None:
    config = toy.Config(seed=3, sizes=(5,))
    folder = RunFolder.create(tmp_path / "run")
    folder.write(describe_run(config, num_seeds=2))
    run = load(folder.path, trust=True)
    assert run.config == config
    assert run.module is toy
    assert isinstance(run.env, toy.Countdown)
    assert callable(run.algo.act)
