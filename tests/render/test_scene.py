import numpy as np
import pytest

from jaxrl.render.scene import Circle, Polygon, Scene, Text, at, resample

pytestmark = pytest.mark.quick


def _scene(**fields: object) -> Scene:
    circle = Circle(x=np.array([0.0, 1.0, 2.0]), y=5.0, radius=1.0, fill=np.array(["#000000", "#111111", "#222222"]))
    circle = Circle(**{**vars(circle), **fields})
    text = Text(x=0.0, y=0.0, text=np.array(["a", "b", "c"]), size=1.0)
    return Scene(3, (0.0, 0.0, 4.0, 4.0), (circle, text))


def test_numbers_are_interpolated_and_all_else_holds() -> None:
    circle, text = resample(_scene(), np.array([0.0, 0.25, 1.5, 2.0])).shapes
    np.testing.assert_allclose(circle.x, [0.0, 0.25, 1.5, 2.0])
    assert circle.y == 5.0
    assert isinstance(circle, Circle)
    assert isinstance(text, Text)
    assert circle.fill is not None
    assert list(circle.fill) == ["#000000", "#000000", "#111111", "#222222"]
    assert list(text.text) == ["a", "a", "b", "c"]


def test_a_shape_does_not_slide_while_it_is_hidden() -> None:
    circle, _ = resample(_scene(alpha=np.array([0.0, 1.0, 0.5])), np.array([0.5, 1.5])).shapes
    np.testing.assert_allclose(circle.alpha, [0.0, 0.75])
    np.testing.assert_allclose(circle.x, [0.0, 1.5])


def test_times_outside_are_the_first_and_last_frame() -> None:
    circle, _ = resample(_scene(), np.array([-1.0, 9.0])).shapes
    assert [at(circle.x, frame) for frame in range(2)] == [0.0, 2.0]


def test_angles_turn_the_shorter_way() -> None:
    turning = Polygon(x=0.0, y=0.0, radius=1.0, sides=3, angle=np.array([3.0, -3.0, 3.0]))
    [shape] = resample(Scene(3, (0.0, 0.0, 4.0, 4.0), (turning,)), np.array([0.5, 1.5])).shapes
    assert isinstance(shape, Polygon)
    np.testing.assert_allclose(np.cos(shape.angle), -1.0)  # through half a turn, not through 0


def test_what_moves_far_or_says_so_jumps() -> None:
    x = np.array([0.0, 1.0, 4.0])
    for shape, expected in (
        (_scene(x=x), [0.5, 1.0]),
        (_scene(x=x / 4, jump=np.array([True, False, False])), [0, 0.625]),
    ):
        circle, _ = resample(shape, np.array([0.5, 1.5])).shapes
        np.testing.assert_allclose(circle.x, expected)
