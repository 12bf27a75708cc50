"""Whose code a run folder may have run."""

import importlib
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import toy_algorithm as toy

from jaxrl.algos import ippo
from jaxrl.cli import main
from jaxrl.train.fit import fit
from jaxrl.train.folder import trust
from jaxrl.train.folder.load import load
from jaxrl.train.folder.run_folder import RunFolder, describe_run
from jaxrl.train.folder.trust import UntrustedRunError, known_class, load_code, vouch

MINE = """
import pathlib
from toy_algorithm import *
import dataclasses, toy_algorithm
pathlib.Path("executed").touch()
@dataclasses.dataclass(frozen=True)
class Config(toy_algorithm.Config):
    pass
"""


NAMED = {"env": "CartPole-v1", "config": {}}


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Where a user with a record of their own has an algorithm in a module, and works."""
    (tmp_path / "mine.py").write_text(MINE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("JAXRL_CACHE", "0")
    yield tmp_path
    sys.modules.pop("mine", None)


def made(place: Path) -> Path:
    """The folder of a run that this user has made here."""
    mine = importlib.import_module("mine")
    config = mine.Config()
    fit(mine.make(config), config, "run", quiet=True, pictures=False, eval_episodes=2)
    (place / "executed").unlink()
    return place / "run"


def jaxrl(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    """The exit code of a command and what it says is wrong, where nothing has imported the module yet."""
    sys.modules.pop("mine", None)
    trust._CLASSES.clear()
    trust._TRUSTED.clear()
    try:
        main(arguments)
    except SystemExit as end:
        return int(end.code or 0), capsys.readouterr().err
    return 0, capsys.readouterr().err


def edit(run: Path, **facts: Any) -> None:
    about = json.loads((run / "run.json").read_text())
    (run / "run.json").write_text(json.dumps({**about, **facts}))


def test_the_librarys_own_algorithms_are_no_question(tmp_path: Path) -> None:
    folder = RunFolder.create(tmp_path / "run")
    about = describe_run(ippo.Config(), 1)
    assert vouch(about) == {}
    folder.write(about)
    run = load(folder.path)
    assert run.module is ippo
    assert run.config == ippo.Config()


def test_a_run_that_was_made_here_is_loaded_and_a_strangers_only_with_trust(
    place: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same folder, with and without this user's record of it."""
    run = made(place)
    assert jaxrl(capsys, "eval", "run", "--episodes", "2")[0] == 0
    assert (place / "executed").exists()
    (place / "executed").unlink()
    monkeypatch.setenv("XDG_STATE_HOME", str(place / "another"))
    for command in ("eval", "resume"):
        code, refusal = jaxrl(capsys, command, "run")
        assert code == 2
        assert refusal.startswith("jaxrl: Loading run would execute the module mine"), refusal
        assert "add --trust" in refusal
        assert len(refusal.splitlines()) == 1
    code, said = jaxrl(capsys, "export", "run")  # which needs no code but for one column
    assert code == 0
    assert "charts/learning_rate is left out. Loading run would execute" in said
    assert jaxrl(capsys, "watch", "run", "--once")[0] == 0
    assert jaxrl(capsys, "report", "run")[0] == 0
    assert not (place / "executed").exists()
    assert jaxrl(capsys, "eval", "run", "--episodes", "2", "--trust")[0] == 0
    assert (place / "executed").exists()
    monkeypatch.setenv("XDG_STATE_HOME", str(place / "state"))
    (place / "theirs.py").write_text(MINE)
    edit(run, config_class="theirs:Config")  # the record is of another module
    assert "would execute the module theirs" in jaxrl(capsys, "eval", "run")[1]


@pytest.mark.parametrize(
    ("config_class", "config"),
    [
        ("setuptools._distutils.spawn:spawn", {"cmd": ["touch", "executed"]}),
        ("subprocess:run", {"args": ["touch", "executed"]}),
        ("os:system", {"command": "touch executed"}),
        ("jaxrl.registry:make", {"env_id": "smax/3m"}),
        ("jaxrl.algos.ppo:TrainState", {}),
        ("jaxrl.algos.config.learning:OnPolicyConfig", {}),
        ("../mine:Config", {}),
        ("mine", {}),
        (":", {}),
    ],
)
def test_what_is_no_config_is_neither_imported_nor_called(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, config_class: str, config: dict[str, Any]
) -> None:
    """Not even with trust, wherever it is there already or the name is none."""
    monkeypatch.chdir(tmp_path)
    folder = RunFolder.create(tmp_path / "run")
    folder.write({**describe_run(toy.Config(), 1), "config_class": config_class, "config": config})
    imported = set(sys.modules)
    with pytest.raises(ValueError, match=r"would execute|names .* as its algorithm's config"):
        load(folder.path)
    assert set(sys.modules) == imported
    if config_class.partition(":")[0] in (*imported, "../mine", ""):
        with pytest.raises(ValueError, match=r"names .* as its algorithm's config"):
            load(folder.path, trust=True)
    assert not (tmp_path / "executed").exists()


def test_only_the_librarys_own_classes_are_known() -> None:
    """What this process happens to have imported is a stranger's to name."""
    assert known_class("jaxrl.algos.ppo:Config") is not None
    for name in ("jaxrl.algos.ppo:TrainState", "jaxrl.algos.ppo:", "json.decoder:JSONDecoder", "test_trust:Imported"):
        assert known_class(name) is None


def test_a_trusted_module_that_is_not_there_says_so(tmp_path: Path) -> None:
    about = {**NAMED, "config_class": "no_such_module.inner:Config"}
    with pytest.raises(ImportError, match=r"which cannot be imported here .* put its folder on PYTHONPATH"):
        load_code(about, tmp_path, trust=True)


def test_records_that_cannot_be_kept_or_are_forged_are_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    about = {**NAMED, "config_class": "stranger:Config"}
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file"))
    assert vouch(about) == {}  # training goes on
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    known = vouch(about)
    [record] = (tmp_path / "state").rglob("*.json")
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "forged.json").write_text(record.read_text())
    for number in ("", "0" * 32, "../../../run/forged", known["trust_id"].upper(), known["trust_id"][:-1]):
        with pytest.raises(UntrustedRunError):
            load_code({**about, "trust_id": number}, tmp_path)
    record.write_text("")
    with pytest.raises(UntrustedRunError):
        load_code({**about, **known}, tmp_path)


def test_a_relative_state_folder_could_be_anybodys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", "state")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    vouch({**NAMED, "config_class": "stranger:Config"})
    assert not (tmp_path / "state").exists()
    assert list((tmp_path / "home").rglob("*.json"))
