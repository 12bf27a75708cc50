"""What a person sees."""

import io

import numpy as np
import pytest
from rich.console import Console

import jaxrl
from jaxrl.play import Screen, Session
from jaxrl.play.screen import facts, half_blocks, pixels, with_mark
from jaxrl.render.scene import Caption, Circle, Rect, Scene, Text, Tip

pytestmark = pytest.mark.quick


def shown(session: Session, *, color: bool) -> str:
    console = Console(file=io.StringIO(), width=60, height=30, force_terminal=color, color_system="truecolor")
    console = console if color else Console(file=io.StringIO(), width=60)
    Screen(console).show(session, session.step(session.legal[0]))
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


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
