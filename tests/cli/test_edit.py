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

    def typed(text: str, env: str, *flags: str) -> str:
        monkeypatch.setattr(sys, "stdin", io.StringIO(text))
        main(["edit", env, *flags])
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


def test_a_battle_goes_into_a_file_with_the_commands_that_use_it(edit, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    out = edit("m, right, M, done", "smax/3m")
    assert "Wrote my_battle.txt." in out
    for command in ("jaxrl play", "jaxrl train ippo --env", "jaxrl edit"):
        assert f"{command} smax/my_battle.txt" in out
    text = (tmp_path / "my_battle.txt").read_text()
    assert text.startswith("m: ally marine\nM: enemy marine\nmap:\nm.M...")
    assert jaxrl.make("smax/my_battle.txt").num_agents == 1


def test_a_file_is_replaced_only_by_who_says_so(edit, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    edit("m, M, done", "smax/3m")
    before = (tmp_path / "my_battle.txt").read_text()
    for answer in ("n", "", "done"):
        assert "Replace my_battle.txt?" in edit(f"#, done\n{answer}\n", "smax/my_battle.txt")
    assert (tmp_path / "my_battle.txt").read_text() == before
    assert (tmp_path / "my_battle-2.txt").read_text() != before
    assert (tmp_path / "my_battle-4.txt").exists()
    edit("right, right, #, done\ny\n", "smax/my_battle.txt")
    assert "mM#" in (tmp_path / "my_battle.txt").read_text()


def test_an_unfinished_battle_is_kept_too(edit, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    out = edit("m, done, q", "smax/selfplay", "--out", "maps/mine.txt")
    assert "Go on with it: jaxrl edit 'smax/maps/mine.txt?mode=selfplay'" in out
    assert "jaxrl train" not in out
    assert "mode=selfplay" in edit("M, done\ny\n", "smax/maps/mine.txt?mode=selfplay")


def test_a_page_is_written_to_draw_with_the_mouse(edit, tmp_path):
    out = edit("", "smax/corridor", "--out", str(tmp_path / "battle.html"))
    assert "jaxrl train ippo --env smax/battle.txt" in out
    assert "zone: wall 16 31 16 1 0" in (tmp_path / "battle.html").read_text()


@pytest.mark.parametrize(("env", "out"), [("overcooked/cramped_room", "a.txt"), ("smax/3m", "a.png")])
def test_only_battles_have_a_file(env: str, out: str, capsys):
    with pytest.raises(SystemExit):
        main(["edit", env, "--out", out])
    assert "--out is for battles, such as smax/3m" in capsys.readouterr().err
