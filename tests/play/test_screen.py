"""What a person sees."""

import io
import sys

import numpy as np
import pytest
from rich.console import Console

import jaxrl
from jaxrl.environment import Environment
from jaxrl.play import Screen, Session
from jaxrl.play.screen import facts, half_blocks, pixels, with_mark
from jaxrl.render.scene import Caption, Circle, Rect, Scene, Text, Tip

pytestmark = pytest.mark.quick


def a_console(*, color: bool, no_color: bool = False) -> Console:
    """A terminal of 60 columns that keeps what is printed, or a pipe."""
    if not color:
        return Console(file=io.StringIO(), width=60)
    return Console(
        file=io.StringIO(), width=60, height=30, force_terminal=True, color_system="truecolor", no_color=no_color
    )


def printed(console: Console) -> str:
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def shown(session: Session, *, color: bool, no_color: bool = False, steps: int = 1) -> str:
    console = a_console(color=color, no_color=no_color)
    screen = Screen(console)
    for _ in range(steps):
        screen.show(session, session.step(session.legal[0]))
    return printed(console)


@pytest.fixture
def without_pillow(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("PIL", "PIL.Image"):
        monkeypatch.setitem(sys.modules, module, None)


def test_a_character_shows_two_pixels() -> None:
    picture = np.zeros((3, 2, 3), np.uint8)
    picture[0, 0], picture[1, 0], picture[2, 0] = (255, 0, 0), (0, 255, 0), (0, 0, 255)
    text = half_blocks(picture)
    assert text.plain == "▀▀\n▀▀"
    styles = [(span.style.color.triplet.hex, span.style.bgcolor.triplet.hex) for span in text.spans]  # pyright: ignore
    assert styles == [("#ff0000", "#00ff00"), ("#000000", "#000000"), ("#0000ff", "#0000ff"), ("#000000", "#000000")]


def scene() -> Scene:
    tip = Tip("agent_1, marine", {"health": np.array([45.0, 12.0]), "target": "-"})
    body = Circle(x=3.0, y=1.0, radius=0.2, fill="#00ff00", tip=tip)
    drawn = (Rect(x=0, y=0, width=2.0, height=2.0, fill="#ff0000"), body, Text(x=1.0, y=1.0, text="no", size=1.0))
    gone = Circle(x=1.0, y=1.0, radius=0.1, fill="#00ff00", alpha=np.array([1.0, 0.0]), tip=Tip("dead", {"health": 0}))
    captions = (Caption("Toy"), Caption(np.array(["step 0", "step 1"])))
    return Scene(2, (0.0, 0.0, 4.0, 2.0), (*drawn, gone), captions)


def test_the_last_frame_is_drawn_without_texts_and_fits() -> None:
    picture = pixels(scene(), 40, 30)
    assert picture.shape == (20, 40, 3)
    assert picture[10, 10].tolist() == [255, 0, 0]  # where the text and the dead are
    assert pixels(scene(), 200, 8).shape == (16, 32, 3)


def test_facts_are_the_captions_and_tips_of_the_moment() -> None:
    assert facts(scene()) == ["Toy · step 1", "  agent_1, marine: health 12, target -"]


def test_the_persons_agent_has_a_ring() -> None:
    assert len(with_mark(scene(), "agent_0").shapes) == len(scene().shapes)
    marked = pixels(with_mark(scene(), "agent_1"), 80, 40)
    pink = np.argwhere((marked[..., 0] > 150) & (marked[..., 2] > 150))
    assert len(pink)
    np.testing.assert_allclose(pink.mean(0), (19.5, 59.5), atol=1.0)


def test_the_ring_is_around_the_person() -> None:
    for env_id in ("overcooked/cramped_room", "smax/3m", "mpe/simple_spread", "coin_game", "storm/stag_hunt"):
        session = Session(jaxrl.make(env_id), seat=1)
        drawn = session.scene()
        assert len(with_mark(drawn, session.env.agents[1]).shapes) == len(drawn.shapes) + 1, env_id


def test_colours_are_for_terminals() -> None:
    colored, plain = (shown(Session(jaxrl.make("coin_game")), color=color) for color in (True, False))
    assert "▀" in colored
    assert "▀" not in plain
    for text in ("step 1, you are red, your return", "you: right · blue: "):
        assert text in plain


def test_words_come_instead_of_a_picture_and_hide_what_others_did() -> None:
    text = shown(Session(jaxrl.make("switch_riddle")), color=True)
    assert "▀" not in text
    assert "day 2: you " in text
    assert "agent_1" not in text


def board_of(env_id: str) -> tuple[Session, str]:
    """A game after its first step, and its board."""
    session, twin = Session(jaxrl.make(env_id)), Session(jaxrl.make(env_id))
    twin.step(twin.legal[0])
    return session, str(twin.board())


@pytest.mark.parametrize("env_id", ["overcooked/coord_ring", "overcooked_v2/two_rooms", "coin_game", "storm"])
def test_a_pipe_shows_the_board_in_letters(env_id: str) -> None:
    session, board = board_of(env_id)
    text = shown(session, color=False)
    assert f"step 1\n{board}\nstep 1, you are" in text
    assert len(board.splitlines()) > 3


def test_colours_and_pillow_show_the_picture_instead_of_letters() -> None:
    session, board = board_of("overcooked/cramped_room")
    text = shown(session, color=True)
    assert "▀" in text
    assert board not in text
    assert "agent_1: holds nothing" in text


@pytest.mark.usefixtures("without_pillow")
def test_without_pillow_a_terminal_shows_the_board_and_says_once_what_to_install() -> None:
    session, board = board_of("overcooked/cramped_room")
    text = shown(session, color=True, steps=3)
    assert board in text
    assert text.count('Pictures need Pillow: pip install "jaxrl[viz]"') == 1


@pytest.mark.usefixtures("without_pillow")
@pytest.mark.parametrize("env_id", ["minatar/breakout", "classic/cartpole", "mpe/simple_spread", "smax/3m"])
def test_without_a_board_it_is_said_once_why_there_is_no_picture(env_id: str) -> None:
    for color in (True, False):
        text = shown(Session(jaxrl.make(env_id)), color=color, steps=3)
        assert text.count('Pictures need Pillow: pip install "jaxrl[viz]"\n') == 1
        assert "step 3, you are" in text


def test_without_colours_it_is_said_once_how_to_get_them() -> None:
    text = shown(Session(jaxrl.make("minatar/breakout")), color=False, steps=3)
    assert text.count("Pictures need colours: set FORCE_COLOR=1\n") == 1
    refused = shown(Session(jaxrl.make("minatar/breakout")), color=True, no_color=True, steps=3)
    assert refused.count("Pictures need colours: unset NO_COLOR\n") == 1
    assert "▀" not in refused


def test_a_dumb_terminal_has_no_colours_to_force(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "dumb")
    console = Console(file=io.StringIO(), width=60, force_terminal=True)
    Screen(console).show(Session(jaxrl.make("coin_game")))
    assert "Pictures need colours: set TERM to another terminal than a dumb one\nCoin game" in printed(console)


def test_an_environment_without_a_picture_can_have_a_board(monkeypatch: pytest.MonkeyPatch) -> None:
    env = jaxrl.make("coin_game")
    monkeypatch.setattr(type(env), "draw", Environment.draw)
    assert "R red, B blue" in shown(Session(env), color=True)


def test_a_command_longer_than_the_terminal_stays_in_one_line() -> None:
    console, command = a_console(color=True), f"Another game: jaxrl play {'kitchen ' * 12}--seed 1"
    Screen(console).say(command)
    assert printed(console) == f"{command}\n"
