"""`jaxrl levels`, `jaxrl eval --levels`, and what a report makes of it."""

import json
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

import jaxrl
from jaxrl.cli import levels as command
from jaxrl.cli import main
from jaxrl.levels.level_set import LevelSet, make_levels
from jaxrl.train.folder import load
from jaxrl.vector import PoolState

ENV = "classic/cartpole?max_steps=20"
TRAIN = [
    "train",
    "ppo",
    "--env",
    ENV,
    "--num-envs",
    "8",
    "--num-steps",
    "8",
    "--num-minibatches",
    "1",
    "--update-epochs",
    "1",
]
TRAIN += ["--total-timesteps", "64", "--quiet", "--no-pictures", "--eval-episodes", "4"]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "a"
    main([*TRAIN, "--num-seeds", "2", "--reset", "pool", "--run-dir", str(folder)])
    return folder


def fails(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    with pytest.raises(SystemExit) as ended:
        main(list(words))
    assert ended.value.code == 2
    return capsys.readouterr().err


def test_make_show_eval_report(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["levels", "make", ENV, "--count", "20", "--seed", "4", "--out", "sets/twenty.npz"])
    assert capsys.readouterr().out == f"Wrote sets/twenty.npz: 20 levels of {ENV}\n"
    main(["levels", "show", "sets/twenty.npz", "--out", "twenty.png"])
    assert "20 levels of classic/cartpole?max_steps=20, seed 4" in capsys.readouterr().out
    assert Path("twenty.png").stat().st_size > 5000
    main(["eval", str(run), "--levels", "sets/twenty.npz", "--tries", "2"])
    said = capsys.readouterr().out
    assert "20 levels of twenty.npz, 2 sampled episodes of each, twice" in said
    assert "seed 0  seed 1" in said
    # The files agree with each other and with what was said.
    content = json.loads((run / "levels-twenty.json").read_text())
    results = np.array(content["results"])
    assert results.shape == (2, 2, 20)
    assert [row["alpha"] for row in content["curve"]] == [0.5, 1.0]
    by_seed = results[1].mean(1)
    assert content["curve"][-1]["by_seed"] == pytest.approx(by_seed.tolist())
    error = abs(by_seed[0] - by_seed[1]) / 2
    assert content["curve"][-1]["standard_error"] == pytest.approx(error, abs=1e-9)
    assert "100 %      20" in said
    rows = (run / "levels-twenty.csv").read_text().splitlines()
    assert rows[0] == "seed,level,evaluation_0,evaluation_1"
    assert rows[21] == f"1,0,{results[0, 1, 0]},{results[1, 1, 0]}"
    assert (run / "levels-twenty.png").stat().st_size > 5000
    # A seed alone plays the same; another seed of the evaluation does not.
    main(["eval", f"{run}:1", "--levels", "sets/twenty.npz", "--tries", "2", "--out", "alone"])
    assert json.loads(Path("alone/levels-twenty.json").read_text())["results"] == results[:, 1:].tolist()
    main(["eval", f"{run}:1", "--levels", "sets/twenty.npz", "--tries", "2", "--seed", "5", "--out", "alone"])
    assert json.loads(Path("alone/levels-twenty.json").read_text())["results"] != results[:, 1:].tolist()
    main(["report", str(run), "--out", "report"])
    page = Path("report/report.html").read_text()
    assert "<h2>Worst levels</h2>" in page
    assert "worst 50 %" in page
    assert f"{by_seed.mean():.1f} ± {error:.1f}" in page
    assert Path("report/levels.png").exists()
    (run / "levels-twenty.json").unlink()
    main(["report", str(run), "--out", "report"])
    assert "Worst levels" not in Path("report/report.html").read_text()
    assert not Path("report/levels.png").exists()


def test_greedy_is_asked_for(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["levels", "make", ENV, "--count", "3", "--out", "three.npz"])
    main(["eval", str(run), "--levels", "three.npz", "--tries", "2", "--greedy", "--out", "out"])
    said = capsys.readouterr().out
    assert "3 levels of three.npz, 2 greedy episodes of each, twice" in said
    assert "50 %       1" in said
    both = np.array(json.loads(Path("out/levels-three.json").read_text())["results"])
    assert both[0].tolist() == both[1].tolist()  # nothing is left to chance


def test_levels_with_their_own_parameters(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("worlds.py").write_text(
        "import dataclasses, jax\n\n\ndef draw(key, params, progress):\n"
        "    return dataclasses.replace(params, gravity=jax.random.uniform(key))\n"
    )
    main(["levels", "make", ENV, "--count", "4", "--params", "./worlds.py:draw", "--out", "own.npz"])
    main(["levels", "show", "own.npz", "--out", "own.png"])
    assert "4 levels of" in capsys.readouterr().out
    with np.load("own.npz") as file:
        assert len(np.unique(file["[1].own.gravity"])) == 4
    assert "parameters, wrappers or versions differ" in fails(capsys, "eval", str(run), "--levels", "own.npz")


def test_the_starts_of_a_pool(run: Path) -> None:
    main(["levels", "make", "--from", f"{run}:1", "--out", "pool.npz", "--count", "9"])
    opened = load.load(run).member(1)
    found = LevelSet.load("pool.npz", opened.env)
    assert len(found) == 9
    assert found.score is None
    assert np.array_equal(found.starts[0], opened.state.runner.env_state.pool[0][:9, 0])


class Book(NamedTuple):
    score: Any


class LevelState(NamedTuple):
    env: Any
    pool: Any
    book: Book


def test_the_best_levels_that_a_run_keeps_come_first(
    run: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    opened = load.load(run).member(0)
    pool: PoolState = opened.state.runner.env_state
    size = pool.pool[0].shape[0]
    score = np.full(size, -np.inf, np.float32)
    score[[4, 2, 7]] = [0.1, 0.9, -2.0]

    class Loaded:
        def member(self) -> Any:
            return opened

    def put(book: np.ndarray) -> None:
        kept = LevelState(pool.env, pool.pool, Book(book))
        vars(opened)["state"] = type("State", (), {"runner": type("Runner", (), {"env_state": kept})})

    monkeypatch.setattr("jaxrl.cli.levels.load", lambda path, trust: Loaded())
    put(score)
    main(["levels", "make", "--from", "any", "--out", "kept.npz"])
    found = LevelSet.load("kept.npz", opened.env)
    assert found.score is not None
    assert found.score.tolist() == np.array([0.9, 0.1, -2.0], np.float32).tolist()
    assert np.array_equal(found.starts[0], np.asarray(pool.pool[0])[[2, 4, 7], 0])
    main(["levels", "show", "kept.npz"])
    assert "scores from -2 to 0.9" in capsys.readouterr().out
    assert "keeps 3 levels; choose a --count up to that" in fails(
        capsys, "levels", "make", "--from", "any", "--out", "x.npz", "--count", "4"
    )
    put(np.full(size, -np.inf, np.float32))
    assert "keeps 0 levels" in fails(capsys, "levels", "make", "--from", "any", "--out", "x.npz")


def test_mistakes_are_told_in_a_sentence(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make_levels(load.load(run).env, 2).save("two.npz")
    make_levels(jaxrl.make("classic/cartpole"), 2).save("other.npz")
    eval_ = ("eval", str(run), "--levels", "two.npz")
    assert "--tries must be a whole number of at least 1, got 0" in fails(capsys, *eval_, "--tries", "0")
    assert "--episodes and --log-info have no effect with --levels" in fails(capsys, *eval_, "--episodes", "8")
    assert "--log-info have no effect" in fails(capsys, *eval_, "--log-info", "x")
    assert "belong to --levels" in fails(capsys, "eval", str(run), "--tries", "3")
    assert "The level set none.npz cannot be read: No such file" in fails(
        capsys, "eval", str(run), "--levels", "none.npz"
    )
    refused = fails(capsys, "eval", str(run), "--levels", "other.npz")
    assert "levels of classic/cartpole, not of classic/cartpole?max_steps=20:" in refused
    assert "--env classic/cartpole." in refused
    make = ("levels", "make")
    assert "one of them" in fails(capsys, *make, "--out", "x.npz")
    assert "one of them" in fails(capsys, *make, ENV, "--from", str(run), "--out", "x.npz")
    assert "--out" in fails(capsys, *make, ENV)
    assert "got x.zip" in fails(capsys, *make, ENV, "--out", "x.zip")
    assert "count must be at least 1" in fails(capsys, *make, ENV, "--out", "x.npz", "--count", "0")
    assert "--seed and --params have none with it" in fails(
        capsys, *make, "--from", str(run), "--seed", "1", "--out", "x.npz"
    )
    assert "--trust has no effect without --from" in fails(capsys, *make, ENV, "--trust", "--out", "x.npz")
    assert "jaxrl levels mak is nothing. Did you mean make?" in fails(capsys, "levels", "mak")
    assert "--out must end in .png" in fails(capsys, "levels", "show", "two.npz", "--out", "two.gif")


def test_a_run_without_levels_keeps_none(capsys: pytest.CaptureFixture[str]) -> None:
    main(["train", "toy", "--run-dir", "plain", "--quiet", "--eval-episodes", "8", "--no-pictures"])
    assert "was trained without --levels, so it keeps none; use jaxrl levels make" in fails(
        capsys, "levels", "make", "--from", "plain", "--out", "x.npz"
    )


def test_a_set_alone_has_no_code_executed(capsys: pytest.CaptureFixture[str]) -> None:
    made = make_levels(jaxrl.make("classic/cartpole"), 2)
    LevelSet("./evil.py:Env", made.starts, 0).save("evil.npz")
    Path("evil.py").write_text("raise RuntimeError('executed')\n")
    assert "names code of your own; to execute it, add --env ./evil.py:Env" in fails(
        capsys, "levels", "show", "evil.npz"
    )


def test_help_names_every_flag(capsys: pytest.CaptureFixture[str]) -> None:
    main(["levels", "--help"])
    said = capsys.readouterr().out
    for name in ("count", "seed", "params", "from", "trust", "out", "env"):
        assert f"--{name}" in said
    assert command.levels([]) == 0
