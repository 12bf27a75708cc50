"""`jaxrl edit`: a map from piped keys."""

import io
import sys

import pytest

import jaxrl
from jaxrl.cli import main
from jaxrl.envs.jaxnav import NamedMap


@pytest.fixture
def edit(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    """Type lines, and read what is printed."""

    def typed(text: str, env: str) -> str:
        monkeypatch.setattr(sys, "stdin", io.StringIO(text))
        main(["edit", env])
        return capsys.readouterr().out

    return typed


def test_a_finished_map_comes_with_the_commands_that_use_it(edit):
    out = edit("right, T, T\ndone\n", "overcooked/cramped_room")
    name = "overcooked?layout=XTTXX|O  2O|X1  X|XDXSX"
    assert "has no P (pot)" in out
    assert f"jaxrl edit '{name}'" in out
    assert "jaxrl train" not in out

    out = edit("P, done\n", name)
    name = name.replace("XTTXX", "PTTXX")
    assert f"Train in it: jaxrl train ippo --env '{name}'" in out
    assert f"Play in it: jaxrl play '{name}'" in out
    assert jaxrl.make(name).num_agents == 2


def test_done_waits_until_the_map_can_be_played(edit):
    out = edit("X, X, X\ndone\nleft, P\ndone\nS", "overcooked?layout=XXPXX|O1 2O|X   X|XDXSX")
    assert "Train in it: jaxrl train ippo --env 'overcooked?layout=XXPXX|O1 2O|" in out
    assert "XXPS" not in out  # what comes after `done` is not read


def test_what_means_nothing_is_explained_and_nothing_is_lost(edit):
    out = edit("T, W, q", "overcooked/cramped_room")
    assert "There is no 'W'." in out
    assert "layout=TXPXX" in out


def test_robots_are_trained_in_it_and_not_steered_by_keys(edit):
    out = edit("down, right, #, done", "jaxnav/own?map=#####|#..1#|#a..#|#####")
    assert "--env 'jaxnav/own?map=#####|##.1#|#a..#|#####'" in out
    assert "Play" not in out
    env = jaxrl.make("jaxnav/own?map=#####|##.1#|#a..#|#####")
    assert isinstance(env, NamedMap)
