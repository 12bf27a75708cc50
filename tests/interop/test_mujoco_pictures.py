"""Pictures of MuJoCo's bodies: where each is drawn, from which side, and when the camera follows."""

from typing import Any

import numpy as np
import pytest

pytest.importorskip("mujoco")
import mujoco as untyped_mujoco

from jaxrl.interop.mujoco_pictures import Poses, draw
from jaxrl.render import rasterise
from jaxrl.render.scene import Line, Rect, Scene

mujoco: Any = untyped_mujoco

GLIDER = """
<mujoco>
  <worldbody>
    <geom type="plane" size="9 9 1"/>
    <body pos="0 0 1">
      <joint type="slide" axis="1 0 0"/>
      <geom type="capsule" size="0.1" fromto="-0.3 0 0 0.3 0 0" rgba="1 0 0 1"/>
      <geom type="box" size="0.05 0.05 0.2" pos="0 -1 -0.3" rgba="0 1 0 1"/>
      <geom type="sphere" size="0.5" group="3"/>
      <site name="goal" type="sphere" size="0.07" pos="0.5 0 0" rgba="0 0 1 1"/>
      <body><joint axis="0 1 0"/><geom size="0.1" rgba="0 0 0 0"/></body>
    </body>
  </worldbody>
</mujoco>
"""
ARM = """
<mujoco>
  <worldbody>
    <body><joint axis="0 0 1"/><geom type="capsule" size="0.1" fromto="0 0 0 1 0 0"/></body>
    <body mocap="true"><geom size="0.1" rgba="1 0 0 1"/></body>
  </worldbody>
</mujoco>
"""


def drawn(xml: str, poses: Poses) -> Scene:
    steps = np.arange(len(poses.qpos))
    return draw(mujoco.MjModel.from_xml_string(xml), poses, steps / 2, steps, "it", 0.1)


def line(scene: Scene, color: int) -> Line:
    """The line that has more red, green or blue than any other colour."""
    lines = [shape for shape in scene.shapes if isinstance(shape, Line)]
    return next(shape for shape in lines if np.argsort(list(bytes.fromhex(shape.stroke[1:])), stable=True)[-1] == color)


def ends(line: Line) -> np.ndarray:
    """Both ends of a line in each frame, `[F, 2, 2]`; which end comes first does not matter."""
    x, y, dx, dy = np.broadcast_arrays(line.x, line.y, line.dx, line.dy)
    both = np.stack([np.stack([x, y], -1), np.stack([x + dx, y + dy], -1)], 1)
    return np.sort(both.round(6), axis=1)


def test_from_the_side_bodies_are_as_long_and_thick_as_they_look() -> None:
    scene = drawn(GLIDER, Poses(np.array([[0.0, 0.0], [0.5, 0.0]])))
    capsule, box, ball = (line(scene, color) for color in range(3))
    np.testing.assert_allclose(ends(capsule), [[[-0.3, 1], [0.3, 1]], [[0.2, 1], [0.8, 1]]])
    np.testing.assert_allclose(capsule.stroke_width, 0.2)
    np.testing.assert_allclose(ends(box)[0], [[0, 0.55], [0, 0.85]])
    np.testing.assert_allclose(box.stroke_width, 0.1)
    np.testing.assert_allclose(ball.x, [0.5, 1.0])
    order = [id(shape) for shape in scene.shapes]
    assert order.index(id(box)) > order.index(id(capsule))  # it is nearer
    assert len(order) == 4  # and the ground, but nothing of what MuJoCo hides
    [ground] = [shape for shape in scene.shapes if isinstance(shape, Rect)]
    np.testing.assert_allclose(ground.y + ground.height, 0)
    assert scene.view[1] < 0 < scene.view[3]
    assert [caption.text[1] for caption in scene.captions[1:]] == ["reward +0.50", "step 1"]
    assert tuple(rasterise(scene, 200)[0, 0, 0]) == (0x15, 0x1C, 0x28)


def test_the_camera_follows_what_goes_far() -> None:
    scene = drawn(GLIDER, Poses(np.stack([np.linspace(0, 50, 9), np.zeros(9)], 1)))
    np.testing.assert_allclose(ends(line(scene, 0))[:, 0], np.tile([-0.3, 1], (9, 1)), atol=1e-6)
    assert scene.width < 5
    marks = [shape for shape in scene.shapes if isinstance(shape, Line) and np.ndim(shape.alpha)]
    assert 10 < len(marks) < 200
    np.testing.assert_allclose(marks[0].x[1] - marks[0].x[0], -50 / 8)


def test_what_lies_flat_is_seen_from_above() -> None:
    moved = np.array([[[0.0, -1, 0]], [[0, -2, 0]]])
    scene = drawn(ARM, Poses(np.array([[0.0], [np.pi / 2]]), moved, np.tile([1.0, 0, 0, 0], (2, 1, 1))))
    goal = line(scene, 0)
    arm = next(shape for shape in scene.shapes if isinstance(shape, Line) and shape is not goal)
    np.testing.assert_allclose(ends(arm), [[[0, 0], [1, 0]], [[0, 0], [0, 1]]], atol=1e-6)
    np.testing.assert_allclose(goal.y, [-1, -2])
