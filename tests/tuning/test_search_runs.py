"""The runs of a search by themselves: resumed, trained once more, refused."""

import dataclasses
import json
import shutil
from pathlib import Path
from typing import Any

import echo
import pytest
from searches import CONFIG, UPDATES, search, spent

from jaxrl.cli import main
from jaxrl.train.fit import fit
from jaxrl.train.folder.run_folder import RunFolder
from jaxrl.train.rerun import compare_rows
from jaxrl.tuning import PBT


def test_finalists_are_recorded_as_part_of_tuning(evolved: Any) -> None:
    assert spent(evolved.trials) == 8 * 2 * UPDATES
    about = json.loads((evolved.run_dir / "tuning" / "finalists" / "run.json").read_text())
    assert about["tuning_seeds"] == [0, 1]
    assert [own["seed"] for own in about["members"]] == [0, 1, 0, 1]
    lineages = about["population"]["lineages"]
    assert [lineage[-1] for lineage in lineages] == [trial.point for trial in evolved.trials[-2:]]
    assert evolved.lineage in lineages


def kept_of(run: Path) -> dict[str, Any]:
    """What run.json says of the search."""
    about = json.loads((run / "run.json").read_text())
    return {name: about[name] for name in ("tuning_seeds", "test_seeds", "lineage", "members")}


@pytest.mark.usefixtures("_echo_command")
def test_the_test_of_a_search_resumed_by_itself_is_still_that_test(evolved: Any, stopped: Path) -> None:
    kept = kept_of(stopped / "test")
    assert kept["lineage"]["points"][-1] != kept["lineage"]["points"][-2]  # the last quarter has one of its own
    main(["resume", str(stopped / "test"), "--quiet"])
    assert kept_of(stopped / "test") == kept
    after, before = (RunFolder(root / "test") for root in (stopped, evolved.run_dir))
    assert after.read()["evaluation"] == evolved.test
    assert compare_rows(before.metrics.read(), after.metrics.read()).same
    assert search(stopped, method=PBT(generations=4, draw=False), budget=8, log_every=1).test == evolved.test


@pytest.mark.usefixtures("_echo_command")
def test_the_test_of_a_search_trained_once_more_is_the_same(evolved: Any, capsys: pytest.CaptureFixture[str]) -> None:
    main(["rerun", str(evolved.run_dir / "test"), "--run-dir", "again", "--quiet"])
    assert "Reproduced" in capsys.readouterr().out
    assert kept_of(Path("again")) == kept_of(evolved.run_dir / "test")


def test_a_schedule_is_not_lost_by_the_library_either(stopped: Path) -> None:
    about = json.loads((stopped / "test" / "run.json").read_text())
    config = dataclasses.replace(CONFIG, lr=about["config"]["lr"])
    options: dict[str, Any] = {"members": about["members"], "log_every": 1, "eval_episodes": 2, "quiet": True}
    with pytest.raises(FileExistsError, match=r"lineage is .* there and left out here"):
        fit(echo.make(config), config, stopped / "test", resume=True, **options)


@pytest.mark.usefixtures("_echo_command")
@pytest.mark.parametrize("name", ["population", "finalists"])
@pytest.mark.parametrize("command", ["resume", "rerun"])
def test_a_population_is_trained_by_its_search_alone(
    command: str, name: str, stopped: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as exit_info:
        main([command, str(stopped / "tuning" / name)])
    assert exit_info.value.code == 2
    assert "holds the population of a search, and only that search trains it" in capsys.readouterr().err


@pytest.mark.usefixtures("_echo_command")
def test_a_population_is_not_played(stopped: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exit_info:
        main(["eval", str(stopped / "tuning" / "population")])
    assert exit_info.value.code == 2
    assert f"its best is trained again in {stopped / 'test'}." in capsys.readouterr().err


@pytest.mark.usefixtures("_echo_command")
def test_a_rung_goes_no_further_than_its_end(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rung = Path(shutil.copytree(folder / "tuning" / "rung-1", tmp_path / "rung-1"))
    main(["resume", str(rung), "--quiet"])
    about = json.loads((rung / "run.json").read_text())
    assert (about["segment"], about["timesteps"], about["status"]) == ([4, 12], 12, "finished")
    with pytest.raises(SystemExit):
        main(["rerun", str(rung), "--run-dir", str(tmp_path / "other")])
    assert "began with what others had learned in 4 updates" in capsys.readouterr().err
    assert not (tmp_path / "other").exists()
