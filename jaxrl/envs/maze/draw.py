"""Pictures: walls, the goal, the agent and what it sees."""

from __future__ import annotations

from typing import Any

import numpy as np

from jaxrl.render.scene import Caption, Circle, Line, Polygon, Rect, Scene, Shape, Tip

__all__ = ["draw"]

_FLOOR, _WALL, _GRID, _SEEN, _AGENT, _GOAL = "#151c28", "#4a5a75", "#1d2736", "#b7e3f4", "#2f7fd6", "#57ab5a"
_LOOKS = ("up", "right", "down", "left")


def draw(name: str, states: Any, fact: np.ndarray, sight: int | np.ndarray) -> Scene:
    """The maze, the agent as a triangle that points ahead, and what it sees in the states of an episode, `[F, …]`.

    `fact[F]` is a caption, `sight` the cells along each side of the view, or the free cells up, right, down and left of
    the agent, `[F, 4]`.
    """
    walls, goal = np.asarray(states.walls)[0], np.asarray(states.goal)[0]
    size = float(len(walls))  # of both sides
    shapes: list[Shape] = [Rect(x=0.0, y=0.0, width=size, height=size, fill=_FLOOR)]
    for row, column in np.argwhere(walls).tolist():
        shapes.append(Rect(x=float(column), y=size - 1 - row, width=1.0, height=1.0, fill=_WALL))
    for line in range(1, len(walls)):
        shapes.append(Line(x=float(line), y=0.0, dx=0.0, dy=size, stroke=_GRID, stroke_width=0.04))
        shapes.append(Line(x=0.0, y=float(line), dx=size, dy=0.0, stroke=_GRID, stroke_width=0.04))
    x, y = goal[1] + 0.5, size - goal[0] - 0.5
    shapes.append(Circle(x=x, y=y, radius=0.32, stroke=_GOAL, stroke_width=0.08, tip=Tip("goal", {})))
    shapes.append(Circle(x=x, y=y, radius=0.14, fill=_GOAL))
    shapes += _agent(states, sight)
    count = np.array([f"step {number}" for number in np.asarray(states.step).tolist()])
    edges = (-0.5, -0.5, size + 0.5, size + 0.5)
    return Scene(len(count), edges, tuple(shapes), (Caption(name), Caption(fact), Caption(count)), _WALL, 0.2)


def _agent(states: Any, sight: int | np.ndarray) -> list[Shape]:
    """What the agent sees, and itself on top."""
    place, direction = np.asarray(states.position, np.float64), np.asarray(states.direction)
    x, y = place[:, 1] + 0.5, np.shape(states.walls)[1] - place[:, 0] - 0.5
    angle = np.pi / 2 * (1 - direction)
    seen: list[Shape] = []
    if isinstance(sight, np.ndarray):
        for way, dx, dy in zip(sight.T, (0, 1, 0, -1), (1, 0, -1, 0), strict=True):
            length = way + 0.5
            seen.append(Line(x=x, y=y, dx=dx * length, dy=dy * length, stroke=_SEEN, stroke_width=0.06, alpha=0.4))
    else:
        # The agent is in the middle of the view's near edge.
        middle, half = (sight - 1) / 2, sight / 2
        dx, dy = middle * np.rint(np.cos(angle)) - half, middle * np.rint(np.sin(angle)) - half
        size = float(sight)
        seen.append(Rect(x=x, y=y, dx=dx, dy=dy, width=size, height=size, fill=_SEEN, alpha=0.16))
    tip = Tip("agent", {"looks": np.array(_LOOKS)[direction]})
    body = Polygon(x=x, y=y, radius=0.42, sides=3, angle=angle, fill=_AGENT, tip=tip)
    return [*seen, body]
