import itertools
from typing import Any

import numpy as np
import pytest

from jaxrl.environment import Environment
from jaxrl.render import rasterise
from jaxrl.render.scene import Circle, Ellipse, Line, Picture, Polygon, Rect, Scene, Text
from jaxrl.replay import Replay

pytestmark = pytest.mark.quick


def _one(*shapes: object) -> np.ndarray:
    """A black picture of 4 by 2 units, 80 by 40 pixels, with these shapes."""
    return rasterise(Scene(1, (0.0, 0.0, 4.0, 2.0), shapes, background="#000000"), 80)[0]  # type: ignore[arg-type]


def test_frames_are_pictures_that_change_as_things_move(replay: Replay) -> None:
    scene = replay.scene()
    frames = rasterise(scene, 120)
    assert frames.dtype == np.uint8
    assert frames.shape == (scene.num_frames, 60, 120, 3)
    for before, after in itertools.pairwise(frames):
        assert (before != after).any()


def test_shapes_are_where_they_should_be() -> None:
    image = _one(Circle(x=1.0, y=0.5, radius=0.4, fill="#ff0000"))
    assert tuple(image[30, 20]) == (255, 0, 0)  # y is up, 20 pixels a unit
    assert tuple(image[10, 20]) == (0, 0, 0)
    assert np.isclose((image[..., 0] / 255).sum(), np.pi * 8**2, rtol=0.05)
    image = _one(Rect(x=1.0, y=0.0, dx=1.0, dy=0.5, width=1.0, height=1.0, fill="#00ff00"))
    assert image[10:30, 40:60, 1].min() == 255
    assert np.isclose((image[..., 1] / 255).sum(), 400, rtol=0.01)
    image = _one(Ellipse(x=2.0, y=1.0, dx=-1.5, dy=-0.5, width=3.0, height=1.0, fill="#00ff00"))
    assert tuple(image[20, 12]) == tuple(image[11, 40]) == (0, 255, 0)
    assert tuple(image[12, 14]) == (0, 0, 0)  # a corner of its box
    assert np.isclose((image[..., 1] / 255).sum(), np.pi * 30 * 10, rtol=0.02)
    image = _one(Line(x=0.5, y=1.0, dx=3.0, dy=0.0, stroke="#0000ff", stroke_width=0.2))
    assert image[20, 15:65, 2].min() == 255
    assert image[:15].max() == image[26:].max() == 0
    image = _one(Polygon(x=2.0, y=1.0, radius=0.8, sides=4, fill="#ffffff"))
    assert image[20, 27] @ (1, 0, 0) == 255
    assert image[8, 28] @ (1, 0, 0) == 0


def test_text_is_aligned() -> None:
    left = _one(Text(x=2.0, y=1.0, text="HI", size=0.8, align="left"))
    right = _one(Text(x=2.0, y=1.0, text="HI", size=0.8, align="right"))
    assert left[:, :39].max() == 0
    assert left[:, 40:].max() > 200
    assert right[:, 41:].max() == 0
    assert right[:, :40].max() > 200


def test_alpha_blends_and_zero_hides() -> None:
    half = _one(Rect(x=0.0, y=0.0, width=4.0, height=2.0, fill="#ffffff", alpha=0.5))
    assert 126 <= half[20, 40, 0] <= 129
    assert _one(Rect(x=0.0, y=0.0, width=4.0, height=2.0, fill="#ffffff", alpha=0.0)).max() == 0


def test_a_picture_fills_its_place_in_each_frame(png_of: Any) -> None:
    png = np.array([png_of((255, 0, 0)), png_of((0, 0, 255))], object)
    shape = Picture(x=1.0, y=0.5, png=png, width=2.0, height=1.0)
    first, second = rasterise(Scene(2, (0.0, 0.0, 4.0, 2.0), (shape,), background="#000000"), 80)
    assert (first[10:30, 20:60] == (255, 0, 0)).all()
    assert first.sum() == 20 * 40 * 255
    assert tuple(second[20, 40]) == (0, 0, 255)
    faint = _one(Picture(x=1.0, y=0.5, png=png[0], width=2.0, height=1.0, alpha=0.5))
    assert 126 <= faint[20, 40, 0] <= 129


def test_one_state_is_one_picture(walk: Environment, replay: Replay) -> None:
    first = {name: leaf[0] for name, leaf in replay.states.items()}
    image = walk.render(first)
    assert image.dtype == np.uint8
    assert image.shape[1:] == (480, 3)
    np.testing.assert_array_equal(image, walk.render(first))


def test_a_picture_cannot_be_tiny(replay: Replay) -> None:
    with pytest.raises(ValueError, match="at least 16"):
        rasterise(replay.scene(), 3)
