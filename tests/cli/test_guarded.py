"""What a command that fails says: the sentence of the error, and the notes of those who saw it pass."""

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
