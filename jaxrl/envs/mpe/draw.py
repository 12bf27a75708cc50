"""Pictures of particle worlds: bodies to scale, their trails, their words and their goals."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from jaxrl.envs.mpe.world import Params, State, World
from jaxrl.render.scene import Caption, Circle, Line, Rect, Scene, Shape, Text, Tip

__all__ = ["draw"]

# (fill, edge) of each role: blue and its neighbours for good agents, orange and its neighbours for their opponents, so
# that the teams are distinguishable with any colour vision.
_GOOD = (("#2f7fd6", "#9fd0ff"), ("#1f9e89", "#8fe3d3"), ("#8a63d2", "#d3bfff"))
_OPPONENT = (("#d9761c", "#ffd2a1"), ("#d6455d", "#ffb3bf"), ("#b59a13", "#f0e08a"))
_GOALS = ("#e5534b", "#57ab5a", "#b083f0", "#e0c341", "#39c5cf", "#f47fb4")  # landmarks that may be somebody's goal
_KINDS = {"landmark": "#c3cede", "obstacle": "#394559", "food": "#8ddb8c", "forest": "#2d7a45"}
_OUTSIDE, _FIELD, _GRID = "#0b0f16", "#151c28", "#1c2635"
_CELL, _SAID = "#2b3648", "#ffffff"
_TRAIL = 10  # steps
_NAME = 0.023  # height of names, as a fraction of the picture's width
_SINGLE = 1.4  # half the side of what pictures of single states show
_SLOWER = 1.5  # than real time
_WORD, _WORD_GAP = 0.055, 0.012  # the side of a word's cell, and what is between two


class Drawable(Protocol):
    """The parts of a particle environment that pictures need."""

    name: str
    world: World
    choices: tuple[int, ...]

    def targets(self, states: State) -> list[tuple[int, np.ndarray]]:
        """(agent, the landmark it should go to in each frame `[F]`)."""
        ...

    def facts(self, states: State) -> np.ndarray | str:
        """Additional text for each frame."""
        ...


def draw(env: Drawable, states: State, params: Params) -> Scene:
    """The episode `states` (NumPy leaves `[F, …]`) as a scene."""
    position = np.asarray(states.position, np.float64)
    size = np.asarray(params.size, np.float64)
    view = _view(position, size, env.world)
    ground, marks = _landmarks(env, position, size)
    layers = _field(view), ground, _trails(env, position, size), _agents(env, states, position, size)
    layers += marks, _goals(env, states, position, size), _words(env, states, size)
    layers += (_names(env, position, size, _NAME * (view[2] - view[0])),)
    steps = np.array([f"step {step}" for step in np.asarray(states.step)])
    return Scene(
        num_frames=len(position),
        view=view,
        shapes=tuple(shape for layer in layers for shape in layer),
        captions=(Caption(env.name), Caption(env.facts(states)), Caption(steps)),
        background=_OUTSIDE,
        step_seconds=_SLOWER * float(params.time_step),
    )


def _view(position: np.ndarray, size: np.ndarray, world: World) -> tuple[float, float, float, float]:
    """A square around everything in all frames, words too; for single states, always the same."""
    if len(position) == 1:
        return -_SINGLE, -_SINGLE, _SINGLE, _SINGLE
    edge = np.repeat(size[:, None] + 0.1, 2, axis=1)
    for speaker in world.speakers:
        edge[speaker] = np.maximum(edge[speaker], (world.words * (_WORD + _WORD_GAP) / 2, size[speaker] + _WORD + 0.06))
    low, high = np.minimum((position - edge).min((0, 1)), -1.1), np.maximum((position + edge).max((0, 1)), 1.1)
    middle, half = (low + high) / 2, (high - low).max() / 2
    left, bottom, right, top = *(middle - half), *(middle + half)
    return float(left), float(bottom), float(right), float(top)


def _field(view: tuple[float, float, float, float]) -> list[Shape]:
    """The square in which bodies start, with its axes."""
    thin = (view[2] - view[0]) / 300
    shapes: list[Shape] = [Rect(x=-1.0, y=-1.0, width=2.0, height=2.0, fill=_FIELD)]
    shapes.append(Line(x=-1.0, y=0.0, dx=2.0, dy=0.0, stroke=_GRID, stroke_width=thin))
    shapes.append(Line(x=0.0, y=-1.0, dx=0.0, dy=2.0, stroke=_GRID, stroke_width=thin))
    return shapes


def _landmarks(env: Drawable, position: np.ndarray, size: np.ndarray) -> tuple[list[Shape], list[Shape]]:
    """Landmarks below the agents (to go around or through), and small ones to cover, which are drawn above them."""
    ground: list[Shape] = []
    marks: list[Shape] = []
    first = len(env.world.movers)
    for i, landmark in enumerate(env.world.landmarks):
        x, y = position[:, first + i].T
        fill = _GOALS[i % len(_GOALS)] if env.choices else _KINDS.get(landmark.name, _KINDS["landmark"])
        alpha = 0.45 if landmark.name == "forest" else 1.0
        tip = Tip(f"{landmark.name} {i}", {})
        where = ground if landmark.name in ("obstacle", "forest") else marks
        where.append(Circle(x=x, y=y, radius=float(size[first + i]), fill=fill, alpha=alpha, tip=tip))
    return ground, marks


def _roles(env: Drawable) -> list[str]:
    """The role of each of the P agents, which its name begins with."""
    return [agent.name.rstrip("0123456789").rstrip("_") for agent in env.world.movers]


def _colors(env: Drawable) -> list[tuple[str, str]]:
    """(fill, edge) of each of the P agents by its role: the first of several teams are the opponents."""
    last = max(agent.team for agent in env.world.movers)
    colors: dict[str, tuple[str, str]] = {}
    used = {_GOOD: 0, _OPPONENT: 0}
    for role, agent in zip(_roles(env), env.world.movers, strict=True):
        if role not in colors:
            family = _OPPONENT if agent.team == 0 and last > 0 else _GOOD
            colors[role] = family[used[family] % len(family)]
            used[family] += 1
    return [colors[role] for role in _roles(env)]


def _names(env: Drawable, position: np.ndarray, size: np.ndarray, height: float) -> list[Shape]:
    """The name of each agent below it; without its number if it is the only one of its role."""
    roles, shapes = _roles(env), []
    for i, (role, (_, edge)) in enumerate(zip(roles, _colors(env), strict=True)):
        name = role if roles.count(role) == 1 else env.world.movers[i].name
        x, y = position[:, i].T
        below = y - float(size[i]) - 0.9 * height
        shapes.append(Text(x=x, y=below, text=name.replace("_", " "), size=height, fill=edge))
    return shapes


def _trails(env: Drawable, position: np.ndarray, size: np.ndarray) -> list[Shape]:
    """The trails of the last steps, which fade and thin out with age."""
    frames = np.arange(len(position))
    shapes: list[Shape] = []
    for i, ((_, edge), agent) in enumerate(zip(_colors(env), env.world.movers, strict=True)):
        if not agent.moves:
            continue
        for age in range(min(_TRAIL, len(position) - 1), 0, -1):
            start, end = (position[np.maximum(frames - back, 0), i] for back in (age, age - 1))
            young = 1 - (age - 1) / _TRAIL
            faded = np.where(frames >= age, 0.2 + 0.6 * young, 0.0)
            (x, y), (dx, dy) = start.T, (end - start).T
            width = 0.01 + 0.02 * young
            shapes.append(Line(x=x, y=y, dx=dx, dy=dy, stroke=edge, stroke_width=width, alpha=faded))
    return shapes


def _agents(env: Drawable, states: State, position: np.ndarray, size: np.ndarray) -> list[Shape]:
    shapes: list[Shape] = []
    speed = np.linalg.norm(np.asarray(states.velocity, np.float64), axis=-1)
    for i, ((fill, edge), agent) in enumerate(zip(_colors(env), env.world.movers, strict=True)):
        x, y = position[:, i].T
        rows = {
            "position": np.array([f"{a:.2f}, {b:.2f}" for a, b in position[:, i]]),
            "speed": np.array([f"{value:.2f}" for value in speed[:, i]]),
        }
        tip = Tip(agent.name, rows)
        radius = float(size[i])
        shapes.append(Circle(x=x, y=y, radius=radius, fill=fill, stroke=edge, stroke_width=0.012, tip=tip))
        if not agent.moves:
            shapes.append(Text(x=x, y=y, text=agent.name[0].upper(), size=1.3 * radius))
    return shapes


def _goals(env: Drawable, states: State, position: np.ndarray, size: np.ndarray) -> list[Shape]:
    """A ring around each goal, and a dot of its colour on the agent that should go there."""
    first, frames = len(env.world.movers), np.arange(len(position))
    shapes: list[Shape] = []
    for agent, goal in env.targets(states):
        color = np.array(_GOALS)[goal % len(_GOALS)]
        x, y = position[frames, first + goal].T
        ring = size[first + goal] + 0.04
        shapes.append(Circle(x=x, y=y, radius=ring, stroke=color, stroke_width=0.015))
        x, y = position[:, agent].T
        shapes.append(Circle(x=x, y=y, radius=0.5 * float(size[agent]), fill=color))
    return shapes


def _words(env: Drawable, states: State, size: np.ndarray) -> list[Shape]:
    """Above each speaker, one cell per word, brighter for louder words."""
    position, message = np.asarray(states.position, np.float64), np.asarray(states.message, np.float64)
    side, gap = _WORD, _WORD_GAP
    left = -((side + gap) * env.world.words - gap) / 2
    shapes: list[Shape] = []
    for row, speaker in enumerate(env.world.speakers):
        x, y = position[:, speaker].T
        up = float(size[speaker]) + 0.04
        for word in range(env.world.words):
            said = np.clip(message[:, row, word], 0.0, 1.0)
            for fill, alpha in ((_CELL, 0.8), (_SAID, said)):
                dx = left + word * (side + gap)
                shapes.append(Rect(x=x, y=y, dx=dx, dy=up, width=side, height=side, fill=fill, alpha=alpha))
    return shapes
