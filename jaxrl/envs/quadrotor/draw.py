"""Pictures of the drone from the side and from above: each rotor's thrust, the way it came, and its target."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import numpy as np

from jaxrl.envs.quadrotor.physics import rotation_matrix, thrusts
from jaxrl.render.scene import Caption, Circle, Line, Rect, Scene, Shape, Text, Tip

__all__ = ["draw"]

_SKY, _PANEL, _EDGE, _LABEL = "#151c28", "#1b2433", "#4a5a75", "#8b9bb4"
_FRONT, _BACK, _ARM, _THRUST = "#d9a35c", "#2f7fd6", "#e6edf7", "#b7e3f4"
_GOAL, _LOST = "#57ab5a", "#e5534b"
_ENLARGED = 3.0  # how much larger than to scale the drone is
_TRAIL, _TRAIL_STEPS = 15, 6  # dots behind the drone, and the steps from one to the next
_PATH_DOTS = 60  # dots along the way of the target


class _View(NamedTuple):
    """A panel: where its middle is, and the world's axes to the right, up, and to the viewer."""

    name: str
    middle: float
    right: int
    up: int
    depth: int

    def flat(self, vectors: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Vectors `[…, 3]` on the screen."""
        return vectors[..., self.right], vectors[..., self.up]


def draw(name: str, states: Any, targets: np.ndarray, reach: float, params: Any) -> Scene:
    """Drone and target, in real time; beyond the red square around the target the episode is lost.

    Args:
        name: Of the environment.
        states: Of an episode, NumPy leaves `[F, …]`.
        targets: Their positions, `[F, 3]`.
        reach: How far the target gets along any axis, metres.
        params: The drone's.
    """
    limit = float(params.position_limit)
    edge = reach + 1.15 * limit
    views = (_View("from the side", -1.04 * edge, 0, 2, 1), _View("from above", 1.04 * edge, 0, 1, 2))
    shapes: list[Shape] = []
    for view in views:
        shapes += _panel(view, edge)
        shapes += _aim(view, targets, limit, edge)
        shapes += _trail(view, states, edge)
        shapes += _drone(view, states, params, edge)
    distance = np.linalg.norm(_double(states.motion.position) - targets, axis=-1)
    steps = np.array([f"step {number}" for number in np.asarray(states.step)])
    away = np.array([f"{100 * value:.0f} cm from the target" for value in distance])
    captions = (Caption(name), Caption(away), Caption(steps))
    picture = (-2.08 * edge, -1.04 * edge, 2.08 * edge, 1.04 * edge)
    return Scene(len(steps), picture, tuple(shapes), captions, _SKY, float(params.time_step))


def _panel(view: _View, edge: float) -> list[Shape]:
    left = view.middle - edge
    return [
        Rect(x=left, y=-edge, width=2 * edge, height=2 * edge, fill=_PANEL, corner=0.02 * edge),
        Text(x=left + 0.05 * edge, y=0.92 * edge, text=view.name, size=0.09 * edge, fill=_LABEL, align="left"),
    ]


def _aim(view: _View, targets: np.ndarray, limit: float, edge: float) -> list[Shape]:
    """The target, its way, and the square around it."""
    shapes: list[Shape] = []
    if np.ptp(targets, axis=0).any():
        for dot in targets[np.linspace(0, len(targets) - 1, _PATH_DOTS).astype(int)]:
            x, y = view.flat(dot)
            shapes.append(Circle(x=view.middle + float(x), y=float(y), radius=0.008 * edge, fill=_GOAL, alpha=0.4))
    x, y = view.flat(targets)
    x = x + view.middle
    for sign in (-1, 1):
        line: dict[str, Any] = {"stroke": _LOST, "stroke_width": 0.008 * edge, "alpha": 0.6}
        shapes.append(Line(x=x - limit, y=y + sign * limit, dx=2 * limit, dy=0.0, **line))
        shapes.append(Line(x=x + sign * limit, y=y - limit, dx=0.0, dy=2 * limit, **line))
    shapes.append(Circle(x=x, y=y, radius=0.05 * edge, stroke=_GOAL, stroke_width=0.015 * edge))
    return shapes


def _trail(view: _View, states: Any, edge: float) -> list[Shape]:
    """Where the drone was, fainter the longer ago."""
    x, y = view.flat(_double(states.motion.position))
    shapes: list[Shape] = []
    for dot in range(_TRAIL, 0, -1):
        then = np.maximum(np.arange(len(x)) - dot * _TRAIL_STEPS, 0)
        alpha = 0.6 * (1 - dot / (_TRAIL + 1))
        shapes.append(Circle(x=x[then] + view.middle, y=y[then], radius=0.012 * edge, fill=_EDGE, alpha=alpha))
    return shapes


def _drone(view: _View, states: Any, params: Any, edge: float) -> list[Shape]:
    """Arms, rotors and their thrusts; the front is lighter."""
    motion = states.motion
    rotation = _double(jax.vmap(rotation_matrix)(motion.quaternion))
    x, y = view.flat(_double(motion.position))
    x = x + view.middle
    size = _ENLARGED * edge / 0.7
    thrust = _double(thrusts(motion.rpm, params) / thrusts(params.rpm_max, params))
    normal = rotation[:, :, 2]
    shapes: list[Shape] = []
    for number, rotor in enumerate(_double(params.rotors)):
        dx, dy = view.flat(size * (rotation @ rotor))
        color = _FRONT if rotor[0] > 0 else _BACK
        shapes.append(Line(x=x, y=y, dx=dx, dy=dy, stroke=_ARM, stroke_width=0.016 * edge))
        shapes.append(_disc(view, x + dx, y + dy, normal, 0.8 * size * float(np.abs(rotor).max()), color))
        up_x, up_y = view.flat(0.25 * edge * thrust[:, number, None] * normal)
        shapes.append(Line(x=x + dx, y=y + dy, dx=up_x, dy=up_y, stroke=_THRUST, stroke_width=0.02 * edge, alpha=0.8))
    angle = 2 * np.degrees(np.arccos(np.clip(np.abs(_double(motion.quaternion)[:, 0]), 0, 1)))
    speed = np.linalg.norm(_double(motion.velocity), axis=-1)
    rows = {
        "turned": np.array([f"{value:.0f}°" for value in angle]),
        "speed": np.array([f"{value:.2f} m/s" for value in speed]),
        "thrusts": np.array([" ".join(f"{100 * value:.0f}%" for value in row) for row in thrust]),
    }
    shapes.append(Circle(x=x, y=y, radius=0.03 * edge, fill=_ARM, tip=Tip("drone", rows)))
    return shapes


def _disc(view: _View, x: np.ndarray, y: np.ndarray, normal: np.ndarray, radius: float, color: str) -> Line:
    """A disc with a normal `[F, 3]` in space: an ellipse, as a line that is as thick as the disc looks."""
    across = np.stack(view.flat(normal), -1)
    length = np.linalg.norm(across, axis=-1, keepdims=True)
    along = np.where(length > 1e-9, across / np.maximum(length, 1e-9), [0.0, 1.0])
    thin = np.maximum(radius * np.abs(normal[:, view.depth]), 0.08 * radius)
    half_x, half_y = (radius - thin) * along[:, 1], -(radius - thin) * along[:, 0]
    return Line(x=x - half_x, y=y - half_y, dx=2 * half_x, dy=2 * half_y, stroke=color, stroke_width=2 * thin)


def _double(values: Any) -> np.ndarray:
    return np.asarray(values, np.float64)
