"""A copy of an algorithm's file: its mistakes are told as the library's, and its bugs keep their traceback."""

from pathlib import Path

import pytest

from jaxrl import algos
from jaxrl.cli import main


def copy(name: str, to: Path, old: str = "", new: str = "") -> str:
    """The path of a copy of an algorithm's file, in which one text is replaced by another."""
    text = Path(str(algos.load(name).__file__)).read_text(encoding="utf-8")
    assert old in text
    to.write_text(text.replace(old, new, 1), encoding="utf-8")
    return str(to)


def test_a_wrong_value_gets_the_librarys_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exit_info:
        main(["train", copy("qmix", tmp_path / "my_qmix.py"), "--total-timesteps", "2048"])
    assert exit_info.value.code == 2
    assert capsys.readouterr().err.startswith("jaxrl: learning_starts=10000, or at least 256 steps, is more")


def test_what_the_file_raises_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    line = "    check_config(config, Config)\n"
    file = copy("ppo", tmp_path / "my_ppo.py", line, f'{line}    raise ValueError("Take more environments.")\n')
    with pytest.raises(SystemExit) as exit_info:
        main(["train", file, "--env", "CartPole-v1", "--run-dir", str(tmp_path / "run")])
    assert exit_info.value.code == 2
    assert capsys.readouterr().err == "jaxrl: Take more environments.\n"


def test_a_bug_keeps_its_traceback(tmp_path: Path) -> None:
    file = copy("ppo", tmp_path / "my_ppo.py", "    check_config(config, Config)\n", "    int('much')\n")
    with pytest.raises(ValueError, match="invalid literal for int"):
        main(["train", file, "--env", "CartPole-v1", "--run-dir", str(tmp_path / "run")])
