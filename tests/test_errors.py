"""Commands that end with a path can be typed as they are printed."""

import shlex
from pathlib import Path

import pytest
from toy_runs import run

from jaxrl.cli import main
from jaxrl.errors import shell_path
from jaxrl.train.folder.continuation import finished_message
from jaxrl.train.folder.run_folder import RunFolder

pytestmark = pytest.mark.quick


@pytest.mark.parametrize("path", ["runs/a", "-dash", "--run-dir", "/tmp/my runs/-a", "it's", "~", "runs/-a:0"])
def test_the_word_names_the_same_file_and_is_no_flag(path: str) -> None:
    [word] = shlex.split(shell_path(Path(path)))
    assert not word.startswith("-")
    assert Path(word) == Path(path)


def test_a_folder_that_looks_like_a_flag(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    run(run_dir=Path("-dash"))
    [_, told, *_] = finished_message(RunFolder("-dash")).split("`")
    assert told == "jaxrl eval ./-dash"
    main(["resume", shlex.split(told)[-1]])
    assert "is finished after 80 steps" in capsys.readouterr().out
