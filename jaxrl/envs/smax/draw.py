"""Pictures of SMAX battles: where units are, how healthy they are, and who shoots whom."""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np

from jaxrl.envs.smax.state import Params, State
from jaxrl.envs.smax.units import UnitStats, stats_of
from jaxrl.render.scene import Caption, Circle, Line, Polygon, Rect, Scene, Shape, Text, Tip

__all__ = ["draw", "targets"]


class _Team(NamedTuple):
    """The colours of a team, distinguishable with any colour vision."""

    body: str
    edge: str
    bright: str  # shots, health


_TEAMS = (_Team("#2f7fd6", "#9fd0ff", "#7fc4ff"), _Team("#d9761c", "#ffd2a1", "#ffb36b"))
_OUTSIDE, _FIELD, _GRID, _BORDER = "#0b0f16", "#151c28", "#1c2635", "#33435c"
# The letter and the sides of the body of each unit type; 0 is round. Types of the user's own look alike otherwise.
_LOOKS = {
    "marine": ("m", 0),
    "marauder": ("M", 6),
    "stalker": ("s", 4),
    "zealot": ("Z", 5),
    "zergling": ("z", 3),
    "hydralisk": ("h", 8),
}
_OWN_SIDES = 7
_SHOT_FADE = np.array([1.0, 0.7, 0.4, 0.15])  # by frames since the shot
_HIT_FADE = np.array([0.5, 0.35, 0.2, 0.1])
_GRID_STEP = 2.0
_FIRST_ATTACK = 5
_CROWD = 12  # with more units, ranges and full health bars would hide the battle


class _Battle(NamedTuple):
    """The input of all drawing below: NumPy arrays over F frames and N units."""

    position: np.ndarray  # [F, N, 2]
    health: np.ndarray  # [F, N]
    alive: np.ndarray  # [F, N]
    cooldown: np.ndarray  # [F, N]
    target: np.ndarray  # [F, N] index of the attacked unit, or -1
    heading: np.ndarray  # [F, N, 2] unit vectors, the direction of the weapon
    shot: np.ndarray  # [F, N] brightness of the flash of a shot
    hit: np.ndarray  # [F, N] brightness of a wound
    unit_type: np.ndarray  # [N]
    team: np.ndarray  # [N] 0 or 1


class Drawable(Protocol):
    """The parts of a battle that pictures need."""

    name: str
    agents: tuple[str, ...]
    unit_names: tuple[str, ...]
    num_allies: int
    num_units: int

    @property
    def default_params(self) -> Params: ...


def draw(env: Drawable, states: State, params: Params | None = None) -> Scene:
    """The battle `states` (NumPy leaves `[F, …]`) as a scene: the whole map for one state, otherwise the used part."""
    params = env.default_params if params is None else params
    battle = _battle(env, states)
    stats = stats_of(params.units, battle.unit_type)
    size = (float(params.map_width), float(params.map_height))
    # Callers may combine pictures of single states, so these must all show the same part of the map.
    view = (0.0, 0.0, *size) if len(states.step) == 1 else _view(battle, size)
    shapes = _map(size, view)
    layers = (_ranges, _corpses, _bodies, _shots, _bars)
    for layer in layers:
        for unit in range(env.num_units):
            shapes += layer(env, battle, stats, unit)
    return Scene(
        num_frames=len(states.step),
        view=view,
        shapes=tuple(shapes),
        captions=_captions(env, battle, states),
        background=_OUTSIDE,
        step_seconds=4 * float(params.time_per_step),  # twice as fast as the clock of the game
    )


def targets(attack: np.ndarray, num_allies: int) -> np.ndarray:
    """The target of each unit, as an index among all N units or -1, from `attack[F, N]`: 0 or 5+k."""
    aimed = attack - _FIRST_ATTACK
    # Enemies number the allies in reverse.
    unit = np.where(np.arange(attack.shape[1]) < num_allies, num_allies + aimed, num_allies - 1 - aimed)
    return np.where(aimed >= 0, unit, -1)


def _battle(env: Drawable, states: State) -> _Battle:
    position, health, cooldown = (np.asarray(v, np.float64) for v in (states.position, states.health, states.cooldown))
    alive = health > 0
    target = targets(np.asarray(states.attack), env.num_allies)
    aimed_at = np.take_along_axis(position, np.maximum(target, 0)[..., None], axis=1)
    team = (np.arange(env.num_units) >= env.num_allies).astype(int)
    fired = np.zeros_like(alive)
    fired[1:] = (np.diff(cooldown, axis=0) > 0) & (target[1:] >= 0) & alive[:-1]
    wounded = np.zeros_like(alive)
    wounded[1:] = np.diff(health, axis=0) < 0
    return _Battle(
        position=position,
        health=health,
        alive=alive,
        cooldown=cooldown,
        target=np.where(alive, target, -1),
        heading=_heading(np.where((target >= 0)[..., None], aimed_at - position, states.move), team),
        shot=_fading(fired, _SHOT_FADE),
        hit=_fading(wounded, _HIT_FADE) * alive,
        unit_type=np.asarray(states.unit_type)[0],
        team=team,
    )


def _fading(event: np.ndarray, fade: np.ndarray) -> np.ndarray:
    """Brightness `[F, N]` of a flash that begins at each `event[F, N]`."""
    out = np.zeros(event.shape)
    for age, brightness in reversed(list(enumerate(fade))):
        out[age:] = np.where(event[: len(event) - age], brightness, out[age:])
    return out


def _heading(wanted: np.ndarray, team: np.ndarray) -> np.ndarray:
    """Unit vectors along `wanted[F, N, 2]`; if that is zero, the last one, initially towards the opponents."""
    length = np.linalg.norm(wanted, axis=-1, keepdims=True)
    heading = np.where(length > 1e-6, wanted / np.maximum(length, 1e-6), np.nan)
    last = np.stack([1.0 - 2.0 * team, np.zeros(len(team))], axis=-1)
    for frame in range(len(heading)):
        heading[frame] = last = np.where(np.isnan(heading[frame]), last, heading[frame])
    return heading


def _view(battle: _Battle, size: tuple[float, float]) -> tuple[float, float, float, float]:
    """A box around all positions of the units, between 4:3 and 16:9."""
    low, high = battle.position.min((0, 1)) - 2.0, battle.position.max((0, 1)) + 2.0
    width, height = high - low
    width, height = max(width, 4 / 3 * height, 16.0), max(height, 9 / 16 * width, 9.0)
    center = (low + high) / 2
    half = np.array([width, height]) / 2
    # Slide back onto the map where there is room.
    for axis in range(2):
        if half[axis] * 2 <= size[axis]:
            center[axis] = np.clip(center[axis], half[axis], size[axis] - half[axis])
    left, bottom, right, top = *(center - half), *(center + half)
    return float(left), float(bottom), float(right), float(top)


def _map(size: tuple[float, float], view: tuple[float, float, float, float]) -> list[Shape]:
    width, height = size
    shapes: list[Shape] = [Rect(x=0.0, y=0.0, width=width, height=height, fill=_FIELD)]
    thin = (view[2] - view[0]) / 480  # a pixel of a small picture
    for x in np.arange(_GRID_STEP, width, _GRID_STEP):
        shapes.append(Line(x=float(x), y=0.0, dx=0.0, dy=height, stroke=_GRID, stroke_width=thin))
    for y in np.arange(_GRID_STEP, height, _GRID_STEP):
        shapes.append(Line(x=0.0, y=float(y), dx=width, dy=0.0, stroke=_GRID, stroke_width=thin))
    for x, y, dx, dy in ((0, 0, width, 0), (0, height, width, 0), (0, 0, 0, height), (width, 0, 0, height)):
        shapes.append(Line(x=x, y=y, dx=dx, dy=dy, stroke=_BORDER, stroke_width=2 * thin))
    return shapes


def _ranges(env: Drawable, battle: _Battle, stats: UnitStats, unit: int) -> list[Shape]:
    if env.num_units > _CROWD:
        return []
    x, y = battle.position[:, unit].T
    color = _TEAMS[battle.team[unit]].body
    faint = 0.2 * battle.alive[:, unit]
    return [Circle(x=x, y=y, radius=float(stats.range[unit]), stroke=color, stroke_width=0.04, alpha=faint)]


def _corpses(env: Drawable, battle: _Battle, stats: UnitStats, unit: int) -> list[Shape]:
    """A cross where a unit died, which fades within a second."""
    alive = battle.alive[:, unit]
    age = np.arange(len(alive)) - alive.sum()
    faded = np.where(alive, 0.0, np.clip(0.9 - 0.04 * age, 0.25, 0.9))
    x, y = battle.position[:, unit].T
    arm = 0.7 * float(stats.radius[unit])
    color = _TEAMS[battle.team[unit]].body
    return [
        Line(x=x - arm, y=y - side * arm, dx=2 * arm, dy=2 * side * arm, stroke=color, stroke_width=0.14, alpha=faded)
        for side in (1, -1)
    ]


def _bodies(env: Drawable, battle: _Battle, stats: UnitStats, unit: int) -> list[Shape]:
    x, y = battle.position[:, unit].T
    alive = 1.0 * battle.alive[:, unit]
    team, name = _TEAMS[battle.team[unit]], env.unit_names[battle.unit_type[unit]]
    sign, sides = _LOOKS.get(name, (name[:1], _OWN_SIDES))
    radius = float(stats.radius[unit])
    barrel = (radius + 0.3) * battle.heading[:, unit]
    weapon = Line(x=x, y=y, dx=barrel[:, 0], dy=barrel[:, 1], stroke=team.edge, stroke_width=0.16, alpha=alive)
    tip = _tip(env, battle, stats, unit)
    outline = 0.07
    if sides:
        corner, angle = radius * 1.12, np.pi / 2  # about the area of the disc
        body: Shape = Polygon(
            x=x, y=y, radius=corner, sides=sides, angle=angle, fill=team.body, stroke=team.edge,
            stroke_width=outline, alpha=alive, tip=tip,
        )  # fmt: skip
        wound: Shape = Polygon(
            x=x, y=y, radius=corner, sides=sides, angle=angle, fill="#ffffff", alpha=battle.hit[:, unit]
        )
    else:
        body = Circle(
            x=x, y=y, radius=radius, fill=team.body, stroke=team.edge, stroke_width=outline, alpha=alive, tip=tip
        )
        wound = Circle(x=x, y=y, radius=radius, fill="#ffffff", alpha=battle.hit[:, unit])
    letter = Text(x=x, y=y, text=sign, size=1.25 * radius, fill="#ffffff", alpha=alive)
    return [weapon, body, wound, letter]


def _shots(env: Drawable, battle: _Battle, stats: UnitStats, unit: int) -> list[Shape]:
    """A tracer from the weapon to the target's edge."""
    alpha = battle.shot[:, unit]
    frames = np.arange(len(alpha))
    target = np.maximum(battle.target[:, unit], 0)
    # Target and aim may change while the flash fades, so those from the frame of the shot are used.
    since = np.searchsorted(_SHOT_FADE[::-1], alpha)
    since = np.where(alpha > 0, len(_SHOT_FADE) - 1 - since, 0)
    target = target[frames - since]
    start = battle.position[:, unit]
    reach = battle.position[frames, target] - start
    length = np.maximum(np.linalg.norm(reach, axis=-1, keepdims=True), 1e-6)
    begin = reach / length * np.minimum(stats.radius[unit] + 0.3, length)
    end = reach / length * np.maximum(length - 0.6 * np.asarray(stats.radius)[target][:, None], 0.0)
    lit = (alpha > 0)[:, None]
    begin, along = np.where(lit, begin, 0.0), np.where(lit, end - begin, 0.0)
    (x, y), (dx, dy) = (start + begin).T, along.T
    color = _TEAMS[battle.team[unit]].bright
    return [
        Line(x=x, y=y, dx=dx, dy=dy, stroke=color, stroke_width=0.26, alpha=0.35 * alpha),
        Line(x=x, y=y, dx=dx, dy=dy, stroke="#ffffff", stroke_width=0.09, alpha=alpha),
        Circle(x=x + dx, y=y + dy, radius=0.22, fill="#ffffff", alpha=0.8 * alpha),
    ]


def _bars(env: Drawable, battle: _Battle, stats: UnitStats, unit: int) -> list[Shape]:
    """Health bars above the bodies; in a crowd, only for wounded units, so that bars do not hide bodies."""
    x, y = battle.position[:, unit].T
    radius = float(stats.radius[unit])
    width, height, edge = max(2.3 * radius, 0.95), 0.17, 0.05
    part = np.clip(battle.health[:, unit] / float(stats.health[unit]), 0.0, 1.0)
    shown = 1.0 * (battle.alive[:, unit] & ((part < 1.0) | (env.num_units <= _CROWD)))
    left, bottom = -width / 2, radius + 0.28
    color = _TEAMS[battle.team[unit]].bright
    frame = Rect(
        x=x, y=y, dx=left - edge, dy=bottom - edge, width=width + 2 * edge, height=height + 2 * edge,
        fill="#05070b", corner=0.08, alpha=0.85 * shown,
    )  # fmt: skip
    return [frame, Rect(x=x, y=y, dx=left, dy=bottom, width=width * part, height=height, fill=color, alpha=shown)]


def _tip(env: Drawable, battle: _Battle, stats: UnitStats, unit: int) -> Tip:
    names = np.array([*env.agents, *(f"enemy_{k}" for k in range(env.num_units - len(env.agents))), "-"])
    health = np.array([f"{value:.0f} / {stats.health[unit]:.0f}" for value in battle.health[:, unit]])
    cooldown = battle.cooldown[:, unit]
    return Tip(
        title=f"{names[unit]}, {env.unit_names[battle.unit_type[unit]]}",
        rows={
            "health": health,
            "cooldown": np.where(cooldown > 0, [f"{value:.2f} s" for value in cooldown], "ready"),
            "target": names[battle.target[:, unit]],
        },
    )


def _captions(env: Drawable, battle: _Battle, states: State) -> tuple[Caption, Caption, Caption]:
    def left_over(name: str, team: int) -> Caption:
        members = battle.team == team
        count = battle.alive[:, members].sum(1)
        return Caption(np.array([f"{name} {c} / {members.sum()}" for c in count]), _TEAMS[team].bright)

    steps = np.array([f"{env.name}   step {step}" for step in np.asarray(states.step)])
    return left_over("allies", 0), Caption(steps), left_over("enemies", 1)
