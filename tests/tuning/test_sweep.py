"""Seeds times hyperparameters: members equal their own runs, groups, points, the command."""

import dataclasses
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import echo
import jax.numpy as jnp
import numpy as np
import pytest
from family import agent_of
from swept import CONFIG, OPTIONS, PPO_CONFIG, TOY, curves, make, sweep_toys

import jaxrl
from jaxrl.algos import ppo
from jaxrl.cli import main
from jaxrl.errors import MissingExtraError
from jaxrl.report import collect
from jaxrl.train.fit import fit
from jaxrl.train.loggers import Logger
from jaxrl.tuning.plan_file import recorded
from jaxrl.tuning.search_space import points, read_space


@pytest.fixture(scope="module")
def ppo_sweep(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """PPO with two learning rates, one entropy bonus drawn, two seeds."""
    folder = tmp_path_factory.mktemp("ppo") / "sweep"
    return jaxrl.sweep(
        ppo, PPO_CONFIG, folder, lr=[1e-3, 1e-2], ent_coef=(1e-4, 1e-1, "log"), samples=1, seeds=[3, 5], **OPTIONS
    )


# Members


def test_every_member_is_its_own_run(ppo_sweep: Any) -> None:
    together = curves(ppo_sweep.run_dir / "group-000")
    for m in (0, 3):
        row = ppo_sweep.table[m]
        config = dataclasses.replace(PPO_CONFIG, lr=row["lr"], ent_coef=row["ent_coef"], seed=row["seed"])
        alone = fit(ppo.make(config), config, **OPTIONS)
        for name, values in together.items():
            own = values if name == "timesteps" else values[:, m]
            np.testing.assert_allclose(own, alone.metrics[name], rtol=1e-4, atol=1e-5, err_msg=name)
        assert alone.evaluation is not None
        assert row["return_mean"] == pytest.approx(alone.evaluation["return_mean"])
    assert not np.allclose(together["losses/total"][:, 0], together["losses/total"][:, 2])  # the rates do something


def test_a_member_can_be_trained_again_by_itself(ppo_sweep: Any) -> None:
    member = jaxrl.load(ppo_sweep.run_dir / "group-000").member(2)
    assert (member.config.lr, agent_of(member.algo).config) == (1e-2, member.config)


def test_the_table_is_tidy_and_kept(ppo_sweep: Any) -> None:
    table = ppo_sweep.table
    names = ["lr", "ent_coef", "seed", "episodes", "return_mean", "return_std", "length_mean", "curve_mean", "diverged"]
    assert [list(row) for row in table] == [names] * 4
    assert [(row["lr"], row["seed"]) for row in table] == [(1e-3, 3), (1e-3, 5), (1e-2, 3), (1e-2, 5)]
    kept = json.loads((ppo_sweep.run_dir / "sweep.json").read_text())
    assert (kept["status"], kept["table"]) == ("finished", table)
    assert ppo_sweep.to_pandas().groupby("lr").seed.count().tolist() == [2, 2]


def test_without_pandas_the_line_that_installs_it_is_named(ppo_sweep: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(MissingExtraError, match="pip install pandas"):
        ppo_sweep.to_pandas()


def test_a_report_shows_each_combination_by_itself(ppo_sweep: Any) -> None:
    groups = collect([ppo_sweep.run_dir])
    assert [(group.label, group.seeds) for group in groups] == [("ppo (lr=0.001)", [3, 5]), ("ppo (lr=0.01)", [3, 5])]
    scores = [row["return_mean"] for row in ppo_sweep.table]
    np.testing.assert_array_equal([group.scores for group in groups], np.reshape(scores, (2, 2)))


def test_the_only_member_of_a_group_is_loaded_with_its_own_hyperparameters(tmp_path: Path) -> None:
    jaxrl.sweep(echo, echo.Config(), tmp_path / "sweep", lr=[1e-2], width=[1, 2], seeds=[3], **OPTIONS)
    for group, width in (("group-000", 1), ("group-001", 2)):
        alone = jaxrl.load(tmp_path / "sweep" / group).member(0)
        assert (alone.config.lr, alone.config.width, alone.config.seed) == (1e-2, width, 3)
        assert float(alone.state.hyperparams.lr) == pytest.approx(1e-2)


def test_a_diverged_member_is_named_and_leaves_the_others_as_they_are(
    ppo_sweep: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    space: dict[str, Any] = {"lr": [1e-3, 1e30], "ent_coef": [ppo_sweep.table[0]["ent_coef"]]}
    result = jaxrl.sweep(ppo, PPO_CONFIG, tmp_path / "sweep", seeds=[3, 5], **space, **OPTIONS)
    assert "seed 3, lr=1e+30, ent_coef=" in capsys.readouterr().err
    assert [row["diverged"] for row in result.table] == [False, False, True, True]
    assert result.table[3]["return_mean"] is None
    for name, values in curves(tmp_path / "sweep" / "group-000").items():
        healthy = curves(ppo_sweep.run_dir / "group-000")[name]
        np.testing.assert_array_equal(values[..., :2], healthy[..., :2], err_msg=name)
    assert result.table[:2] == ppo_sweep.table[:2]


# Groups


def test_all_members_can_start_from_another_run(tmp_path: Path) -> None:
    """With ten updates of 0.25 or 1 on top of its ten of 1. The groups and sweep.json remember it."""
    fit(make(CONFIG), CONFIG, tmp_path / "source", pictures=False, **OPTIONS)
    changed: dict[str, Any] = {"num_envs": [4], "init_from": tmp_path / "source"}
    started = sweep_toys(tmp_path / "sweep", **changed)
    assert [row["win_rate"] for row in started.table] == [1.0] * 4  # without it the slower ones would not win
    about = json.loads((tmp_path / "sweep" / "sweep.json").read_text())
    assert about["init_from"]["run"] == str(tmp_path / "source")
    assert sweep_toys(tmp_path / "sweep", **changed).table == started.table
    with pytest.raises(FileExistsError, match="init_from"):
        sweep_toys(tmp_path / "sweep", num_envs=[4])


def test_a_run_that_cannot_be_started_from_leaves_the_folder_free(tmp_path: Path) -> None:
    """And a sweep that fails on its way says so, to those who watch it."""
    with pytest.raises(FileNotFoundError, match="holds no run"):
        sweep_toys(tmp_path / "sweep", init_from=tmp_path / "nowhere")
    assert not (tmp_path / "sweep").exists()
    with pytest.raises(ZeroDivisionError), recorded(tmp_path / "sweep", "sweep", CONFIG, {}, 1):
        raise ZeroDivisionError
    assert json.loads((tmp_path / "sweep" / "sweep.json").read_text())["status"] == "failed"


def test_static_hyperparameters_make_groups(toy_sweep: Any, toy_folder: Path) -> None:
    abouts = [json.loads(path.read_text()) for path in sorted(toy_folder.glob("*/run.json"))]
    assert [about["config"]["num_envs"] for about in abouts] == [2, 2, 4, 4]
    assert [[own["lr"] for own in about["members"]] for about in abouts] == [[0.25, 0.25], [1.0, 1.0]] * 2
    assert [(row["lr"], row["num_envs"], row["seed"]) for row in toy_sweep.table] == [
        (lr, num_envs, seed) for num_envs in (2, 4) for lr in (0.25, 1.0) for seed in (0, 1)
    ]
    # The toy wins if its parameter has reached 5 in the end; there are 20 updates with 2 environments, 10 with 4.
    assert [row["win_rate"] for row in toy_sweep.table] == [1.0] * 4 + [0.0] * 2 + [1.0] * 2


def test_a_group_is_compiled_once(toy_sweep: Any, toy_folder: Path) -> None:
    seconds = [json.loads(path.read_text())["compile_seconds"] for path in sorted(toy_folder.glob("*/run.json"))]
    assert [s > 0 for s in seconds] == [True, False, True, False]


class Note(Logger):
    """Writes down whom it is told of."""

    def __init__(self) -> None:
        self.told: list[tuple[str, Any]] = []

    def open(self, about: dict[str, Any], folder: Path | None, say: Any) -> None:
        self.told.append(("open", [own["lr"] for own in about["members"]]))

    def close(self, about: dict[str, Any]) -> None:
        self.told.append(("close", about["status"]))


def test_a_logger_is_told_of_one_group_after_the_other() -> None:
    note = Note()
    sweep_toys(None, num_envs=[4], logger=note)
    assert note.told == [("open", [0.25] * 2), ("close", "finished"), ("open", [1.0] * 2), ("close", "finished")]


def test_a_group_that_diverges_as_a_whole_does_not_end_the_sweep(tmp_path: Path) -> None:
    result = sweep_toys(tmp_path / "sweep", lr=[0.0, 1.0], num_envs=[4], seeds=1, max_members=1)
    assert [(row["diverged"], row["win_rate"]) for row in result.table] == [(True, None), (False, 1.0)]
    again = sweep_toys(tmp_path / "sweep", lr=[0.0, 1.0], num_envs=[4], seeds=1, max_members=1)
    assert again.table == result.table


@pytest.mark.slow
def test_seeds_are_spread_over_devices() -> None:
    """By itself: the number of devices is fixed when JAX starts."""
    program = (
        "import jax, jaxrl, swept as t\n"
        "one, two = (jaxrl.sweep(t.TOY, t.CONFIG, lr=[0.25, 1.0], mesh=(n, 1), **t.OPTIONS)"
        " for n in (1, 2))\n"
        "assert len(jax.devices()) == 2 and one.table == two.table, (one, two)"
    )
    flags = f"{os.environ['XLA_FLAGS']} --xla_force_host_platform_device_count=2"
    environment = os.environ | {"XLA_FLAGS": flags, "JAX_PLATFORMS": "cpu", "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]


# Points


def test_lists_are_a_grid() -> None:
    tried = points(CONFIG, {"lr": [1, 2], "sizes": [(1,), (2, 3)]}, samples=8)
    assert tried == [{"lr": lr, "sizes": sizes} for lr in (1.0, 2.0) for sizes in ((1,), (2, 3))]


def test_ranges_are_sampled_alike_every_time() -> None:
    space = {"lr": (1e-4, 1e-2, "log"), "num_envs": [2, 4]}
    tried = points(CONFIG, space, samples=200)
    assert tried == points(CONFIG, space, samples=200)
    rates = np.array([point["lr"] for point in tried])
    np.testing.assert_array_equal(rates[:200], rates[200:])  # each list's value meets the same draws
    assert ((rates >= 1e-4) & (rates <= 1e-2)).all()
    assert 0.4 < (rates < 1e-3).mean() < 0.6  # half of the logarithms
    uniform = np.array([point["lr"] for point in points(CONFIG, {"lr": (0.0, 1.0)}, samples=200)])
    assert 0.4 < (uniform < 0.5).mean() < 0.6
    other_seed = points(dataclasses.replace(CONFIG, seed=1), space, samples=200)
    assert other_seed[0]["lr"] != rates[0]
    with_another = points(CONFIG, {**space, "nan_above": (0.0, 1.0)}, samples=200)
    assert [point["lr"] for point in with_another] == rates.tolist()


@pytest.mark.parametrize(
    ("space", "sentence"),
    [
        ({"gae_lambda": (0.9, 1.1)}, "gae_lambda must lie between 0 and 1, got 1.1"),
        ({"gamma": [0.9, 0.99, 1.01]}, "gamma must lie between 0 and 1, got 1.01"),
    ],
)
def test_what_a_search_could_only_find_out_late_is_refused_at_once(space: Any, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        read_space(ppo.Config(), space)


def test_an_array_is_a_list_of_values() -> None:
    for array in (np.logspace(-4, -2, 3), jnp.array([0.5, 0.25])):
        assert read_space(ppo.Config(), {"lr": array})["lr"] == read_space(ppo.Config(), {"lr": array.tolist()})["lr"]
    assert read_space(ppo.Config(), {"num_envs": np.array([16, 32])})["num_envs"].at(0.9) == 32


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"learning_rate": [1.0]}, "has no hyperparameter 'learning_rate'. Did you mean lr?"),
        ({"seed": [1]}, r"seed is not a hyperparameter: say --num-seeds 8 \(in Python seeds=8 .* --tuning-seeds and"),
        ({"lr": 1.0}, r"lr must be a list of values such as \[1.0\], or a range"),
        ({"lr": []}, "lr has an empty list"),
        ({"lr": ["high"]}, "lr takes numbers, got 'high'"),
        ({"lr": [1.0, 1]}, "lr lists 1.0 twice"),
        ({"lr": (1.0, 0.1)}, "lr needs the lower end of its range first"),
        ({"lr": (0.0, 0.1, "log")}, "there is no logarithm"),
        ({"lr": (0.1, 0.2, "lin")}, r"lr must be \(low, high\) or \(low, high, 'log'\)"),
        ({"num_envs": (1, 8)}, "num_envs cannot be sampled from a range"),
        ({"num_envs": [4, 0]}, "num_envs must be at least 1, got 0"),
        ({"lr": (0.1, 0.2), "samples": 0}, "samples must be a whole number of at least 1"),
        ({"lr": [1.0], "seeds": [1, 1]}, "seeds must be .* different"),
        ({"lr": [1.0], "seeds": [0, 2**32]}, "seeds: each must be a whole number from 0 to 4294967295"),
        ({"lr": [1.0], "samples": 3}, "samples=3 has no effect without a range"),
        ({"lr": [1.0], "log_every": -1}, "log_every must be positive"),
        ({"lr": [1.0], "mesh": (2, 1)}, "mesh.member=2 cannot split 1 member"),
    ],
)
def test_wrong_input_is_explained_before_anything_is_written(
    options: dict[str, Any], sentence: str, tmp_path: Path
) -> None:
    with pytest.raises(ValueError, match=sentence):
        jaxrl.sweep(TOY, CONFIG, tmp_path / "sweep", **{**OPTIONS, **options})
    assert not (tmp_path / "sweep").exists()


def test_members_of_a_run_cannot_differ_in_what_needs_a_program_of_its_own() -> None:
    with pytest.raises(ValueError, match="num_envs cannot differ between members"):
        fit(make(CONFIG), CONFIG, members=[{"seed": 0, "num_envs": 4}], quiet=True)


# The command


@pytest.mark.usefixtures("_toy_command")
def test_the_command_takes_several_values_of_a_flag(capsys: pytest.CaptureFixture[str]) -> None:
    flags = "--lr 0.25 1 --num-seeds 2 --num-envs 4 --sizes 1,2 3 --eval-episodes 8 --max-members 2"
    flags += " --logger tensorboard --logger-per-seed"
    main(["sweep", "toy", *flags.split(), "--run-dir", "swept"])
    out = capsys.readouterr().out
    best = next(line for line in out.splitlines() if "win rate" in line and "diverged" in line)
    assert best.split() == ["lr", "sizes", "win", "rate", "range", "seeds", "diverged"]
    assert "jaxrl report swept" in out
    table = json.loads(Path("swept/sweep.json").read_text())["table"]
    assert [(row["sizes"], row["lr"], row["seed"]) for row in table] == [
        (sizes, lr, seed) for sizes in ([1, 2], [3]) for lr in (0.25, 1.0) for seed in (0, 1)
    ]
    assert len(list(Path("swept").glob("group-*/tensorboard/*"))) == 8


@pytest.mark.usefixtures("_toy_command")
def test_the_command_draws_from_ranges(capsys: pytest.CaptureFixture[str]) -> None:
    flags = "--lr 0.1:2:log --samples 3 --eval-episodes 8 --quiet --run-dir swept"
    main(["sweep", "toy", *flags.split()])
    assert capsys.readouterr().out == ""
    table = json.loads(Path("swept/sweep.json").read_text())["table"]
    assert [row["lr"] for row in table] == [p["lr"] for p in points(CONFIG, {"lr": (0.1, 2.0, "log")}, samples=3)]


@pytest.mark.usefixtures("_toy_command")
@pytest.mark.parametrize(
    ("command", "sentence"),
    [
        ("sweep", "Say which algorithm: jaxrl sweep ALGO"),
        ("sweep to", "There is no algorithm 'to'"),
        ("sweep toy --lr 2:1", "lr needs the lower end of its range first"),
        ("sweep toy --lr 1e:2", "--lr has a range from '1e', which is not a number"),
        ("sweep ppo --num-envs 0 4", "num_envs must be at least 1"),
        ("sweep toy --lrr 1 2", "lrr"),
    ],
)
def test_a_wrong_command_is_explained(command: str, sentence: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exit_info:
        main(command.split())
    assert exit_info.value.code == 2
    assert sentence in capsys.readouterr().err
