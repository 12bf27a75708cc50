"""What kept files import and read: from the run folder, if it was kept, and otherwise it is asked for."""

import sys
from pathlib import Path

import pytest
from own_files import ENV, OPTIONS, forget, write_algorithm

import jaxrl
from jaxrl import algos, source_file
from jaxrl.train.folder.load import load
from jaxrl.train.folder.run_folder import RunFolder
from jaxrl.train.folder.trust import UntrustedRunError
from jaxrl.train.rerun import rerun


@pytest.fixture
def helped(tmp_path: Path) -> Path:
    """A finished run of a file whose functions and whose package import what lies beside it."""
    module = write_algorithm(tmp_path / "mine.py")
    (tmp_path / "game").mkdir()
    (tmp_path / "game" / "rules.py").write_text("from size import START\n")
    (tmp_path / "size.py").write_text("START = 3\n")
    text = f"{ENV}\n    def first(self):\n        from game.rules import START\n\n        return START\n"
    (tmp_path / "my_env.py").write_text(text)
    config = module.Config(env=f"{tmp_path}/my_env.py:Mine", total_timesteps=32)
    jaxrl.fit(module.make(config), config, tmp_path / "run", **OPTIONS)
    forget()
    return tmp_path / "run"


def test_what_a_file_imports_beside_it_is_kept_and_used_as_it_was(
    helped: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    size = helped.parent / "size.py"
    size.write_text("START = 4\n")
    (helped.parent / "game" / "rules.py").unlink()
    about = RunFolder(helped).read()
    assert set(about["sources"]["env"]["beside"]) == {"game/__init__.py", "game/rules.py", "size.py"}
    run = load(helped)
    assert f"{size} has changed since this run was made" in capsys.readouterr().err
    assert getattr(run.env, "first")() == 3  # noqa: B009
    rerun(run, helped.parent / "again", quiet=True)
    assert RunFolder(helped.parent / "again").read()["sources"]["env"]["beside"] == about["sources"]["env"]["beside"]


@pytest.mark.parametrize(("name", "role"), [("mine", "algorithm"), ("my_env", "environment")])
def test_what_is_neither_kept_nor_installed_is_asked_for(
    made: Path, monkeypatch: pytest.MonkeyPatch, name: str, role: str
) -> None:
    """By the file that was kept, whichever part of the run it is."""
    folder, path = made.parent / "elsewhere", made.parent / f"{name}.py"
    folder.mkdir()
    (folder / "found_by_path.py").write_text("x = 1\n")
    path.write_text(f"{path.read_text()}\nimport found_by_path\n")
    with monkeypatch.context() as here:
        here.syspath_prepend(str(folder))
        module = algos.load(made.parent / "mine.py")
        config = module.Config(env=f"{made.parent}/my_env.py:Mine", total_timesteps=32)
        jaxrl.fit(module.make(config), config, made.parent / "again", **OPTIONS)
        forget()
        del sys.modules["found_by_path"]
    says = rf"source/{name}.py, where its {role} is defined, cannot be imported here: No module named 'found_by_path'"
    with pytest.raises(ImportError, match=rf"{says}.* type PYTHONPATH=FOLDER before the command"):
        load(made.parent / "again")
    monkeypatch.syspath_prepend(str(folder))
    assert type(load(made.parent / "again").env).__name__ == "Mine"


@pytest.mark.parametrize("when", ["imported", "made"])
def test_a_data_file_beside_the_original_is_asked_for(tmp_path: Path, when: str) -> None:
    forget()
    read = "(__import__('pathlib').Path(__file__).parent / 'data' / 'start.txt').read_text()"
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "start.txt").write_text("3")
    place = f"    start = {read}\n" if when == "imported" else f"    def __init__(self):\n        self.start = {read}\n"
    (tmp_path / "my_env.py").write_text(ENV.replace("    pass\n", place))
    module = write_algorithm(tmp_path / "mine.py")
    config = module.Config(env=f"{tmp_path}/my_env.py:Mine", total_timesteps=32)
    jaxrl.fit(module.make(config), config, tmp_path / "run", **OPTIONS)
    forget()
    with pytest.raises(FileNotFoundError, match=r"reads data/start.txt, .* keeps no data: copy that file") as told:
        load(tmp_path / "run")
    original, copy = str(told.value).partition(", cp ")[2].split()
    assert original == str(tmp_path / "data" / "start.txt")
    Path(copy).parent.mkdir()
    Path(copy).write_text(Path(original).read_text())
    assert getattr(load(tmp_path / "run").env, "start") == "3"  # noqa: B009


def test_an_edited_helper_is_another_run(helped: Path) -> None:
    (helped.parent / "game" / "rules.py").write_text("START = 5\n")
    module = algos.load(helped.parent / "mine.py")
    config = module.Config(env=f"{helped.parent}/my_env.py:Mine", total_timesteps=32)
    with pytest.raises(FileExistsError, match=r"already holds another run: .*/game/rules.py has changed since"):
        jaxrl.fit(module.make(config), config, helped, resume=True, **OPTIONS)


def test_a_helper_in_the_run_folder_is_executed_only_as_it_was_vouched_for(
    helped: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = helped / "source" / "size.py"
    kept.write_text("raise RuntimeError\n")
    with pytest.raises(ValueError, match=r"source/size.py is not the file that the run was made with"):
        load(helped)
    about = RunFolder(helped).read()
    about["sources"]["env"]["beside"]["size.py"] = source_file.read_source(kept).sha256
    RunFolder(helped).write(about)
    with pytest.raises(UntrustedRunError, match=r"would execute .*source/"):
        load(helped)
    about["sources"]["env"]["beside"]["../../size.py"] = source_file.read_source(helped.parent / "size.py").sha256
    RunFolder(helped).write(about)
    with pytest.raises(ValueError, match=r"has lost the file \.\./\.\./size.py"):
        load(helped, trust=True)


def test_two_helpers_with_one_name_are_refused(helped: Path) -> None:
    """One run folder keeps both, and runs of the two files would be hard to tell apart."""
    other = helped.parent / "other"
    other.mkdir()
    (other / "size.py").write_text("START = 100\n")
    write_algorithm(other / "mine.py")
    (other / "mine.py").write_text((other / "mine.py").read_text() + "\nimport size\n")
    module = algos.load(other / "mine.py")
    config = module.Config(env=f"{helped.parent}/my_env.py:Mine", total_timesteps=32)
    with pytest.raises(ValueError, match=rf"{other}/size.py and {helped.parent}/size.py; rename one"):
        jaxrl.fit(module.make(config), config, helped.parent / "third", **OPTIONS)
