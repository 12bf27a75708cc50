"""Runs of the user's own files: the copy in the run folder is what later commands use, if it may be executed."""

import dataclasses
import re
import sys
from pathlib import Path
from typing import Any

import chex
import jax
import pytest
import toy_algorithm
from own_files import ENV, OPTIONS, forget, write_algorithm

import jaxrl
from jaxrl import algos, registry, source_file
from jaxrl.algos import ippo, ppo
from jaxrl.cli import main
from jaxrl.train.folder.load import load
from jaxrl.train.folder.run_folder import RunFolder
from jaxrl.train.folder.sources import not_loadable, own_loss
from jaxrl.train.folder.trust import UntrustedRunError
from jaxrl.train.pictures import title_of
from jaxrl.train.rerun import repeated, rerun
from jaxrl.wrappers import FixedPolicies, players


def test_the_run_folder_tells_and_keeps_the_files(made: Path) -> None:
    about = RunFolder(made).read()
    assert about["algorithm"] == "mine"
    assert about["env"] == about["config"]["env"] == "source/my_env.py:Mine"
    assert title_of(about).startswith("mine on my_env.py:Mine")  # as a replay has it, whose environment may be the copy
    assert {role: source["file"] for role, source in about["sources"].items()} == {
        "algorithm": "source/mine.py",
        "env": "source/my_env.py",
    }
    for source in about["sources"].values():
        assert source_file.read_source(made / source["file"]).sha256 == source["sha256"]


def test_another_process_uses_the_kept_files_and_says_if_the_originals_differ(
    made: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (made.parent / "mine.py").write_text("raise RuntimeError('the new version must not run')\n")
    (made.parent / "my_env.py").unlink()
    run = load(made)
    assert (type(run.env).__name__, run.env.name) == ("Mine", "my_env.py:Mine")
    assert f"{made.parent / 'mine.py'} has changed since this run was made" in capsys.readouterr().err
    state = run.state
    again = rerun(run, made.parent / "again", quiet=True)
    chex.assert_trees_all_equal(state.params, again.state.params)
    assert RunFolder(made.parent / "again").read()["sources"]["env"]["sha256"] == run.about["sources"]["env"]["sha256"]


def test_a_run_is_continued_with_its_kept_files(tmp_path: Path) -> None:
    module = write_algorithm(tmp_path / "mine.py")
    (tmp_path / "my_env.py").write_text(ENV)
    config = module.Config(env=f"{tmp_path}/my_env.py:Mine")
    shared = {**OPTIONS, "checkpoint_every_updates": 2}
    whole = jaxrl.fit(module.make(config), config, tmp_path / "whole", **shared)
    jaxrl.fit(module.make(config), config, tmp_path / "run", callbacks=[lambda row: row["timesteps"] >= 40], **shared)
    forget()
    (tmp_path / "my_env.py").write_text("raise RuntimeError\n")
    run = load(tmp_path / "run")
    done = jaxrl.fit(run.algo, run.config, run.folder.path, **{**repeated(run), "resume": True, "quiet": True})
    chex.assert_trees_all_equal(done.state.params, whole.state.params)


def test_a_changed_file_is_another_run(made: Path) -> None:
    path = made.parent / "mine.py"
    path.write_text(path.read_text() + "\n# another version\n")
    module = algos.load(path)
    config = module.Config(env=f"{made.parent}/my_env.py:Mine", total_timesteps=32)
    with pytest.raises(FileExistsError, match=r"already holds another run: .*mine.py has changed since"):
        jaxrl.fit(module.make(config), config, made, resume=True, **OPTIONS)


def test_a_strangers_run_executes_nothing_without_trust(
    made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    canary = tmp_path / "executed"
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "elsewhere"))
    for name in ("mine", "my_env"):
        place = made / "source" / f"{name}.py"
        place.write_text(f"import pathlib; pathlib.Path({str(canary)!r}).touch()\n" + place.read_text())
    with pytest.raises(ValueError, match="is not the file that the run was made with"):
        load(made)
    assert not canary.exists()


def test_without_a_record_of_this_user_the_files_are_not_executed(
    made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "elsewhere"))
    with pytest.raises(UntrustedRunError, match=r"would execute .*source/mine.py.* --trust"):
        load(made)
    assert not source_file._KNOWN
    assert type(load(made, trust=True).env).__name__ == "Mine"


def test_an_environment_from_a_file_needs_trust_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from jaxrl.algos import ppo

    (tmp_path / "my_env.py").write_text(ENV)
    sizes = {"num_envs": 4, "num_steps": 4, "total_timesteps": 32, "hidden": (4,)}
    config = ppo.Config(env=f"{tmp_path}/my_env.py:Mine", **sizes)
    jaxrl.fit(ppo.make(config), config, tmp_path / "run", **OPTIONS)
    forget()
    assert type(load(tmp_path / "run").env).__name__ == "Mine"
    forget()
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "elsewhere"))
    with pytest.raises(UntrustedRunError, match=r"source/my_env.py, where its environment is defined.*--trust"):
        load(tmp_path / "run")


def test_trust_goes_for_the_runs_that_policies_met_as_well(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A stranger's policy as a partner, in a run of one's own: while it trains, and when it is loaded again."""
    monkeypatch.chdir(tmp_path)
    Path("my_game.py").write_text("from jaxrl.envs.matrix import MatrixGame\n\n\nclass Mine(MatrixGame):\n    pass\n")
    sizes = {"num_envs": 4, "num_steps": 4, "total_timesteps": 32, "hidden": (4,)}
    theirs = ippo.Config(env="./my_game.py:Mine", **sizes)
    jaxrl.fit(ippo.make(theirs), theirs, "theirs", **OPTIONS)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "elsewhere"))
    words = [*("train", "ippo", "--env", "matrix/rock_paper_scissors", "--policies", "player_1=./theirs"), "--quiet"]
    words += ["--num-envs", "4", "--num-steps", "4", "--total-timesteps", "32", "--hidden", "4", "--run-dir", "mine"]
    words += ["--eval-episodes", "4", "--no-pictures"]
    forget()
    with pytest.raises(SystemExit):
        main(words)
    assert re.search(r"would execute .*my_game.py.* add --trust \(in Python, jaxrl.load\(", capsys.readouterr().err)
    with pytest.raises(SystemExit):
        main([*words[:4], "--trust"])
    assert "--trust needs a run" in capsys.readouterr().err
    main([*words, "--trust"])
    forget()
    players._of_run_as_of.cache_clear()
    with pytest.raises(ValueError, match=r"would execute .*my_game.py"):
        load("mine")
    assert isinstance(load("mine", trust=True).env, FixedPolicies)


def test_a_loss_given_in_python_is_never_replaced_by_the_algorithms_own(tmp_path: Path) -> None:
    def my_loss(agent: Any, h: Any, params: Any, batch: Any) -> Any:
        return ppo.loss(agent, h, params, batch)

    config = ppo.Config(num_envs=4, num_steps=4, total_timesteps=32, hidden=(4,), num_minibatches=1)
    algo, options = ppo.make(config, loss=my_loss), {**OPTIONS, "run_dir": tmp_path / "run"}
    jaxrl.fit(algo, config, **options)
    run = load(tmp_path / "run")
    assert run.about["loss"].endswith("my_loss")
    with pytest.raises(ValueError, match=r"learns by .*my_loss, a loss that only Python can pass: call fit"):
        repeated(run)
    longer = dataclasses.replace(config, total_timesteps=64)
    with pytest.raises(FileExistsError, match=r"holds another run: loss is .* and left out here"):
        jaxrl.fit(ppo.make(longer), longer, resume=True, **options)
    jaxrl.fit(ppo.make(longer, loss=my_loss), longer, resume=True, **options)
    assert own_loss(ppo.make(config), config) is None


def test_what_no_other_process_can_load_is_said_while_it_can_be_mended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    env = toy_algorithm.Countdown()
    config = toy_algorithm.Config(env=registry.name_of(env), total_timesteps=32)
    jaxrl.fit(toy_algorithm.make(config), config, tmp_path / "run", **OPTIONS)
    said = [row["text"] for row in RunFolder(tmp_path / "run").events.read() if row["kind"] == "not_loadable"]
    assert len(said) == 1
    assert "Countdown is defined only here" in said[0]
    assert 'env="./my_env.py:Countdown"' in said[0]
    monkeypatch.delattr(sys.modules["__main__"], "__file__", raising=False)  # as in a notebook
    Config = type("Config", (ppo.Config,), {"__module__": "__main__"})
    assert "its algorithm is defined only here" in not_loadable(Config())[0]
    assert not_loadable(ppo.Config()) == []


NET = """\
import flax.linen as nn


class Net(nn.Module):
    @nn.compact
    def __call__(self, x):
        return nn.relu(nn.Dense(3)(x))
"""


def test_a_network_of_ones_own_is_kept_and_found_again(tmp_path: Path) -> None:
    (tmp_path / "my_net.py").write_text(NET)
    tiny: Any = {"num_envs": 2, "num_steps": 4, "num_minibatches": 1, "update_epochs": 1, "total_timesteps": 16}
    config = ppo.Config(env="probe/constant_reward", network=f"{tmp_path}/my_net.py:Net", **tiny)
    result = jaxrl.fit(ppo.make(config), config, tmp_path / "run", **OPTIONS)
    names = [jax.tree_util.keystr(path) for path, _ in jax.tree_util.tree_leaves_with_path(result.state.params)]
    assert sum("Net_0" in name and "kernel" in name for name in names) == 2  # of the policy and of the critic
    about = RunFolder(tmp_path / "run").read()
    assert about["config"]["network"] == "source/my_net.py:Net"
    (tmp_path / "my_net.py").unlink()
    forget()
    run = load(tmp_path / "run")
    assert run.config.network == str(tmp_path / "run" / "source" / "my_net.py:Net")
    chex.assert_trees_all_equal(run.state.params, result.state.params)
    RunFolder(tmp_path / "run").write({name: value for name, value in about.items() if name != "trust_id"})
    forget()
    with pytest.raises(UntrustedRunError, match=r"source/my_net.py, where its network is defined"):
        load(tmp_path / "run")
    with pytest.raises(ValueError, match=r"hidden=.* has no effect with network="):
        dataclasses.replace(config, hidden=(7,)).make_env()
