"""Pictures of classic control: everything to scale, with a line where the goal is or where an episode is lost.

The functions take an episode's states (NumPy leaves `[F]`, or `[F, 2]` for Acrobot's angles) and its physics.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from jaxrl.render.scene import Caption, Circle, Line, Polygon, Rect, Scene, Shape, Tip

__all__ = ["draw_acrobot", "draw_cart_pole", "draw_mountain_car", "draw_pendulum"]

_SKY, _GROUND, _EDGE = "#151c28", "#232e40", "#4a5a75"
_BODY, _LIMB, _JOINT = "#2f7fd6", "#d9a35c", "#e6edf7"
_GOAL, _LOST = "#57ab5a", "#e5534b"
_COLUMNS = 90  # number of columns that form a hill


def draw_cart_pole(states: Any, params: Any) -> Scene:
    """Cart and pole on their track, in real time; beyond the red lines the episode is lost."""
    x, angle = _double(states.position), _double(states.angle)
    length, limit, tilt = 2 * float(params.half_length), float(params.position_limit), float(params.angle_limit)
    cart, edge = 0.25 * length, limit + 0.75 * length  # half the cart's width, half the picture's
    shapes: list[Shape] = [Rect(x=-edge, y=-length, width=2 * edge, height=length, fill=_GROUND)]
    for side in (-1, 1):
        shapes.append(Line(x=side * limit, y=0.0, dx=0.0, dy=0.4 * length, stroke=_LOST, stroke_width=0.025))
        dx, dy = 1.15 * length * side * np.sin(tilt), 1.15 * length * np.cos(tilt)
        shapes.append(Line(x=x, y=cart, dx=dx, dy=dy, stroke=_LOST, stroke_width=0.015, alpha=0.6))
    tip = Tip("cart", {"position": _text(x, "m"), "velocity": _text(states.velocity, "m/s")})
    shapes.append(Rect(x=x, y=0.0, dx=-cart, width=2 * cart, height=cart, fill=_BODY, corner=0.06, tip=tip))
    dx, dy = length * np.sin(angle), length * np.cos(angle)
    shapes.append(Line(x=x, y=cart, dx=dx, dy=dy, stroke=_LIMB, stroke_width=0.09 * length))
    tip = Tip("pole", {"angle": _degrees(angle), "velocity": _text(states.angular_velocity, "rad/s")})
    shapes.append(Circle(x=x, y=cart, radius=0.06 * length, fill=_JOINT, tip=tip))
    view = (-edge, -0.95 * length, edge, cart + 1.35 * length)
    return _scene("CartPole", _degrees(angle), states.step, view, shapes, float(params.time_step))


def draw_acrobot(states: Any, params: Any) -> Scene:
    """The arm, twice as fast as in reality; its tip must pass the green line."""
    shoulder, elbow = _double(states.angles).T
    upper, lower = float(params.length_1), 2 * float(params.centre_2)  # the links' mass is in their middle
    edge = 1.15 * (upper + lower)
    shapes: list[Shape] = [Line(x=-edge, y=upper, dx=2 * edge, dy=0.0, stroke=_GOAL, stroke_width=0.03)]
    x, y = upper * np.sin(shoulder), -upper * np.cos(shoulder)
    dx, dy = lower * np.sin(shoulder + elbow), -lower * np.cos(shoulder + elbow)
    shapes.append(Line(x=0.0, y=0.0, dx=x, dy=y, stroke=_LIMB, stroke_width=0.18))
    shapes.append(Line(x=x, y=y, dx=dx, dy=dy, stroke=_BODY, stroke_width=0.18))
    for name, at_x, at_y, turn, speed in (
        ("shoulder", 0.0, 0.0, shoulder, states.velocities[:, 0]),
        ("elbow", x, y, elbow, states.velocities[:, 1]),
    ):
        tip = Tip(name, {"angle": _degrees(turn), "velocity": _text(speed, "rad/s")})
        shapes.append(Circle(x=at_x, y=at_y, radius=0.11, fill=_JOINT, tip=tip))
    height = np.array([f"tip at {value:+.2f} m" for value in y + dy])
    view = (-edge, -edge, edge, edge)
    return _scene("Acrobot", height, states.step, view, shapes, float(params.time_step) / 2)


def draw_mountain_car(name: str, states: Any, params: Any) -> Scene:
    """The car in its valley; the flag is the goal. The name is the caption."""
    x = _double(states.position)
    low, high, goal = float(params.min_position), float(params.max_position), float(params.goal_position)
    left, right, bottom = low - 0.1, high + 0.1, -0.45
    grid = np.linspace(left, right, _COLUMNS + 1)
    ground, width = _hill(grid), grid[1] - grid[0]
    shapes: list[Shape] = [
        Rect(x=x0, y=bottom, width=1.05 * width, height=min(y0, y1) - bottom, fill=_GROUND)
        for x0, y0, y1 in zip(grid[:-1].tolist(), ground[:-1].tolist(), ground[1:].tolist(), strict=True)
    ]
    for x0, y0, y1 in zip(grid[:-1].tolist(), ground[:-1].tolist(), ground[1:].tolist(), strict=True):
        shapes.append(Line(x=x0, y=y0, dx=float(width), dy=y1 - y0, stroke=_EDGE, stroke_width=0.016))
    foot = float(_hill(goal))
    shapes.append(Line(x=goal, y=foot, dx=0.0, dy=0.24, stroke=_JOINT, stroke_width=0.01))
    shapes.append(Polygon(x=goal + 0.04, y=foot + 0.2, radius=0.05, sides=3, fill=_GOAL))

    slope = np.arctan(np.cos(3.0 * x))
    along, up = np.array([np.cos(slope), np.sin(slope)]), np.array([-np.sin(slope), np.cos(slope)])
    wheel, place = 0.026, np.array([x, _hill(x)])
    start_x, start_y = place + (wheel + 0.035) * up - 0.055 * along
    dx, dy = 0.11 * along
    shapes.append(Line(x=start_x, y=start_y, dx=dx, dy=dy, stroke=_BODY, stroke_width=0.06))
    tip = Tip("car", {"position": _text(x), "velocity": _text(states.velocity, digits=4)})
    for side in (-1, 1):
        wheel_x, wheel_y = place + wheel * up + side * 0.05 * along
        shapes.append(Circle(x=wheel_x, y=wheel_y, radius=wheel, fill=_JOINT, tip=tip))
    speed = np.array([f"velocity {value:+.3f}" for value in _double(states.velocity)])
    return _scene(name, speed, states.step, (left, bottom, right, 0.62), shapes, 1 / 30)


def draw_pendulum(states: Any, params: Any) -> Scene:
    """The rod, in real time; it should stand on the green line. Positive angles are to the left."""
    angle, length = _double(states.angle), float(params.length)
    edge = 1.35 * length
    wrapped = np.mod(angle + np.pi, 2 * np.pi) - np.pi
    tip = Tip("pendulum", {"angle": _degrees(wrapped), "velocity": _text(states.angular_velocity, "rad/s")})
    shapes: list[Shape] = [
        Circle(x=0.0, y=0.0, radius=length, stroke=_GROUND, stroke_width=0.015 * length),
        Line(x=0.0, y=0.0, dx=0.0, dy=1.15 * length, stroke=_GOAL, stroke_width=0.02 * length),
        Line(
            x=0.0,
            y=0.0,
            dx=-length * np.sin(angle),
            dy=length * np.cos(angle),
            stroke=_LIMB,
            stroke_width=0.16 * length,
        ),
        Circle(x=0.0, y=0.0, radius=0.06 * length, fill=_JOINT, tip=tip),
    ]
    view = (-edge, -edge, edge, edge)
    return _scene("Pendulum", _degrees(wrapped), states.step, view, shapes, float(params.time_step))


def _scene(name: str, fact: Any, step: Any, view: Any, shapes: list[Shape], step_seconds: float) -> Scene:
    """The common part of all five: captions with the name, one fact and the step number."""
    steps = np.array([f"step {number}" for number in np.asarray(step)])
    captions = (Caption(name), Caption(fact), Caption(steps))
    return Scene(len(steps), view, tuple(shapes), captions, _SKY, step_seconds)


def _hill(x: Any) -> Any:
    """Height of the ground: its slope is the cos(3 x) by which gravity is multiplied."""
    return np.sin(3.0 * x) / 3.0


def _double(values: Any) -> np.ndarray:
    return np.asarray(values, np.float64)


def _degrees(angle: np.ndarray) -> np.ndarray:
    return np.array([f"{value:+.1f}°" for value in np.degrees(angle)])


def _text(values: Any, unit: str = "", digits: int = 2) -> np.ndarray:
    return np.array([f"{value:+.{digits}f} {unit}".rstrip() for value in _double(values)])
