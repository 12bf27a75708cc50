import base64
import json
import re
from html.parser import HTMLParser
from typing import Any

import numpy as np
import pytest

from jaxrl.render import to_html
from jaxrl.render.html import encode
from jaxrl.render.scene import Picture, Scene
from jaxrl.replay import Replay

pytestmark = pytest.mark.quick


class _Page(HTMLParser):
    """Collects what a browser would load or run."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.scripts: list[str] = []
        self.addresses: list[str] = []
        self.ids: list[str] = []
        self._inside = False
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._inside = tag == "script"
        self.addresses += [v or "" for name, v in attrs if name in ("src", "href", "srcset", "data", "action")]
        self.ids += [v or "" for name, v in attrs if name == "id"]
        if self._inside:
            self.scripts.append("")

    def handle_endtag(self, tag: str) -> None:
        self._inside = False

    def handle_data(self, data: str) -> None:
        if self._inside:
            self.scripts[-1] += data


def _decode(field: Any, data: dict[str, Any]) -> list[Any]:
    """A field of a shape in every frame, as the player reads it."""
    if not isinstance(field, dict):
        return [field] * data["frames"]
    series = data["series"][field["s"]]
    if isinstance(series, list):
        return series
    ends = [*series["at"][1:], data["frames"]]
    return [v for v, start, end in zip(series["to"], series["at"], ends, strict=True) for _ in range(start, end)]


def test_the_page_needs_no_network(replay: Replay) -> None:
    text = to_html(replay)
    page = _Page(text)
    assert page.addresses == []
    assert not re.search(r"(?i)https?:|//[a-z]+\.|url\(|@import|fetch\(|XMLHttpRequest|import\(", text)
    assert {"canvas", "play", "scrub", "speed", "clock", "tip", "captions", "replay"} <= set(page.ids)
    assert "{{" not in text


def test_the_data_in_the_page_is_the_scene(replay: Replay) -> None:
    data, program = _Page(to_html(replay)).scripts  # also: "</script>" in a tip's title ended nothing
    assert "getElementById" in program
    data = json.loads(data)
    assert data == json.loads(json.dumps(encode(replay.scene(), replay.frames_per_step)))
    assert data["frames"] == 2 + 2 * replay.num_steps
    assert data["framesPerStep"] == 2
    circle = next(shape for shape in data["shapes"] if shape["kind"] == "circle")
    assert circle["tip"]["title"] == "walker </script>"
    x = np.array(_decode(circle["x"], data)) * 6.0 / data["width"]
    np.testing.assert_allclose(x[:-1], replay.states["x"], atol=6.0 / data["width"])
    assert _decode(circle["tip"]["rows"]["x"], data)[0] == f"{replay.states['x'][0]:.2f}"
    assert _decode(circle["tip"]["rows"]["name"], data)[-1] == "walker"
    height = data["height"] * 6.0 / data["width"]
    assert circle["y"] == pytest.approx((height - 1.0) * data["width"] / 6.0, abs=1)  # measured from the top
    hidden = next(shape for shape in data["shapes"] if shape["kind"] == "polygon")["alpha"]
    np.testing.assert_array_equal(_decode(hidden, data)[:-1], replay.states["x"] > 1)


def test_equal_series_are_written_once(replay: Replay) -> None:
    data = encode(replay.scene(), replay.frames_per_step)
    moving = [shape["x"]["s"] for shape in data["shapes"] if isinstance(shape["x"], dict)]
    assert len(moving) == 3
    assert len(set(moving)) == 1


def test_pictures_are_addresses_without_a_network(png_of: Any) -> None:
    png = np.array([png_of((255, 0, 0))] * 8 + [png_of((0, 0, 255))], object)
    data = encode(Scene(9, (0.0, 0.0, 1.0, 1.0), (Picture(x=0.0, y=0.0, png=png, width=1.0, height=1.0),)), 1)
    [shape] = data["shapes"]
    assert data["series"][shape["png"]["s"]]["at"] == [0, 8]  # what stays the same is written once
    for address, content in zip(_decode(shape["png"], data), png, strict=True):
        assert base64.b64decode(address.removeprefix("data:image/png;base64,")) == content


def test_the_last_frame_says_how_it_ended(replay: Replay) -> None:
    data = encode(replay.scene(), replay.frames_per_step)
    banner = next(s for s in data["shapes"] if s["kind"] == "text" and s["text"] == replay.outcome.upper())
    assert _decode(banner["alpha"], data) == [0.0] * (data["frames"] - 1) + [1.0]
