"""Which runs are another one: refused with the differences and a word on what to type, and nothing is touched."""

import dataclasses
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import toy_algorithm as toy
from stopped_runs import OPTIONS, change, content, pretend, refusal, stage
from toy_runs import ALGO, CONFIG, run

from jaxrl.algos import ippo, ppo
from jaxrl.errors import CheckpointError, DivergedError
from jaxrl.train.fit import fit
from jaxrl.train.folder.continuation import Stage, decide, finished_message, left_to_do
from jaxrl.train.folder.lock import locked
from jaxrl.train.folder.run_folder import RunFolder
from jaxrl.train.folder.same_run import differences, wanted
from jaxrl.train.run import SearchRun

OTHERS: dict[str, tuple[Any, dict[str, Any], str]] = {
    "fewer timesteps": (toy.Config(total_timesteps=40), {}, "total_timesteps is 80 there and 40 here"),
    "lr": (toy.Config(lr=0.5), {}, "lr is 1.0 there and 0.5 here"),
    "env": (toy.Config(env="toy/other"), {}, "env is toy/countdown there and toy/other here"),
    "seed": (toy.Config(seed=3), {}, "seed is 0 there and 3 here"),
    "seeds": (CONFIG, {"num_seeds": 2}, "num_seeds is 1 there and 2 here"),
    "members": (CONFIG, {"members": [{"seed": 4}]}, "member 0 is seed 0 there and seed 4 here"),
    "rows": (CONFIG, {"log_every": 5}, "log_every is 2 there and 5 here"),
    "episodes": (CONFIG, {"eval_episodes": 4}, "eval_episodes is 8 there and 4 here"),
    "lineage": (
        CONFIG,
        {"search": SearchRun(lineage={"every_updates": 5, "points": [{"lr": 1.0}]})},
        "lineage is left out there and every_updates=5 points=",
    ),
}


@pytest.mark.timeout(120)
@pytest.mark.parametrize("resume", [True, "auto"])
@pytest.mark.parametrize("case", OTHERS)
def test_fit_resumes_no_other_run_and_leaves_it_alone(folder: RunFolder, case: str, resume: Any) -> None:
    config, options, sentence = OTHERS[case]
    before = content(folder.path)
    with pytest.raises(FileExistsError) as error:
        run(ALGO, config, folder.path, **{"log_every": 2, "resume": resume, **options})
    assert f"already holds another run: {sentence}" in str(error.value)
    assert f"continue that one with `jaxrl resume {folder.path}`" in str(error.value)
    assert content(folder.path) == before


@pytest.mark.parametrize("changed", [{"lr": 0.5}, {"gamma": 0.5}, {"env": "classic/pendulum"}, {"hidden": (8,)}])
def test_an_algorithms_hyperparameters_are_compared(changed: dict[str, Any], tmp_path: Path) -> None:
    config = ppo.Config(env="classic/cartpole")
    folder = pretend(tmp_path / "run", config)
    assert stage(folder, config) is Stage.UNFINISHED
    other = dataclasses.replace(config, **changed)
    [name] = changed
    with pytest.raises(FileExistsError, match=f"another run: {name} is"):
        fit(ppo.make(other), other, folder.path, resume=True, log_every=2, eval_episodes=8, quiet=True)


def test_another_algorithm_is_another_run(tmp_path: Path) -> None:
    folder = pretend(tmp_path / "run", ppo.Config(env="classic/cartpole"))
    text = refusal(folder, ippo.Config())
    assert "algorithm is jaxrl.algos.ppo:Config there and jaxrl.algos.ippo:Config here" in text


def test_all_differences_are_named(folder: RunFolder) -> None:
    text = refusal(folder, dataclasses.replace(CONFIG, lr=0.5, sizes=(7,)), 2, log_every=None)
    assert "lr is 1.0 there and 0.5 here, sizes is [1, 2] there and [7] here" in text
    assert "num_seeds is 1 there and 2 here, log_every is 2 there and left out here" in text


def test_a_run_to_start_from_is_named_as_one_types_it() -> None:
    start = {"run": "runs/base", "learner": False, "best": True, "member": None}
    assert list(differences({}, {"init_from": start})) == [
        "init_from is left out there and run=runs/base best=True here"
    ]


def test_members_are_compared_one_by_one(tmp_path: Path) -> None:
    folder = pretend(tmp_path / "run", CONFIG, [{"seed": 0}, {"seed": 1, "lr": 0.5}])
    assert stage(folder, members=[{"seed": 0}, {"lr": 0.5, "seed": 1}]) is Stage.UNFINISHED
    assert "member 1 is seed 1, lr=0.5 there and seed 1 here" in refusal(folder, members=2)
    plain = pretend(tmp_path / "plain", CONFIG, 2)
    assert stage(plain, members=[{"seed": 0}, {"seed": 1}]) is Stage.UNFINISHED


def test_what_means_the_same_is_the_same(tmp_path: Path) -> None:
    """JSON has no tuples, NaN differs from itself, and an int may stand for a float."""
    folder = pretend(tmp_path / "run", toy.Config(lr=float("nan"), sizes=(3,), act_from=5))
    assert stage(folder, toy.Config(lr=float("nan"), sizes=(3,), act_from=5.0)) is Stage.UNFINISHED


def test_options_that_are_newer_than_the_run_have_their_defaults(tmp_path: Path) -> None:
    folder = pretend(tmp_path / "run", CONFIG)
    older = {name: value for name, value in folder.read()["config"].items() if name != "work"}
    change(folder, config=older)
    assert stage(folder) is Stage.UNFINISHED
    assert "work is 0 there and 1 here" in refusal(folder, toy.Config(work=1))
    change(folder, config={**older, "warp": 9})
    with pytest.raises(ValueError, match="has no option warp"):
        stage(folder)


def test_a_run_with_a_lineage_is_not_continued_without_it(tmp_path: Path) -> None:
    lineage: Any = {"every_updates": 5, "points": [{"lr": 1.0}, {"lr": 0.5}]}
    folder = pretend(tmp_path / "run", CONFIG, lineage=lineage)
    about = wanted(CONFIG, 1, OPTIONS, lineage=json.loads(json.dumps(lineage)))
    assert decide(folder, CONFIG, about) is Stage.UNFINISHED
    assert "lineage is every_updates=5" in refusal(folder)
    other: Any = {**lineage, "points": [{"lr": 1.0}, {"lr": 0.25}]}
    with pytest.raises(FileExistsError, match=r"lineage.points is .*0\.5.* there and .*0\.25.* here"):
        decide(folder, CONFIG, wanted(CONFIG, 1, OPTIONS, lineage=other))


@pytest.mark.timeout(120)
def test_a_checkpoint_beyond_the_end_is_an_error(folder: RunFolder) -> None:
    """Somebody has edited run.json."""
    change(folder, config={**folder.read()["config"], "total_timesteps": 40})
    small = toy.Config(total_timesteps=40)
    with pytest.raises(CheckpointError, match="The checkpoint is of update 10, but the run has only 5"):
        run(toy.make(small), small, folder.path, log_every=2, resume=True)


def test_a_finished_run_is_not_trained_again(folder: RunFolder) -> None:
    change(folder, status="finished")
    assert f"is finished after 80 steps: `jaxrl eval {folder.path}` plays it" in finished_message(folder)
    assert not left_to_do(folder.path, CONFIG, wanted(CONFIG, 1, OPTIONS))


def test_a_finished_run_without_checkpoints_is_not_trained_again_either(folder: RunFolder) -> None:
    change(folder, status="finished")
    shutil.rmtree(folder.checkpoints)
    before = content(folder.path)
    for resume in (True, "auto"):
        with pytest.raises(CheckpointError, match="is finished, but its checkpoints are gone"):
            run(run_dir=folder.path, log_every=2, resume=resume)
    assert content(folder.path) == before


def test_a_diverged_run_says_how_to_go_on(folder: RunFolder) -> None:
    change(folder, status="diverged", error="After update 7 of 10 training has diverged: not finite: policy.")
    text = refusal(folder)
    assert "After update 7 of 10 training has diverged" in text
    assert f"jaxrl resume {folder.path} --on-nan skip" in text
    with pytest.raises(DivergedError, match="--on-nan skip"):
        run(run_dir=folder.path, log_every=2, resume=True)
    assert stage(folder, on_nan="skip") is Stage.UNFINISHED
    shutil.rmtree(folder.checkpoints)
    assert "It has no checkpoint to go on from" in refusal(folder)


def test_a_run_that_goes_on_elsewhere_is_left_alone(folder: RunFolder) -> None:
    before = content(folder.path)
    with locked(folder.path):
        for resume in (True, "auto"):
            with pytest.raises(FileExistsError, match="Another process"):
                run(run_dir=folder.path, log_every=2, resume=resume)
    assert content(folder.path) == before


def test_a_folder_that_another_process_has_just_filled_is_not_overwritten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It does so between the look at the folder and the lock."""
    real = RunFolder.create

    def slow(path: Path) -> RunFolder:
        made = real(path)
        monkeypatch.setattr(RunFolder, "create", real)
        made.write({"status": "running"})
        return made

    monkeypatch.setattr(RunFolder, "create", slow)
    with pytest.raises(FileExistsError, match="already holds a run"):
        run(run_dir=tmp_path / "run")
    assert content(tmp_path / "run") == {"run.json": b'{\n  "status": "running"\n}\n'}


@pytest.mark.parametrize("resume", [False, "auto"])
def test_what_is_no_run_is_left_alone(tmp_path: Path, resume: Any) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(FileExistsError, match="something else in it"):
        run(run_dir=tmp_path, resume=resume)
    assert content(tmp_path) == {"notes.txt": b"mine"}


def test_a_damaged_run_json_is_named(folder: RunFolder) -> None:
    (folder.path / "run.json").write_text("{")
    assert "run.json is damaged" in refusal(folder)
