"""`jaxrl arena` and `jaxrl report --arena`: the seeds of a run against each other."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

import jaxrl
from jaxrl.algos import ippo
from jaxrl.cli import main
from jaxrl.report.arena import between_runs

GAME = ["--env", "matrix/rock_paper_scissors", "--num-envs", "16", "--num-steps", "4", "--total-timesteps", "64"]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two seeds of rock, paper, scissors."""
    path = tmp_path_factory.mktemp("runs") / "duel"
    quick = ["--hidden", "4", "--num-seeds", "2", "--quiet", "--eval-episodes", "8", "--no-pictures"]
    main(["train", "self_play", *GAME, *quick, "--run-dir", str(path)])
    return path


def test_an_arena_of_the_seeds_of_a_run(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    pytest.importorskip("matplotlib")
    main(["arena", str(run), "--games", "32", "--out", str(tmp_path / "arena")])
    found = json.loads((tmp_path / "arena" / "arena.json").read_text())
    assert found["names"] == ["duel:0", "duel:1"]
    matrix, results = found["matrix"], found["results"]
    assert matrix[0][1] + matrix[1][0] == pytest.approx(1)
    assert sum(results[0][1]) == sum(results[1][0]) == 32
    assert "| duel:0 |" in capsys.readouterr().out
    assert (tmp_path / "arena" / "arena.png").stat().st_size > 1000


def test_one_seed_alone_has_nobody_to_play(run: Path, capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit):
        main(["arena", f"{run}:1"])
    assert "An arena needs two contenders" in capsys.readouterr().err


def test_runs_of_the_same_name_are_told_apart_and_nobody_plays_itself(run: Path, tmp_path: Path):
    other = tmp_path / "other" / "duel"
    shutil.copytree(run, other)
    arena = between_runs([f"{run}:1", f"{other}:0"], games=8)
    assert arena.names == (f"{run.parent.name}/duel:1", "other/duel:0")
    with pytest.raises(ValueError, match="duel takes part twice"):
        between_runs([f"{run}:1", run], games=8)


def test_an_arena_takes_parameters_and_teams_of_the_first_run(tmp_path: Path):
    """Here the first player always wins; and agents that earn for themselves are one team by --shared-reward."""
    worlds = tmp_path / "worlds.py"
    worlds.write_text(
        "from jax import tree\n\ndef draw(key, params, progress):\n    return tree.map(lambda x: x * 0 + 1, params)\n"
    )
    quick = {"num_envs": 4, "num_steps": 4, "total_timesteps": 16, "hidden": (4,), "num_minibatches": 1}
    config = ippo.Config(env="matrix/rock_paper_scissors", params=f"{worlds}:draw", **quick)
    played = ippo.Config(env="mpe/simple_spread", shared_reward=True, **quick)
    for name, own in (("drawn", config), ("team", played)):
        jaxrl.fit(ippo.make(own), own, tmp_path / name, num_seeds=2, eval_episodes=4, pictures=False, quiet=True)
    arena = between_runs([tmp_path / "drawn"], games=8)
    assert arena.env == "matrix/rock_paper_scissors"
    assert arena.results[0, 1].tolist() == arena.results[1, 0].tolist() == [8, 0, 0]
    team = between_runs([tmp_path / "team"], games=8)
    assert not team.competitive
    assert np.isfinite(team.matrix).all()


def test_a_report_of_a_sweep_with_an_arena(tmp_path: Path):
    pytest.importorskip("matplotlib")
    quick = ["--hidden", "4", "--quiet", "--eval-episodes", "8"]
    sweep = tmp_path / "sweep"
    main(["sweep", "ippo", *GAME, *quick, "--lr", "1e-3", "1e-2", "--num-minibatches", "1", "--run-dir", str(sweep)])
    main(["report", str(sweep), "--arena", "--out", str(tmp_path / "report")])
    assert "<h2>Arena</h2>" in (tmp_path / "report" / "report.html").read_text()


def test_a_report_with_an_arena(run: Path, tmp_path: Path):
    pytest.importorskip("matplotlib")
    main(["report", str(run), "--arena", "--out", str(tmp_path / "report")])
    page = (tmp_path / "report" / "report.html").read_text()
    assert "<h2>Arena</h2>" in page
    assert "weight in the equilibrium" in page
    assert "512 games of each pair on both sides, in matrix/rock_paper_scissors." in page
    assert (tmp_path / "report" / "arena.png").is_file()
