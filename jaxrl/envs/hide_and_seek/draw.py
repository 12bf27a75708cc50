"""Pictures of hide-and-seek from above: who looks where, what the lidar feels, and which objects are locked."""

from __future__ import annotations

import itertools
from typing import Any, Protocol

import numpy as np

from jaxrl.envs.hide_and_seek.world import Cast, Params, State
from jaxrl.render.scene import Caption, Circle, Line, Rect, Scene, Shape, Text, Tip

__all__ = ["draw"]

_TEAMS = (("#2f7fd6", "#9fd0ff"), ("#d9761c", "#ffd2a1"))  # body and edge of hiders and of seekers, as in SMAX
_OUTSIDE, _FLOOR, _WALL, _DOOR = "#0b0f16", "#18202e", "#5b6b84", "#26344a"
_KINDS = {"box": "#a58a5b", "long": "#8f7549", "ramp": "#6f8f6a"}
_EDGE, _SEEN, _RAY, _RISE = "#e6d9bd", "#ff5d5d", "#8fa3c0", "#d7f0d0"
_TRAIL = 8  # steps
_CONE, _LINES, _CONE_RAYS = 1.5, 21, 180  # metres of a cone that are shown, as lines along some of so many rays
_PACE = 1.6  # how much slower than the clock of the world


class Drawable(Protocol):
    """The parts of the environment that pictures need."""

    name: str
    cast: Cast
    agents: tuple[str, ...]
    num_rays: int

    def rays(self, states: State, num_rays: int, params: Params) -> np.ndarray:
        """The reach of rays in all directions, in metres: `[F, A, R]`."""
        ...


def draw(env: Drawable, states: State, params: Params) -> Scene:
    """The episode `states` (NumPy leaves `[F, …]`) as a scene."""
    floor = float(params.floor)
    layers = (
        _ground(states, params),
        _cones(env, states, params),
        _lidar(env, states, params),
        *(_object(env, states, o, params) for o in range(env.cast.num_objects)),
        _trails(env, states),
        *(_agent(env, states, a, params) for a in range(env.cast.num_agents)),
        _glances(env, states),
    )
    return Scene(
        num_frames=len(states.step),
        view=(-0.1, -0.1, floor + 0.1, floor + 0.1),
        shapes=tuple(shape for layer in layers for shape in layer),
        captions=_captions(env, states, params),
        background=_OUTSIDE,
        step_seconds=_PACE * float(params.time_step),
    )


def _captions(env: Drawable, states: State, params: Params) -> tuple[Caption, ...]:
    step, ready = np.asarray(states.step), int(params.preparation)
    hiders, seekers = env.cast.num_hiders, env.cast.num_agents
    seen = np.asarray(states.sight)[:, hiders:seekers, :hiders].any((1, 2))
    phase = np.where(step < ready, "preparation", np.where(seen, "seen", "hidden"))
    return Caption(env.name), Caption(phase), Caption(np.array([f"step {number}" for number in step]))


def _ground(states: State, params: Params) -> list[Shape]:
    """The floor, the wall around it, the walls and doors of each frame's episode."""
    floor, border = float(params.floor), float(params.border)
    inner = floor - 2 * border
    shapes: list[Shape] = [Rect(x=0.0, y=0.0, width=floor, height=floor, fill=_WALL)]
    shapes.append(Rect(x=border, y=border, width=inner, height=inner, fill=_FLOOR))
    doors, thick = np.asarray(states.doors, np.float64), float(params.wall_thickness)
    for d in range(doors.shape[1]):
        x, y, _ = doors[:, d].T
        shapes.append(Circle(x=_one(x), y=_one(y), radius=0.7 * thick, fill=_DOOR))
    walls = np.asarray(states.walls, np.float64)
    for w in range(walls.shape[1]):
        x, y, half_x, half_y = walls[:, w].T
        there = half_x > 0
        x, y = np.where(there, x, 0.0), np.where(there, y, 0.0)
        shapes.append(
            Rect(
                x=_one(x - half_x),
                y=_one(y - half_y),
                width=_one(2 * half_x),
                height=_one(2 * half_y),
                fill=_WALL,
                alpha=_one(np.where(there, 1.0, 0.0)),
            )
        )
    return shapes


def _one(values: np.ndarray) -> Any:
    """A single number if all are equal, so that what stands still is painted once."""
    return float(values[0]) if (values == values[0]).all() else values


def _cones(env: Drawable, states: State, params: Params) -> list[Shape]:
    """A fan of broad and faint lines in the cone of each agent, each as long as its sight is free."""
    half, frames = min(float(params.half_vision), np.pi), np.arange(len(states.step))
    place, turn = np.asarray(states.position, np.float64), _turn(states.heading)
    rays = np.minimum(env.rays(states, _CONE_RAYS, params), _CONE)
    shapes: list[Shape] = []
    for a in range(env.cast.num_agents):
        fill, (x, y) = _TEAMS[env.cast.teams[a]][0], place[:, a].T
        for offset in np.linspace(-half, half, _LINES):
            angle = turn[:, a] + offset
            reach = rays[frames, a, np.rint(angle / (2 * np.pi) * _CONE_RAYS).astype(int) % _CONE_RAYS]
            way = {"dx": reach * np.cos(angle), "dy": reach * np.sin(angle)}
            shapes.append(Line(x=x, y=y, **way, stroke=fill, stroke_width=0.09, alpha=0.09))
    return shapes


def _lidar(env: Drawable, states: State, params: Params) -> list[Shape]:
    """A small dot where each ray of an agent ends."""
    if not env.num_rays:
        return []
    rays, place = env.rays(states, env.num_rays, params), np.asarray(states.position, np.float64)
    shapes: list[Shape] = []
    for a in range(env.cast.num_agents):
        x, y = place[:, a].T
        for k in range(env.num_rays):
            angle = 2 * np.pi * k / env.num_rays
            reach = rays[:, a, k]
            x1, y1 = x + reach * np.cos(angle), y + reach * np.sin(angle)
            shapes.append(Circle(x=x1, y=y1, radius=0.02, fill=_TEAMS[env.cast.teams[a]][1], alpha=0.45))
    return shapes


def _turn(heading: Any) -> np.ndarray:
    heading = np.asarray(heading, np.float64)
    return np.unwrap(np.arctan2(heading[..., 1], heading[..., 0]), axis=0)


def _object(env: Drawable, states: State, o: int, params: Params) -> list[Shape]:
    """A rectangle as a broad line with a bright rim: in the colour of the team that has locked it; a ramp's way up."""
    half_x, half_y = (float(value) for value in np.asarray(params.object_size)[o])
    x, y = np.asarray(states.object_position, np.float64)[:, o].T
    cos, sin = np.asarray(states.object_heading, np.float64)[:, o].T
    owner = np.asarray(states.locked_by)[:, o]
    rim = np.where(owner < 0, _EDGE, np.where(owner == 0, _TEAMS[0][1], _TEAMS[1][1]))
    kind = env.cast.kinds[o]
    rows = {"locked": np.where(owner < 0, "no", np.where(owner == 0, "by hiders", "by seekers"))}
    shapes: list[Shape] = []
    # Circles at both ends would be part of an opaque line, so it is painted just short of opaque.
    start_x, start_y = x - cos * half_x, y - sin * half_x
    body = {"x": start_x, "y": start_y, "dx": 2 * half_x * cos, "dy": 2 * half_x * sin}
    shapes.append(Line(**body, stroke=_KINDS[kind], stroke_width=2 * half_y, alpha=0.99, tip=Tip(f"{kind} {o}", rows)))
    corners = [(-1, -1), (1, -1), (1, 1), (-1, 1), (-1, -1)]
    for (a, b), (c, d) in itertools.pairwise(corners):
        from_x, from_y = x + cos * half_x * a - sin * half_y * b, y + sin * half_x * a + cos * half_y * b
        to_x, to_y = x + cos * half_x * c - sin * half_y * d, y + sin * half_x * c + cos * half_y * d
        line = {"x": from_x, "y": from_y, "dx": to_x - from_x, "dy": to_y - from_y}
        shapes.append(Line(**line, stroke=rim, stroke_width=0.025))
    if kind == "ramp":
        for part in (-0.6, 0.0, 0.6):  # strokes across, the longest at the top
            wide = half_y * (0.75 + 0.4 * part)
            mid_x, mid_y = x + cos * half_x * part, y + sin * half_x * part
            line = {"x": mid_x - sin * -wide, "y": mid_y + cos * -wide, "dx": -2 * wide * sin, "dy": 2 * wide * cos}
            shapes.append(Line(**line, stroke=_RISE, stroke_width=0.03, alpha=0.5 + 0.3 * part))
    locked = np.where(owner < 0, 0.0, 1.0)
    shapes.append(Circle(x=x, y=y, radius=0.055, fill=rim, alpha=locked))
    shapes.append(Circle(x=x, y=y + 0.06, radius=0.04, stroke=rim, stroke_width=0.02, alpha=locked))
    return shapes


def _trails(env: Drawable, states: State) -> list[Shape]:
    """The last steps of each agent, fading with age."""
    place, frames = np.asarray(states.position, np.float64), np.arange(len(states.step))
    age_of_episode, shapes = np.asarray(states.step), []
    for a in range(env.cast.num_agents):
        for age in range(min(_TRAIL, len(frames) - 1), 0, -1):
            start, end = (place[np.maximum(frames - back, 0), a] for back in (age, age - 1))
            young = 1 - (age - 1) / _TRAIL
            alpha = np.where((frames >= age) & (age_of_episode >= age), 0.1 + 0.5 * young, 0.0)
            (x, y), (dx, dy) = start.T, (end - start).T
            color, width = _TEAMS[env.cast.teams[a]][1], 0.02 + 0.04 * young
            shapes.append(Line(x=x, y=y, dx=dx, dy=dy, stroke=color, stroke_width=width, alpha=alpha))
    return shapes


def _agent(env: Drawable, states: State, a: int, params: Params) -> list[Shape]:
    """A disc with a nose, larger the higher it stands, and a line to what it holds."""
    body, edge = _TEAMS[env.cast.teams[a]]
    x, y = np.asarray(states.position, np.float64)[:, a].T
    cos, sin = np.asarray(states.heading, np.float64)[:, a].T
    height, held = np.asarray(states.height, np.float64)[:, a], np.asarray(states.held)[:, a]
    radius = float(params.agent_radius) * (1 + 0.25 * height)
    holds = np.array(["nothing" if h < 0 else f"{env.cast.kinds[h]} {h}" for h in held.tolist()])
    rows = {"height": np.array([f"{value:.1f}" for value in height]), "holds": holds}
    shapes: list[Shape] = []
    if env.cast.num_objects:
        there = np.asarray(states.object_position, np.float64)[np.arange(len(x)), np.maximum(held, 0)]
        arm = {"dx": there[:, 0] - x, "dy": there[:, 1] - y, "alpha": np.where(held < 0, 0.0, 1.0)}
        shapes.append(Line(x=x, y=y, **arm, stroke=edge, stroke_width=0.05))
    dim = np.where((np.asarray(states.step) < int(params.preparation)) & (env.cast.teams[a] == 1), 0.55, 1.0)
    shapes.append(
        Circle(
            x=x, y=y, radius=radius, fill=body, stroke=edge, stroke_width=0.025, alpha=dim, tip=Tip(env.agents[a], rows)
        )
    )
    shapes.append(Line(x=x, y=y, dx=cos * radius, dy=sin * radius, stroke=edge, stroke_width=0.05, alpha=dim))
    if env.cast.num_agents > 2:
        number = env.agents[a].rpartition("_")[2]
        shapes.append(Text(x=x - 0.4 * cos * radius, y=y - 0.4 * sin * radius, text=number, size=0.13))
    return shapes


def _glances(env: Drawable, states: State) -> list[Shape]:
    """A thin line from each seeker to each hider that it sees."""
    place, sight, shapes = np.asarray(states.position, np.float64), np.asarray(states.sight), []
    for s in range(env.cast.num_hiders, env.cast.num_agents):
        for h in range(env.cast.num_hiders):
            (x, y), (dx, dy) = place[:, s].T, (place[:, h] - place[:, s]).T
            seen = np.where(sight[:, s, h], 0.8, 0.0)
            shapes.append(Line(x=x, y=y, dx=dx, dy=dy, stroke=_SEEN, stroke_width=0.02, alpha=seen))
    return shapes
