"""The player in a real browser: it fits into a laptop's window and a phone's, and its parts agree.

Skipped where there is no Chromium. To look yourself: `jaxrl render RUN --out a.html`, then `chromium --headless
--screenshot=a.png --window-size=1366,650 a.html#frame=12`.
"""

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from jaxrl.render import to_html
from jaxrl.render.scene import Caption, Circle, Ellipse, Line, Picture, Polygon, Rect, Scene, Text, Tip

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium here")

STATES = 21  # of 10 steps, 2 frames each
ASKED = """<script>
const shown = (id) => document.getElementById(id).textContent;
const root = document.documentElement;
document.title = JSON.stringify({
  fits: root.scrollHeight <= innerHeight && root.scrollWidth <= innerWidth,
  clock: shown("clock"), captions: shown("captions"), point: shown("point").trim(),
  slider: [scrub.value / scrub.max, time], shape: canvas.clientWidth / canvas.clientHeight,
});
</script></body>"""


class Square:
    """A film as high as wide, with a banner's frame at its end."""

    title = "square"
    frames_per_step = 2

    def __init__(self, *titles: str) -> None:
        self.titles = titles

    def scene(self) -> Scene:
        x = np.linspace(0.1, 0.9, STATES + 1)
        steps = np.array([f"step {-(-min(frame, STATES - 1) // 2)}" for frame in range(STATES + 1)])
        shapes = tuple(Circle(x=x, y=0.5, radius=0.1, fill="#ffffff", tip=Tip(title, {})) for title in self.titles)
        return Scene(STATES + 1, (0.0, 0.0, 1.0, 1.0), shapes, (Caption("square"), Caption(steps)))


def chromium(page: Path, address: str, width: int, *flags: str) -> str:
    command = [str(CHROMIUM), "--headless", "--no-sandbox", "--disable-gpu", f"--window-size={width},650", *flags]
    command += [f"--user-data-dir={page.parent / 'browser'}", page.as_uri() + address]
    return subprocess.run(command, check=True, capture_output=True, timeout=120, text=True).stdout


def asked(film: Square, folder: Path, frame: int, width: int) -> dict[str, Any]:
    """What the page says of itself at a frame."""
    page = folder / "page.html"
    page.write_text(to_html(film).replace("</body>", ASKED))
    found = re.search("<title>(.*)</title>", chromium(page, f"#frame={frame}", width, "--dump-dom"))
    assert found
    return json.loads(found[1])


@pytest.mark.parametrize(
    ("frame", "width", "clock", "slider"),
    [
        (0, 1366, "step 0 / 10", 0.0),
        (7, 1366, "step 4 / 10", 0.35),
        (20, 600, "step 10 / 10", 1.0),
        (21, 600, "step 10 / 10", 1.0),  # the banner comes after the last step
    ],
)
def test_clock_caption_and_slider_agree_and_all_fits(
    tmp_path: Path, frame: int, width: int, clock: str, slider: float
) -> None:
    page = asked(Square("one", "two", "three"), tmp_path, frame, width)
    assert page["fits"]
    assert page["shape"] == pytest.approx(1.0, abs=0.01)
    assert page["clock"] == clock
    assert page["captions"] == f"square{clock.partition(' /')[0]}"
    assert page["slider"] == [slider, frame]
    assert page["point"] == "point at a unit for details"


@pytest.mark.parametrize(
    ("titles", "words"), [((), ""), (("pole",), "point at the pole"), (("cart", "pole"), "the cart or the pole")]
)
def test_the_help_names_only_what_is_there(tmp_path: Path, titles: tuple[str, ...], words: str) -> None:
    point = asked(Square(*titles), tmp_path, 0, 1366)["point"]
    assert words in point
    assert bool(words) == bool(point)


def test_pictures_in_a_scene_are_painted(tmp_path: Path, png_of: Any) -> None:
    class Painted(Square):
        def scene(self) -> Scene:
            png = np.array([png_of((255, 0, 0)), png_of((0, 255, 0))], object)
            return Scene(2, (0.0, 0.0, 1.0, 1.0), (Picture(x=0.0, y=0.0, png=png, width=1.0, height=1.0),))

    page = tmp_path / "page.html"
    page.write_text(to_html(Painted()))
    chromium(page, "#frame=1", 1366, f"--screenshot={tmp_path / 'a.png'}", "--virtual-time-budget=1000")
    pixels = np.asarray(Image.open(tmp_path / "a.png").convert("RGB"))
    assert tuple(pixels[200, 683]) == (0, 255, 0)


def test_a_pointer_finds_shapes_of_each_kind_where_they_are_seen(tmp_path: Path, png_of: Any) -> None:
    """Far from their anchors, and not beside them."""
    png = png_of((255, 0, 0))
    shapes = (
        Rect(x=0.05, y=0.05, width=0.4, height=0.2, fill="#203040", tip=Tip("rect", {})),
        Line(x=0.1, y=0.9, dx=0.8, dy=0.0, stroke="#ffffff", stroke_width=0.04, tip=Tip("line", {})),
        Circle(x=0.2, y=0.5, radius=0.1, fill="#ff8800", tip=Tip("circle", {})),
        Polygon(x=0.5, y=0.5, radius=0.1, sides=4, fill="#ff8800", tip=Tip("polygon", {})),
        Ellipse(x=0.3, y=0.72, dx=-0.2, dy=-0.05, width=0.4, height=0.1, fill="#ff8800", tip=Tip("ellipse", {})),
        Text(x=0.8, y=0.5, text="a word", size=0.1, tip=Tip("text", {})),
        Picture(x=0.6, y=0.05, png=png, width=0.3, height=0.3, tip=Tip("picture", {})),
        Circle(x=0.25, y=0.15, radius=0.03, fill="#0088ff", tip=Tip("on top", {})),
    )

    class Shapes(Square):
        def scene(self) -> Scene:
            return Scene(2, (0.0, 0.0, 1.0, 1.0), shapes)

    points = {(0.43, 0.22): "rect", (0.85, 0.91): "line", (0.28, 0.5): "circle", (0.5, 0.58): "polygon"}
    points |= {(0.9, 0.5): "text", (0.88, 0.32): "picture", (0.26, 0.15): "on top", (0.57, 0.57): "", (0.5, 0.15): ""}
    points |= {(0.3, 0.75): "ellipse", (0.47, 0.72): "ellipse", (0.105, 0.675): ""}
    asked = """<script>
    const box = canvas.getBoundingClientRect();
    document.title = JSON.stringify(POINTS.map(([x, y]) => {
      const at = { clientX: box.left + x * box.width, clientY: box.top + (1 - y) * box.height };
      canvas.dispatchEvent(new PointerEvent("pointermove", at));
      return tip.style.visibility === "visible" ? tip.querySelector("b").textContent : "";
    }));
    </script></body>""".replace("POINTS", json.dumps(list(points)))
    page = tmp_path / "page.html"
    page.write_text(to_html(Shapes()).replace("</body>", asked))
    found = re.search("<title>(.*)</title>", chromium(page, "#frame=0", 1366, "--dump-dom"))
    assert found
    assert json.loads(found[1]) == list(points.values())
