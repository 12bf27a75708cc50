"""What is read from a run folder has the types that readers count on, or there is a sentence."""

import json
from pathlib import Path
from typing import Any

import pytest
import toy_algorithm as toy
from toy_runs import ALGO, CONFIG, run

from jaxrl.algos import ppo
from jaxrl.train.folder.json_file import DamagedFileError
from jaxrl.train.folder.json_lines import RowCheck, check_members
from jaxrl.train.folder.load import load
from jaxrl.train.folder.run_folder import RunFolder, config_from_json, config_to_json, describe_run
from jaxrl.train.folder.run_info import Options, read_run_info

ABOUT = {"algorithm": "ppo", "env": "classic/cartpole", "seed": 0, "num_seeds": 2, "config": {}}
SOURCE = {"file": "source/my_env.py", "path": "my_env.py", "sha256": ""}


def read(path: Path, **facts: Any) -> dict[str, Any]:
    (path / "run.json").write_text(json.dumps({**ABOUT, **facts}))
    return read_run_info(path / "run.json")


def test_what_is_not_said_has_a_default(tmp_path: Path) -> None:
    about = read(tmp_path)
    assert (about["status"], about["members"], about["options"], about["git"]) == ("unfinished", None, {}, None)
    assert read(tmp_path, notes=["purpose"], purpose="a test")["purpose"] == "a test"


@pytest.mark.parametrize(
    ("facts", "sentence"),
    [
        ({"num_seeds": 0}, "num_seeds must be from 1 to"),
        ({"num_seeds": 10**9}, "num_seeds must be from 1 to"),
        ({"members": [{"seed": 1}]}, "it has 1 members and num_seeds=2"),
        ({"members": [{"seed": 1}, {"seed": "x"}]}, r"members\[1\]\.seed must be int"),
        ({"members": [{"seed": 1}, {"seed": 1.5}]}, r"seed must be int, got 1\.5"),
        ({"members": [{"seed": 1}, {"env": "os:system"}]}, r"members\[1\]\.env must be int"),
        ({"config": {"seed": "../../elsewhere"}}, r"seed must be int, got '\.\./"),
        ({"something": "new"}, "something is not known"),
        ({"options": {"init_from": {"run": "a", "trust": True}}}, r"options\.init_from\.trust is not known"),
        ({"sources": {"env": {**SOURCE, "folder": "/"}}}, r"sources\.folder is not known"),
        ({"members": [3, 4]}, r"members\[0\] must be"),
        ({"mesh": {"member": 0, "data": 1}}, "mesh must be positive"),
        ({"options": {"part": 3}}, r"options\.part is not known"),
        ({"options": {"eval_episodes": None}}, r"options\.eval_episodes must be int"),
        ({"evaluation": {"return_mean": [1.0, 2.0, 3.0]}}, "return_mean has 3 numbers and the run 2 seeds"),
        ({"evaluation": {"return_mean": 1.0}}, "return_mean has 1 numbers"),
        ({"evaluation": {"win_rate": [0.5, 0.5]}}, r"evaluation\.return_mean is missing"),
        ({"git": {"commit": "abc"}}, r"git\.dirty is missing"),
        ({"git": {"commit": "abc", "dirty": True, "url": "x"}}, r"git\.url is not known"),
    ],
)
def test_what_does_not_fit_together_is_told(tmp_path: Path, facts: dict[str, Any], sentence: str) -> None:
    with pytest.raises(DamagedFileError, match=rf"run\.json is damaged: {sentence}"):
        read(tmp_path, **facts)


def test_a_run_may_have_as_many_seeds_as_its_rows_have_numbers(tmp_path: Path) -> None:
    with pytest.raises(DamagedFileError, match="num_seeds must be from 1 to"):
        read(tmp_path, num_seeds=100_000)
    (tmp_path / "metrics.jsonl").write_text(json.dumps({"episodes": [1] * 100_000}))
    assert read(tmp_path, num_seeds=100_000)["num_seeds"] == 100_000


def test_every_option_that_fit_records_is_known(tmp_path: Path) -> None:
    run(run_dir=tmp_path / "run")
    assert set(load(tmp_path / "run").about["options"]) == set(Options.__annotations__)


def test_infinite_hyperparameters_survive(tmp_path: Path) -> None:
    config = toy.Config(act_from=float("inf"))
    assert config_from_json(toy.Config, json.loads(json.dumps(config_to_json(config), allow_nan=False))) == config
    folder = RunFolder.create(tmp_path / "run")
    members = [{"seed": 0, "act_from": float("inf")}, {"seed": 1, "act_from": 1}]
    folder.write({**describe_run(config, 2), "members": members})
    assert folder.read()["members"] == members
    folder.write(describe_run(config, 2))
    assert load(folder.path, trust=True).config == config
    members[1]["act_from"] = "high"
    folder.write({**describe_run(config, 2), "members": members})
    with pytest.raises(ValueError, match=r"members\[1\]\.act_from must be int \| float, got 'high'"):
        load(folder.path)


def test_members_hold_numbers_of_traced_hyperparameters_and_seeds(tmp_path: Path) -> None:
    folder = RunFolder.create(tmp_path / "run")
    folder.write({**describe_run(ppo.Config(), 1), "members": [{"seed": 0, "num_steps": 64}]})
    with pytest.raises(ValueError, match=r"its members differ in num_steps, and members have their own \[.*'lr'"):
        load(folder.path)


ROW = {"timesteps": 8, "seconds": 0.5, "return_mean": [1.0, None], "losses": {"policy": [0.1, 0.2]}}


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"timesteps": -1}, "no good timesteps"),
        ({"timesteps": 8.5}, "no good timesteps"),
        ({"seconds": None}, "no good timesteps or seconds"),
        ({"return_mean": "high"}, "something else than numbers in return_mean"),
        ({"return_mean": [1.0, True]}, "something else than numbers in return_mean"),
        ({"return_mean": [1.0, 10**30]}, "something else than numbers in return_mean"),
        ({"losses": {"policy": {"deep": 1.0}}}, "something else than numbers in losses/policy"),
        ({"losses": [0.1]}, "no names in losses"),
        ({"return_mean": [1.0]}, "another number of values in return_mean"),
    ],
)
def test_rows_are_held_against_what_readers_need(change: dict[str, Any], sentence: str) -> None:
    check = RowCheck("seconds")
    check(ROW)
    with pytest.raises(ValueError, match=sentence):
        check({**ROW, **change})
    with pytest.raises(ValueError, match="has no seconds"):
        RowCheck("seconds")({"timesteps": 8})


def test_rows_of_other_runs_are_told(tmp_path: Path) -> None:
    check_members(tmp_path, [ROW, {**ROW, "return_mean": None}], 2)
    for members in (1, 3):
        with pytest.raises(DamagedFileError, match=f"return_mean has 2 numbers and the run {members} seeds"):
            check_members(tmp_path, [ROW], members)
    with pytest.raises(DamagedFileError, match="return_mean has 1 numbers and the run 2 seeds"):
        check_members(tmp_path, [{**ROW, "return_mean": 1.0}], 2)


def test_a_run_is_not_continued_through_links(tmp_path: Path) -> None:
    """A folder may come from a stranger, and its files may be links to this user's."""
    run(ALGO, CONFIG, tmp_path / "run", checkpoint_every_updates=4)
    (tmp_path / "mine").write_text("precious")
    (tmp_path / "run" / "curve.png").symlink_to(tmp_path / "mine")
    with pytest.raises(FileExistsError, match=r"curve\.png is a link"):
        run(ALGO, CONFIG, tmp_path / "run", resume=True)
    assert (tmp_path / "mine").read_text() == "precious"
