"""What a command that fails says: the sentence of the error, and the notes of those who saw it pass."""

import os
import subprocess
import sys

import pytest

from jaxrl import algos
from jaxrl.cli import guarded
from jaxrl.errors import UnknownNameError


def test_the_notes_of_an_error_follow_its_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    def noted() -> int:
        try:
            algos.load("nothing")
        except UnknownNameError as error:
            error.add_note("And this.")
            error.add_note("See JAX_TRACEBACK_FILTERING.")
            raise
        return 0

    with pytest.raises(SystemExit):
        guarded(noted)
    assert capsys.readouterr().err.endswith(" its path, such as ./my_ppo.py. And this.\n")


def test_control_characters_of_a_name_do_not_reach_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        guarded(lambda: algos.load("ppo\x1b[2J\x07\ud800"))  # pyright: ignore[reportArgumentType]
    assert "ppo" in (said := capsys.readouterr().err)
    assert not set("\x1b\x07\ud800") & set(said)


def test_an_encoding_that_lacks_a_character_gets_a_question_mark() -> None:
    """Python's own choice in the C locale keeps undecodable bytes and refuses everything else."""
    env = {**os.environ, "PYTHONUTF8": "0", "LC_ALL": "C"}
    words = [sys.executable, "-m", "jaxrl", "--help"]
    done = subprocess.run(words, env=env, capture_output=True, text=True, check=True)
    assert "jaxrl report RUN? [--out DIR]" in done.stdout
