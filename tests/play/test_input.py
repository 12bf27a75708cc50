"""What a person types means one action, or is explained."""

import io
import os
import pty
import termios
from itertools import islice

import pytest

import jaxrl
from jaxrl.envs.hanabi import Game
from jaxrl.play import Words
from jaxrl.play.input import from_keys, from_lines, has_keys
from jaxrl.spaces import Discrete
from jaxrl.wrappers import as_multi_agent

pytestmark = pytest.mark.quick

KITCHEN = Words(("up", "down", "right", "left", "stay", "interact"))
CAPITALS = Words(("Hint Red", "Hint Blue", "PLAY 1"))
ARCADE = Words(("Up", "Down", "Fire"))
CARDS = Words(jaxrl.make("hanabi/2p").action_names)


@pytest.mark.parametrize(
    ("words", "typed", "name"),
    [
        (KITCHEN, "up", "up"),
        (KITCHEN, "u", "up"),
        (KITCHEN, "Interact", "interact"),
        (KITCHEN, " ", "interact"),
        (KITCHEN, "  sta ", "stay"),
        (CARDS, "hint   red", "hint red"),
        (CARDS, "hr", "hint red"),
        (CARDS, "h1", "hint 1"),
        (CARDS, "d1", "discard 1"),
        (CARDS, "hint w", "hint white"),
        (CARDS, "w", "wait"),
        (Words(("up", "stop", "attack 0", "attack 1")), "1", "attack 1"),
        (Words(("stay", "switch", "tell")), "s", "stay"),
        (Words(("stay", "switch", "tell")), "w", "switch"),
        (Words([str(number) for number in range(12)]), "1", "1"),
        (Words([str(number) for number in range(12)]), "11", "11"),
        (CAPITALS, "Hint Red", "Hint Red"),
        (CAPITALS, "hint  red", "Hint Red"),
        (CAPITALS, "HR", "Hint Red"),
        (CAPITALS, "hr", "Hint Red"),
        (CAPITALS, "pl", "PLAY 1"),
        (ARCADE, "u", "Up"),
        (ARCADE, "U", "Up"),
        (ARCADE, " ", "Fire"),
        (Words(("go", "Go")), "Go", "Go"),
        (Words(("go", "Go")), "go", "go"),
    ],
)
def test_an_action_can_be_typed(words: Words, typed: str, name: str) -> None:
    assert words.names[words.find(typed, range(len(words.names)))] == name


@pytest.mark.parametrize(
    ("words", "typed", "sentence"),
    [
        (KITCHEN, "jump", "There is no 'jump'. You can type up (u), stay (s)."),
        (KITCHEN, "left", "'left' is not possible now. You can type up (u), stay (s)."),
        (KITCHEN, "", "Nothing was typed. You can type up (u), stay (s)."),
        (CARDS, "hint", "'hint' can be hint red, hint yellow"),
        (CARDS, "1", "There is no '1'."),
        (Words(("go", "Go", "up", "do", "in")), "GO", "'GO' can be go, Go."),
        (
            Words(("Up", "Down", "Fire", "Stay", "HINT RED")),
            "x",
            "There is no 'x'. You can type Up (u), HINT RED (hr).",
        ),
    ],
)
def test_what_means_nothing_is_explained(words: Words, typed: str, sentence: str) -> None:
    with pytest.raises(ValueError, match="You can type") as info:
        words.find(typed, [0, 4])
    assert str(info.value).startswith(sentence)


def test_single_keys_are_for_games_where_they_tell_all_actions_apart() -> None:
    assert KITCHEN.single
    assert Words(jaxrl.make("smax/3m").action_names).single
    assert not CARDS.single
    assert not Words([str(number) for number in range(12)]).single
    assert "q" not in Words(("quit", "quiet")).keys


def test_every_action_of_every_game_can_be_typed() -> None:
    for env_id in ("hanabi/4p", "smax/3m", "minatar/seaquest", "mpe/simple_reference", "storm/rock_paper_scissors"):
        env = as_multi_agent(jaxrl.make(env_id))
        space = env.action_space()
        assert isinstance(space, Discrete)
        assert len(set(env.action_names)) == len(env.action_names) == space.n, env_id
        words = Words(env.action_names)
        for action, name in enumerate(words.names):
            assert words.find(name, range(space.n)) == action


@pytest.mark.parametrize("players", [2, 3, 5])
def test_hanabi_names_are_in_the_order_of_its_moves(players: int) -> None:
    """`Game.move` says the same in other words."""
    game = Game(players, 3, 4, 2, 8, 3)
    assert len(game.action_names) == game.wait + 1
    for action, name in enumerate(game.action_names):
        kind, *rest = name.split()
        said = game.move(action, player=1)
        if kind in ("discard", "play"):
            assert said == f"{kind}s card {rest[0]}"
        elif kind == "hint":
            ahead = int(rest[0]) if players > 2 else 1
            value = rest[-1] if rest[-1].isdigit() else rest[-1][0].upper()
            assert said == f"tells player {(1 + ahead) % players} about {value}"
        else:
            assert (name, said) == ("wait", "waits")


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
