"""Pictures: walls, robots with their goals, and what the lidar sees."""

from __future__ import annotations

from typing import Any

import numpy as np

from jaxrl.render.scene import Caption, Circle, Line, Polygon, Rect, Scene, Shape, Tip

__all__ = ["draw"]

_FLOOR, _WALL, _BEAM, _NOSE, _LOST = "#151c28", "#4a5a75", "#b7e3f4", "#e6edf7", "#6b7280"
_COLORS = ("#2f7fd6", "#d9a35c", "#57ab5a", "#b083f0", "#e5534b", "#39c5cf", "#e0c341", "#f778ba", "#8b9bb4", "#a0522d")
_BEAMS = 32  # that are drawn, of each robot


def draw(name: str, states: Any, beams: np.ndarray, beam_angles: np.ndarray, params: Any) -> Scene:
    """Robots, grey once they have crashed; the ring around a goal is as far from it as is near enough.

    Args:
        name: Of the environment.
        states: Of an episode, NumPy leaves `[F, …]`.
        beams: How far the lidar's beams get, `[F, N, R]`.
        beam_angles: Their directions relative to the heading, `[R]`.
        params: The robots'.
    """
    walls = np.asarray(states.walls)[0]
    height, width = walls.shape
    shapes: list[Shape] = [
        Rect(x=float(x), y=float(y), width=1.0, height=1.0, fill=_WALL) for y, x in np.argwhere(walls)
    ]
    num_agents = beams.shape[1]
    for robot in range(num_agents):
        shapes += _goal(states, robot, params)
    for robot in range(num_agents):
        shapes += _rays(states, robot, beams, beam_angles)
    for robot in range(num_agents):
        shapes += _robot(states, robot, params)
    arrived, crashed = (np.asarray(flags).sum(1) for flags in (states.arrived, states.crashed))
    counts = [f"{a} of {num_agents} arrived, {c} crashed" for a, c in zip(arrived, crashed, strict=True)]
    steps = np.array([f"step {number}" for number in np.asarray(states.step)])
    captions = (Caption(name), Caption(np.array(counts)), Caption(steps))
    edges = (0.0, 0.0, float(width), float(height))
    return Scene(len(steps), edges, tuple(shapes), captions, _FLOOR, float(params.time_step))


def _goal(states: Any, robot: int, params: Any) -> list[Shape]:
    x, y = np.asarray(states.goal, np.float64)[0, robot]
    color, alpha = _COLORS[robot % len(_COLORS)], np.where(np.asarray(states.arrived)[:, robot], 1.0, 0.5)
    radius = float(params.goal_radius)
    return [
        Circle(x=x, y=y, radius=radius, stroke=color, stroke_width=0.04, alpha=alpha),
        Circle(x=x, y=y, radius=0.1, fill=color, alpha=alpha),
    ]


def _rays(states: Any, robot: int, beams: np.ndarray, beam_angles: np.ndarray) -> list[Shape]:
    x, y, heading = _pose(states, robot)
    chosen = np.unique(np.linspace(0, len(beam_angles) - 1, _BEAMS).astype(int))
    alpha = np.where(np.asarray(states.crashed)[:, robot], 0.0, 0.15)
    shapes: list[Shape] = []
    for beam in chosen:
        length, angle = beams[:, robot, beam], heading + beam_angles[beam]
        dx, dy = length * np.cos(angle), length * np.sin(angle)
        shapes.append(Line(x=x, y=y, dx=dx, dy=dy, stroke=_BEAM, stroke_width=0.02, alpha=alpha))
    return shapes


def _robot(states: Any, robot: int, params: Any) -> list[Shape]:
    x, y, heading = _pose(states, robot)
    half = float(params.half_width)
    crashed = np.asarray(states.crashed)[:, robot]
    fill = np.where(crashed, _LOST, _COLORS[robot % len(_COLORS)])
    speed, turn = np.moveaxis(np.asarray(states.velocity, np.float64)[:, robot], 1, 0)
    rows = {
        "speed": np.array([f"{value:.2f} m/s" for value in speed]),
        "turn": np.array([f"{value:.2f} rad/s" for value in turn]),
    }
    dx, dy = half * np.cos(heading), half * np.sin(heading)
    corner = half * np.sqrt(2)
    tip = Tip(f"agent_{robot}", rows)
    return [
        Polygon(x=x, y=y, radius=corner, sides=4, angle=heading + np.pi / 4, fill=fill, tip=tip),
        Line(x=x, y=y, dx=dx, dy=dy, stroke=_NOSE, stroke_width=0.05),
    ]


def _pose(states: Any, robot: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    position = np.asarray(states.position, np.float64)[:, robot]
    return position[:, 0], position[:, 1], np.asarray(states.heading, np.float64)[:, robot]
