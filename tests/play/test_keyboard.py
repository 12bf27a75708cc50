"""Keys and lines."""

import io
import os
import pty
import termios
from itertools import islice

import pytest

from jaxrl.play.keyboard import from_keys, from_lines, has_keys

pytestmark = [pytest.mark.quick, pytest.mark.timeout(60)]


def test_lines_hold_moves_between_commas() -> None:
    assert list(from_lines(io.StringIO("up, up,hint red\n\nq"))) == ["up", "up", "hint red", "", "q"]
    assert not has_keys(io.StringIO())


def test_keys_and_arrows_of_a_terminal() -> None:
    """A pseudo-terminal stands for the real one; afterwards it is as it was."""
    ours, theirs = pty.openpty()
    with os.fdopen(theirs, "r") as stream:
        assert has_keys(stream)
        before = termios.tcgetattr(theirs)
        keys = from_keys(stream)
        os.write(ours, b"u")
        assert next(keys) == "u"
        os.write(ours, b"\x1b[A")
        assert next(keys) == "up"
        os.write(ours, b"\x1bOC")
        assert next(keys) == "right"
        os.write(ours, b"i \x1b")
        assert list(islice(keys, 3)) == ["i", " ", "escape"]
        os.write(ours, b"\x04")
        assert list(keys) == []
        assert termios.tcgetattr(theirs) == before
    os.close(ours)
