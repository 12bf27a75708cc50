"""`jaxrl eject`: one self-contained file, well-formed, whose update equals the library's bit for bit."""

import dataclasses
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import chex
import jax
import numpy as np
import pytest

from jaxrl import algos
from jaxrl.cli import main
from jaxrl.cli.eject import eject
from jaxrl.errors import UnknownNameError
from jaxrl.source_file import load_source

ROOT = Path(__file__).resolve().parents[2]
BOX = "mpe/simple_spread?action_type=continuous"
ENVS: dict[str, str] = {
    **dict.fromkeys(("ppo", "stream_q", "stream_ac"), "classic/cartpole"),
    **dict.fromkeys(("sac", "td3"), BOX),
    "self_play": "matrix/rock_paper_scissors",
}
SMALL: dict[str, Any] = {"num_steps": 8, "total_timesteps": 64, "hidden": (8,)}
FRESH = {"num_envs": 4, "num_minibatches": 2}
REPLAY = {"num_envs": 4, "learning_starts": 8, "buffer_size": 64, "batch_size": 8}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the files of all algorithms are."""
    folder = tmp_path_factory.mktemp("ejected")
    for name in algos.names():
        (folder / f"my_{name}.py").write_text(eject(name))
    return folder


@pytest.fixture(params=algos.names())
def ejected(request: pytest.FixtureRequest, folder: Path) -> tuple[str, Path]:
    """The name of an algorithm, and its file."""
    return request.param, folder / f"my_{request.param}.py"


# Of the two large families of files one each; the others are slow.
FAST = ("mappo", "sac")


@pytest.mark.parametrize("memory", ["none", pytest.param("gru", marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    "name", [name if name in FAST else pytest.param(name, marks=pytest.mark.slow) for name in algos.names()]
)
def test_its_update_equals_the_librarys_bit_for_bit(name: str, folder: Path, memory: str) -> None:
    path = folder / f"my_{name}.py"
    module, mine = algos.load(name), load_source(path)
    streams = name.startswith("stream")
    if memory != "none" and (streams or name in ("sac", "td3")):
        pytest.skip("it learns from single steps")
    learning = {} if streams else REPLAY if hasattr(module.Config, "buffer_size") else FRESH
    fields = {**SMALL, **learning, "env": ENVS.get(name, "probe/death"), "memory": memory, "normalise_obs": True}
    states = []
    for each in (module, mine):
        algo = each.make(each.Config(**fields))
        state, metrics = jax.jit(algo.update)(jax.jit(algo.init)(jax.random.key(0)))
        states.append(jax.tree.map(np.asarray, (state.params, state.opt_state, metrics)))
    chex.assert_trees_all_equal(*states)


def test_it_holds_all_that_is_the_algorithms_own(ejected: tuple[str, Path]) -> None:
    """Only formulas, layers and what environments and algorithms have in common are imported."""
    name, path = ejected
    text = path.read_text()
    assert "jaxrl.algos" not in text.partition("__all__")[0]
    assert "jaxrl.acting" not in text
    mine = load_source(path)
    learning = "objective" if name.startswith("stream") else "loss"
    for word in ("Config", "TrainState", "rollout", learning, "update", "make", "make_train", "main"):
        assert getattr(mine, word).__module__ == mine.__name__, word
    assert {f.name for f in dataclasses.fields(mine.Config)} >= {"env", "lr", "hidden"}


def test_all_are_formatted(folder: Path) -> None:
    # With ruff's own settings, as in a user's folder, and with the width of this project.
    for command in (["check"], ["format", "--check", "--line-length", "120"]):
        python("ruff", *command, "--isolated", ".", cwd=folder)


@pytest.mark.slow
def test_those_of_a_family_are_typed(folder: Path) -> None:
    pyright(folder / f"my_{name}.py" for name in FAST)


@pytest.mark.slow
def test_all_are_typed(folder: Path) -> None:
    pyright(folder.iterdir())


def pyright(files: Iterable[Path]) -> None:
    # Two files are imported from where jaxrl is, so pyright finds it wherever it is installed.
    python("pyright", "--pythonpath", sys.executable, *map(str, sorted(files)), cwd=ROOT)


def python(*module_and_arguments: str, cwd: Path) -> None:
    command = [sys.executable, "-m", *module_and_arguments]
    done = subprocess.run(command, capture_output=True, text=True, cwd=cwd)
    assert done.returncode == 0, done.stdout


def test_a_file_of_ones_own_is_written_again(folder: Path) -> None:
    again = eject(str(folder / "my_stream_ac.py"))
    assert again.count("Written by") == 1


def test_a_wrong_value_gets_the_librarys_sentence(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["train", str(folder / "my_qmix.py"), "--total-timesteps", "2048"]
    with pytest.raises(SystemExit) as exit_info:
        main(command)
    assert exit_info.value.code == 2
    assert capsys.readouterr().err.startswith("jaxrl: learning_starts=10000, or at least 256 steps, is more")


def test_a_bug_in_a_file_keeps_its_traceback(folder: Path) -> None:
    bug = folder / "bug.py"
    bug.write_text((folder / "my_ppo.py").read_text().replace("    check_config(config, Config)", "    int('much')"))
    with pytest.raises(ValueError, match="invalid literal for int"):
        main(["train", str(bug), "--env", "CartPole-v1", "--run-dir", str(folder / "run")])


def test_an_unknown_algorithm_is_told() -> None:
    with pytest.raises(UnknownNameError, match="Did you mean ippo"):
        eject("ipo")
