"""Seeds times hyperparameters: members equal their own runs, groups, sampling, divergence, going on, the command."""

import dataclasses
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import toy_algorithm as toy

import jaxrl
from jaxrl import algos
from jaxrl.algorithm import Algorithm, Nested, Replicated
from jaxrl.algos import ppo
from jaxrl.cli import main
from jaxrl.errors import MissingExtraError
from jaxrl.report import collect
from jaxrl.train.fit import fit
from jaxrl.train.folder.run_folder import JsonLines, RunFolder
from jaxrl.train.intervals import ChunkSizer
from jaxrl.train.loggers import Logger
from jaxrl.train.metrics import columns
from jaxrl.tuning.search_space import points

# The toy with a learning rate that members may differ in; with lr = 0 its loss is infinite.


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Hyperparams:
    lr: Any


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class State:
    toy: Nested[toy.State]
    hyperparams: Replicated[Hyperparams]

    @property
    def params(self) -> Any:
        return self.toy.params


@dataclasses.dataclass(frozen=True)
class Config(toy.Config):
    @property
    def hyperparams(self) -> Hyperparams:
        return Hyperparams(np.float32(self.lr))


def make(config: Config) -> Algorithm:
    plain = toy.make(config)

    def init(key: jax.Array, hyperparams: Any = None) -> State:
        chosen = config.hyperparams if hyperparams is None else hyperparams
        return State(plain.init(key), jax.tree.map(jnp.float32, chosen))

    def update(state: State) -> Any:
        after, metrics = toy.make(dataclasses.replace(config, lr=state.hyperparams.lr)).update(state.toy)
        return State(after, state.hyperparams), metrics

    def act(state: State, obs: Any, carry: Any = None, key: Any = None, **given: Any) -> Any:
        return plain.act(state.toy, obs, carry, key, **given)

    return Algorithm(init, update, act)


PRESETS = {"default": Config()}
TOY = sys.modules[__name__]
CONFIG = Config()
OPTIONS: dict[str, Any] = {"eval_episodes": 8, "quiet": True}
PPO_CONFIG = ppo.Config(
    env="probe/observation_action", num_envs=4, num_steps=8, total_timesteps=4 * 8 * 3, hidden=(4,), num_shards=1
)


def curves(run: Path) -> dict[str, np.ndarray]:
    """The columns of a run that do not tell the time."""
    table = columns(JsonLines(run / "metrics.jsonl").read())
    return {name: values for name, values in table.items() if name not in ("seconds", "steps_per_second")}


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


@pytest.fixture(scope="module")
def toy_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("toy") / "sweep"


@pytest.fixture(scope="module")
def toy_sweep(toy_folder: Path) -> Any:
    """Two groups of four members, each trained in two halves."""
    return sweep_toys(toy_folder)


def sweep_toys(folder: Path | None, **changed: Any) -> Any:
    options = {"lr": [0.25, 1.0], "num_envs": [2, 4], "seeds": 2, "max_members": 2, **OPTIONS, **changed}
    return jaxrl.sweep(TOY, CONFIG, folder, **options)


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


def test_seeds_are_spread_over_devices() -> None:
    """By itself: the number of devices is fixed when JAX starts."""
    program = (
        "import jaxrl, test_sweep as t\n"
        "one, two = (jaxrl.sweep(t.TOY, t.CONFIG, lr=[0.25, 1.0], mesh=(n, 1), **t.OPTIONS)"
        " for n in (1, 2))\n"
        "assert len(t.jax.devices()) == 2 and one.table == two.table, (one, two)"
    )
    flags = f"{os.environ['XLA_FLAGS']} --xla_force_host_platform_device_count=2"
    environment = os.environ | {"XLA_FLAGS": flags, "JAX_PLATFORMS": "cpu", "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]


# Going on


def test_what_is_finished_is_not_run_again(toy_sweep: Any, toy_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("jaxrl.tuning.member_groups.fit", None)
    assert sweep_toys(toy_folder).table == toy_sweep.table


def test_a_stopped_sweep_goes_on_where_it_was(
    toy_sweep: Any, toy_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ChunkSizer, "next", lambda self, limit: 1)
    folder, rows = tmp_path / "sweep", []

    def on_row(row: dict[str, Any]) -> None:
        rows.append(row)
        if len(rows) == 30:  # the first two runs have 20 updates, so this is in the middle of the second
            os.kill(os.getpid(), signal.SIGTERM)

    with monkeypatch.context() as patch:
        patch.setattr(
            "jaxrl.tuning.member_groups.fit", lambda *args, **options: fit(*args, **options, callbacks=[on_row])
        )
        stopped = sweep_toys(folder, log_every=1)
    assert stopped.stopped == "SIGTERM"
    assert stopped.table == toy_sweep.table[:2]
    assert json.loads((folder / "sweep.json").read_text())["status"] == "stopped"
    assert 30 <= len(rows) < 35
    whole = sweep_toys(folder, log_every=1)
    assert whole.table == toy_sweep.table
    for run in sorted(folder.glob("group-*")):
        for name, values in curves(run).items():
            np.testing.assert_array_equal(values, curves(toy_folder / run.name)[name])


def test_a_group_without_a_checkpoint_begins_anew(
    toy_sweep: Any, toy_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = shutil.copytree(toy_folder, tmp_path / "sweep")
    about = json.loads((folder / "group-003" / "run.json").read_text())
    (folder / "group-003" / "run.json").write_text(json.dumps({**about, "status": "running"}))
    shutil.rmtree(folder / "group-003" / "checkpoints")
    rows = (folder / "group-003" / "metrics.jsonl").read_bytes()
    assert sweep_toys(folder).table == toy_sweep.table
    assert "group-003 was interrupted before its first checkpoint, so it begins anew" in capsys.readouterr().err
    assert (folder / "group-003" / "interrupted-1" / "metrics.jsonl").read_bytes() == rows


def test_another_sweep_does_not_continue_this_one(toy_sweep: Any, toy_folder: Path) -> None:
    with pytest.raises(FileExistsError) as error:
        sweep_toys(toy_folder, lr=[0.5], seeds=3, eval_episodes=4)
    for text in (
        "already holds another sweep: space.lr.values is [0.25, 1.0] there and [0.5] here",
        "seeds is [0, 1] there and [0, 1, 2] here",
        "eval_episodes is 8 there and 4 here",
        f"continue that one with its own command: {json.loads((toy_folder / 'sweep.json').read_text())['command']}",
    ):
        assert text in str(error.value)
    other = dataclasses.replace(CONFIG, act_from=4.0)
    with pytest.raises(FileExistsError, match=r"act_from is 5.0 there and 4.0 here"):
        jaxrl.sweep(TOY, other, toy_folder, lr=[0.25, 1.0], num_envs=[2, 4], seeds=2, max_members=2, **OPTIONS)


def test_how_often_to_save_may_change(toy_sweep: Any, toy_folder: Path) -> None:
    again = sweep_toys(toy_folder, checkpoint_every_updates=5, checkpoint_every_minutes=1.0, mesh=(1, 1))
    assert again.table == toy_sweep.table
    kept = json.loads((toy_folder / "sweep.json").read_text())
    assert (kept["checkpoint_every_updates"], kept["status"]) == (5, "finished")
    assert kept["resumed"] >= 1


def test_a_group_of_other_members_is_refused_and_left_as_it_is(
    toy_sweep: Any, toy_folder: Path, tmp_path: Path
) -> None:
    folder = shutil.copytree(toy_folder, tmp_path / "sweep")
    file = folder / "group-001" / "run.json"
    about = json.loads(file.read_text())
    about["members"][1]["lr"] = 0.75
    file.write_text(json.dumps(about))
    with pytest.raises(FileExistsError, match=r"member 1 is seed 1, lr=0\.75 there and seed 1, lr=1 here"):
        sweep_toys(folder)
    assert json.loads(file.read_text()) == about


def test_a_second_process_leaves_a_sweep_that_goes_on_alone(tmp_path: Path) -> None:
    """The first is then killed, which is no obstacle: its group goes on where its newest checkpoint is."""
    group = tmp_path / "swept" / "group-000"

    code = "import sys; from jaxrl import algos, cli; algos._MODULES['toy'] = 'toy_algorithm'; cli.main(sys.argv[1:])"
    flags = "--sizes 1,2 3 --total-timesteps 8000000 --work 32 --log-every 20 --checkpoint-every-updates 40"

    def sweep() -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-c", code, "sweep", "toy", *flags.split(), "--run-dir", "swept", "--quiet"],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": f"{Path(toy.__file__).parent}:{os.environ.get('PYTHONPATH', '')}"},
            text=True,
            stderr=subprocess.PIPE,
        )

    first = sweep()
    until = time.monotonic() + 300
    while not list(group.glob("checkpoints/[0-9]*")) and first.poll() is None and time.monotonic() < until:
        time.sleep(0.05)
    place = group.stat().st_ino
    second = sweep()
    _, said = second.communicate(timeout=300)
    assert second.returncode == 2
    assert f"Another process is training in swept: process {first.pid} on {socket.gethostname()}, since" in said
    assert first.poll() is None
    assert group.stat().st_ino == place
    first.kill()
    first.communicate(timeout=60)
    saved = set(group.glob("checkpoints/[0-9]*"))
    third = sweep()
    # A new checkpoint shows that it trains, so the signal finds its handler in place.
    while not set(group.glob("checkpoints/[0-9]*")) - saved and third.poll() is None and time.monotonic() < until:
        time.sleep(0.05)
    third.terminate()
    _, said = third.communicate(timeout=300)
    assert third.returncode == 75, said
    assert "Continues after update" in (group / "events.jsonl").read_text()
    assert not list(group.glob("interrupted-*"))


def test_a_sweep_is_no_single_run(toy_sweep: Any, toy_folder: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"holds a sweep, not one run: name a run in it such as .*group-000"):
        RunFolder.open(toy_folder)


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
    ("options", "sentence"),
    [
        ({"lrr": [1.0]}, "has no hyperparameter 'lrr'. Did you mean lr"),
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
        ({"lr": (0.1, 0.2), "samples": 0}, "samples must be at least 1"),
        ({"lr": [1.0], "seeds": 0}, "seeds must be a number of at least 1"),
        ({"lr": [1.0], "seeds": [1, 1]}, "seeds must be .* different"),
        ({"lr": [1.0], "seeds": [0, 2**32]}, "seeds: each must be a whole number from 0 to 4294967295"),
        ({"lr": [1.0], "samples": 3}, "samples=3 has no effect without a range"),
        ({"lr": [1.0], "max_members": 0}, "max_members must be at least 1"),
        ({"lr": [1.0], "eval_episodes": 0}, "eval_episodes must be at least 1"),
        ({"lr": [1.0], "log_every": -1}, "log_every must be positive"),
        ({"lr": [1.0], "mesh": (2, 1)}, "mesh.member=2 cannot split 1 seed"),
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


@pytest.fixture
def _toy_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, Config.__module__, TOY)
    monkeypatch.setitem(algos._MODULES, "toy", Config.__module__)
    monkeypatch.setenv("JAXRL_CACHE", "0")


@pytest.mark.usefixtures("_toy_command")
def test_the_command_takes_several_values_of_a_flag(capsys: pytest.CaptureFixture[str]) -> None:
    flags = "--lr 0.25 1 --num-seeds 2 --num-envs 4 --sizes 1,2 3 --eval-episodes 8 --max-members 2"
    flags += " --logger tensorboard --logger-per-seed"
    main(["sweep", "toy", *flags.split(), "--run-dir", "swept"])
    out = capsys.readouterr().out
    best = next(line for line in out.splitlines() if "win rate" in line and "of seeds" in line)
    assert best.split() == ["lr", "sizes", "win", "rate", "of", "seeds", "seeds", "diverged"]
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
        ("sweep toy --lr 1e:2", "--lr has a range from '1e', which is no number"),
        ("sweep ppo --num-envs 0 4", "num_envs must be at least 1"),
        ("sweep toy --lrr 1 2", "lrr"),
    ],
)
def test_a_wrong_command_is_explained(command: str, sentence: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exit_info:
        main(command.split())
    assert exit_info.value.code == 2
    assert sentence in capsys.readouterr().err
