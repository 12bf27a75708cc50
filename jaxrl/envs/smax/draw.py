"""Pictures of SMAX battles: the map, where units are, how healthy they are, and who shoots or heals whom."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any, NamedTuple, Protocol

import numpy as np

from jaxrl.envs.smax import terrain
from jaxrl.envs.smax.state import Params, State
from jaxrl.envs.smax.units import UnitStats, stats_of
from jaxrl.render.scene import Caption, Circle, Ellipse, Line, Polygon, Rect, Scene, Shape, Text, Tip

__all__ = ["draw", "targets"]


class _Team(NamedTuple):
    """The colours of a team, distinguishable with any colour vision."""

    body: str
    edge: str
    bright: str  # shots, health


_TEAMS = (_Team("#2f7fd6", "#9fd0ff", "#7fc4ff"), _Team("#d9761c", "#ffd2a1", "#ffb36b"))
_OUTSIDE, _FIELD, _GRID, _BORDER = "#0b0f16", "#151c28", "#1c2635", "#33435c"
_SHIELD, _ENERGY, _HEAL = "#f4f7fb", "#c792ff", "#4fe08a"
# The letter and the sides of the body of each unit type; 0 is round, and with fewer than 0 the body lies on a side
# instead of standing on a corner or the other way round. Types of the user's own look alike otherwise.
_LOOKS = {
    "marine": ("m", 0), "marauder": ("M", 6), "stalker": ("s", 4), "zealot": ("Z", 5), "zergling": ("z", 3),
    "hydralisk": ("h", 8), "baneling": ("b", 0), "colossus": ("c", -4), "medivac": ("d", -6),
    "spine_crawler": ("S", -3), "roach": ("r", -5), "farmer": ("F", 0), "assassin": ("S", 3), "theking": ("K", 5),
    "mammoth": ("M", 8), "archer": ("A", 4), "cannon": ("C", -4), "deadeye": ("D", -3), "healer": ("H", 6),
    "paladin": ("P", -5),
}  # fmt: skip
_OWN_SIDES = 7
_SHOT_FADE = np.array([1.0, 0.7, 0.4, 0.15])  # by frames since the shot
_HIT_FADE = np.array([0.5, 0.35, 0.2, 0.1])
_GRID_STEP = 2.0
_FIRST_ATTACK = 5
_CROWD = 12  # with more units, ranges and full health bars would hide the battle
_LARGE = 50.0  # on wider views, lines are thicker than their lengths below say
_LOW_WALL = -1
_WAVE = tuple((k / 3, -0.4 * float(np.sin(np.pi * k / 3))) for k in range(-3, 4))
_GRASS = tuple(((0.35 * x, -0.6), (x, y)) for x, y in ((-0.8, 0.4), (0.0, 0.7), (0.8, 0.4)))
_FLAME = ((-0.7, -0.5), (0.0, 0.6), (0.7, -0.5))
_BRICKS = tuple(((-0.8, y), (0.8, y)) for y in (-0.3, 0.3))
# The kinds of zones, the later ones on top: their fill, edge and effect, and the strokes of their sign, from -1 to 1.
_GROUNDS = (
    (terrain.SLOW, "slow ground", "#17393d", "#4f9c9f", "takes {:.0%} of the speed", (_WAVE,)),
    (terrain.COVER, "cover", "#17331b", "#5f9e57", "hides those in it", _GRASS),
    (terrain.BURN, "fire", "#471618", "#d25a41", "takes {:.3g} health per second", (_FLAME,)),
    (_LOW_WALL, "low wall", "#7d838d", "#b9bfc8", "stops walkers, not shots", _BRICKS),
    (terrain.WALL, "wall", "#4b515b", "#8d95a1", "stops walkers, sight and shots", ()),
)


class _Battle(NamedTuple):
    """The input of all drawing below: NumPy arrays over F frames and N units."""

    position: np.ndarray  # [F, N, 2]
    health: np.ndarray  # [F, N]
    alive: np.ndarray  # [F, N]
    cooldown: np.ndarray  # [F, N]
    target: np.ndarray  # [F, N] index of the attacked or healed unit, or -1
    heading: np.ndarray  # [F, N, 2] unit vectors, the direction of the weapon
    shot: np.ndarray  # [F, N] brightness of the flash of a shot
    hit: np.ndarray  # [F, N] brightness of a wound
    heals: np.ndarray  # [F, N] who gives health to the target
    opacity: np.ndarray  # [F, N] of the bodies, 0 for the dead
    meters: list[tuple[str, np.ndarray, np.ndarray, str]]  # (name, what is left [F, N], at most [N], colour)
    there: np.ndarray  # [N] whose places are taken
    crowded: bool
    unit_type: np.ndarray  # [N]
    team: np.ndarray  # [N] 0 or 1
    thick: float = 1.0  # how much thicker lines are than usual


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
    stats = stats_of(params.units, np.asarray(states.unit_type)[0])
    battle = _battle(env, states, params, stats)
    size = (float(params.map_width), float(params.map_height))
    # Callers may combine pictures of single states, so these must all show the same part of the map.
    view = (0.0, 0.0, *size) if len(states.step) == 1 else _view(battle, size)
    battle = battle._replace(thick=max(1.0, (view[2] - view[0]) / _LARGE))
    shapes = _map(size, view, battle.thick)
    if params.zones is not None:
        shapes += _zones(params.zones, view[2] - view[0])
        (width, height), beyond = size, (-1, 1)  # beyond the border they are not seen
        shapes += [Rect(x=i * width, y=-height, width=width, height=3 * height, fill=_OUTSIDE) for i in beyond]
        shapes += [Rect(x=-width, y=i * height, width=3 * width, height=height, fill=_OUTSIDE) for i in beyond]
    units = np.flatnonzero(battle.there).tolist()
    if stats.flies is not None:
        units.sort(key=lambda unit: bool(stats.flies[unit]))  # those in the air are on top
    layers = (_ranges, _corpses, _bodies, _shots, _beams, _bars)
    for layer in layers:
        for unit in units:
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
    """The target or patient of each unit, as an index among all N units or -1, from `attack[F, N]`: 0 or 5+k."""
    aimed, numbers = attack - _FIRST_ATTACK, np.arange(attack.shape[1])
    is_ally = numbers < num_allies
    # Enemies number the allies in reverse.
    unit = np.where(is_ally, num_allies + aimed, num_allies - 1 - aimed)
    # What is beyond the opponents are mates, without the unit itself.
    mate = aimed - np.where(is_ally, len(numbers) - num_allies, num_allies)
    own = mate + np.where(is_ally, 0, num_allies)
    unit = np.where(mate >= 0, own + (own >= numbers), unit)
    return np.where(aimed >= 0, unit, -1)


def _battle(env: Drawable, states: State, params: Params, stats: UnitStats) -> _Battle:
    position, health, cooldown = (np.asarray(v, np.float64) for v in (states.position, states.health, states.cooldown))
    alive = health > 0
    target = targets(np.asarray(states.attack), env.num_allies)
    aimed_at = np.take_along_axis(position, np.maximum(target, 0)[..., None], axis=1)
    team = (np.arange(env.num_units) >= env.num_allies).astype(int)
    fired = np.zeros_like(alive)
    fired[1:] = (np.diff(cooldown, axis=0) > 0) & (target[1:] >= 0) & alive[:-1]
    meters = (("shield", states.shield, stats.shield, _SHIELD), ("energy", states.energy, stats.energy, _ENERGY))
    meters = [(name, np.asarray(left, float), most, color) for name, left, most, color in meters if left is not None]
    there = np.asarray(states.unit_type)[0] >= 0
    hidden, burnt = _on_ground(position, states, params, stats)
    wounded, works = np.zeros_like(alive), np.zeros_like(alive)
    wounded[1:] = np.diff(health, axis=0) < -burnt[1:]
    if states.shield is not None:
        wounded[1:] |= np.diff(states.shield, axis=0) < 0
    if states.energy is not None:
        gained = np.take_along_axis(np.diff(health, axis=0), np.maximum(target, 0)[1:], axis=1)
        works[1:] = (gained > 0) | (np.diff(states.energy, axis=0) < 0)
    return _Battle(
        position=position,
        health=health,
        alive=alive,
        cooldown=cooldown,
        target=np.where(alive if stats.suicide is None else alive | stats.suicide, target, -1),
        heading=_heading(np.where((target >= 0)[..., None], aimed_at - position, states.move), team),
        shot=_fading(fired, _SHOT_FADE),
        hit=_fading(wounded, _HIT_FADE) * alive,
        heals=works & alive & (target >= 0) & (team[target] == team),
        opacity=np.where(hidden, 0.5, 1.0) * alive,
        meters=meters,
        there=there,
        crowded=there.sum() > _CROWD,
        unit_type=np.asarray(states.unit_type)[0],
        team=team,
    )


def _on_ground(position: np.ndarray, states: State, params: Params, stats: UnitStats) -> tuple[np.ndarray, np.ndarray]:
    """Whom cover hides from those outside, and the most health that fire takes in a frame: each `[F, N]`."""
    if params.zones is None:
        return np.zeros(position.shape[:2], bool), np.zeros(position.shape[:2])
    far, place = np.full((1, 1), np.inf), (position[..., 0], position[..., 1])
    hidden = np.asarray(terrain.hidden(params.zones, (far, far), place))[0]  # pyright: ignore
    burnt = np.asarray(terrain.burn(params.zones, *place)) * 8.1 * params.time_per_step  # pyright: ignore
    walks = np.ones(position.shape[1], bool) if stats.flies is None else ~np.asarray(stats.flies)
    return hidden & walks & ~(np.asarray(states.exposed) > 0), burnt * walks


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
    position = battle.position[:, battle.there]
    low, high = position.min((0, 1)) - 2.0, position.max((0, 1)) + 2.0
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


def _zones(zones: terrain.Zones, wide: float) -> list[Shape]:
    """Zones with an edge and signs in rows; those of one kind that overlap look like one. `wide` is the view."""
    effect, is_round, spacing = np.asarray(zones.effect), np.asarray(zones.round), wide / 14
    kinds = np.where((np.asarray(zones.kind) == terrain.WALL) & (effect <= 0), _LOW_WALL, zones.kind)
    boxes = np.stack([zones.x, zones.y, zones.half_width, zones.half_height], axis=-1).astype(float)
    shapes: list[Shape] = []
    for kind, title, inner, edge, says, sign in _GROUNDS:
        members = np.flatnonzero(kinds == kind)
        for margin, fill in ((0.0, edge), (wide / 200, inner)):
            for k in members:
                x, y, across, up = boxes[k] - (0.0, 0.0, margin, margin)
                shape, tip = Ellipse if is_round[k] else Rect, Tip(title, {"effect": says.format(effect[k])})
                shapes.append(shape(x=x, y=y, dx=-across, dy=-up, width=2 * across, height=2 * up, fill=fill, tip=tip))
        for k in members:
            x, y, across, up = boxes[k]
            columns, rows = (max(1, round(2 * half / spacing)) for half in (across, up))
            for i, j in np.ndindex(columns, rows):
                a, b = (2 * i + 1) / columns - 1, (2 * j + 1) / rows - 1
                if not is_round[k] or a * a + b * b < 0.65:
                    size = min(0.22 * spacing, 0.5 * across, 0.5 * up)
                    shapes += _sign(sign, x + a * across, y + b * up, size, edge, wide / 320)
    return shapes


def _sign(sign: tuple[Any, ...], x: float, y: float, size: float, color: str, wide: float) -> list[Shape]:
    pairs = ((size * np.array(pair)) for stroke in sign for pair in itertools.pairwise(stroke))
    return [Line(x=x + a, y=y + b, dx=c - a, dy=d - b, stroke=color, stroke_width=wide) for (a, b), (c, d) in pairs]


def _map(size: tuple[float, float], view: tuple[float, float, float, float], thick: float) -> list[Shape]:
    width, height = size
    shapes: list[Shape] = [Rect(x=0.0, y=0.0, width=width, height=height, fill=_FIELD)]
    thin = (view[2] - view[0]) / 480  # a pixel of a small picture
    step = _GRID_STEP * np.ceil(thick)
    for x in np.arange(step, width, step):
        shapes.append(Line(x=float(x), y=0.0, dx=0.0, dy=height, stroke=_GRID, stroke_width=thin))
    for y in np.arange(step, height, step):
        shapes.append(Line(x=0.0, y=float(y), dx=width, dy=0.0, stroke=_GRID, stroke_width=thin))
    for x, y, dx, dy in ((0, 0, width, 0), (0, height, width, 0), (0, 0, 0, height), (width, 0, 0, height)):
        shapes.append(Line(x=x, y=y, dx=dx, dy=dy, stroke=_BORDER, stroke_width=2 * thin))
    return shapes


def _ranges(env: Drawable, battle: _Battle, stats: UnitStats, unit: int) -> list[Shape]:
    if battle.crowded:
        return []
    x, y = battle.position[:, unit].T
    color = _TEAMS[battle.team[unit]].body
    faint, wide = 0.2 * battle.alive[:, unit], 0.04 * battle.thick
    return [Circle(x=x, y=y, radius=float(stats.range[unit]), stroke=color, stroke_width=wide, alpha=faint)]


def _corpses(env: Drawable, battle: _Battle, stats: UnitStats, unit: int) -> list[Shape]:
    """A cross where a unit died, which fades within a second."""
    alive = battle.alive[:, unit]
    age = np.arange(len(alive)) - alive.sum()
    faded = np.where(alive, 0.0, np.clip(0.9 - 0.04 * age, 0.25, 0.9))
    x, y = battle.position[:, unit].T
    arm, wide = 0.7 * float(stats.radius[unit]), 0.14 * battle.thick
    color = _TEAMS[battle.team[unit]].body
    return [
        Line(x=x - arm, y=y - side * arm, dx=2 * arm, dy=2 * side * arm, stroke=color, stroke_width=wide, alpha=faded)
        for side in (1, -1)
    ]


def _bodies(env: Drawable, battle: _Battle, stats: UnitStats, unit: int) -> list[Shape]:
    x, y = battle.position[:, unit].T
    alive = battle.opacity[:, unit]
    team, name = _TEAMS[battle.team[unit]], env.unit_names[battle.unit_type[unit]]
    base = name if name in _LOOKS else name.rpartition("_")[0]  # a variant such as theking_2
    sign, sides = _LOOKS.get(base, (name[:1], _OWN_SIDES))
    radius, outline, wide = float(stats.radius[unit]), 0.07 * battle.thick, 0.16 * battle.thick
    barrel = (radius + 0.3 * battle.thick) * battle.heading[:, unit]
    weapon = Line(x=x, y=y, dx=barrel[:, 0], dy=barrel[:, 1], stroke=team.edge, stroke_width=wide, alpha=alive)
    tip = _tip(env, battle, stats, unit)
    if sides:
        corner, angle = radius * 1.12, np.pi / 2  # about the area of the disc
        if sides < 0:
            sides, angle = -sides, angle + np.pi / sides
        body: Circle = Polygon(
            x=x, y=y, radius=corner, sides=sides, angle=angle, fill=team.body, stroke=team.edge,
            stroke_width=outline, alpha=alive, tip=tip,
        )  # fmt: skip
    else:
        body = Circle(
            x=x, y=y, radius=radius, fill=team.body, stroke=team.edge, stroke_width=outline, alpha=alive, tip=tip
        )
    wound = replace(body, fill="#ffffff", stroke=None, stroke_width=0.0, alpha=battle.hit[:, unit], tip=None)
    letter = Text(x=x, y=y, text=sign, size=1.25 * radius, fill="#ffffff", alpha=alive)
    halo: list[Shape] = []
    if stats.flies is not None and stats.flies[unit]:  # a shadow and a ring
        halo.append(Circle(x=x + 0.35 * radius, y=y - 0.6 * radius, radius=radius, fill="#000000", alpha=0.5 * alive))
        ring, faint = 1.35 * radius, 0.6 * alive
        halo.append(Circle(x=x, y=y, radius=ring, stroke=team.edge, stroke_width=outline, alpha=faint))
    return [*halo, weapon, body, wound, letter]


def _shots(env: Drawable, battle: _Battle, stats: UnitStats, unit: int) -> list[Shape]:
    """A tracer from the weapon to the target's edge."""
    alpha, thick = battle.shot[:, unit], battle.thick
    frames = np.arange(len(alpha))
    target = np.maximum(battle.target[:, unit], 0)
    # Target and aim may change while the flash fades, so those from the frame of the shot are used.
    since = np.searchsorted(_SHOT_FADE[::-1], alpha)
    since = np.where(alpha > 0, len(_SHOT_FADE) - 1 - since, 0)
    x, y, dx, dy = _way(battle, stats, unit, target[frames - since], alpha > 0)
    color = _TEAMS[battle.team[unit]].bright
    shapes: list[Shape] = [
        Line(x=x, y=y, dx=dx, dy=dy, stroke=color, stroke_width=0.26 * thick, alpha=0.35 * alpha),
        Line(x=x, y=y, dx=dx, dy=dy, stroke="#ffffff", stroke_width=0.09 * thick, alpha=alpha),
        Circle(x=x + dx, y=y + dy, radius=0.22 * thick, fill="#ffffff", alpha=0.8 * alpha),
    ]
    if stats.splash is not None and stats.splash[unit] > 0:
        blast = float(max(stats.splash_radius[unit], stats.splash_depth[unit]))
        shapes.append(Circle(x=x + dx, y=y + dy, radius=blast, fill=color, alpha=0.3 * alpha))
    return shapes


def _way(battle: _Battle, stats: UnitStats, unit: int, target: np.ndarray, lit: np.ndarray) -> list[np.ndarray]:
    """`(x, y, dx, dy)` from the weapon of a unit to the edge of its `target[F]` where `lit[F]`."""
    start = battle.position[:, unit]
    reach = battle.position[np.arange(len(target)), target] - start
    length = np.maximum(np.linalg.norm(reach, axis=-1, keepdims=True), 1e-6)
    begin = reach / length * np.minimum(stats.radius[unit] + 0.3 * battle.thick, length)
    end = reach / length * np.maximum(length - 0.6 * np.asarray(stats.radius)[target][:, None], 0.0)
    begin, along = np.where(lit[:, None], begin, 0.0), np.where(lit[:, None], end - begin, 0.0)
    return [*(start + begin).T, *along.T]


def _beams(env: Drawable, battle: _Battle, stats: UnitStats, unit: int) -> list[Shape]:
    """A green beam from a healer to its patient while it works, with a plus sign where it ends."""
    works = battle.heals[:, unit]
    if not works.any():
        return []
    patient = np.where(works, battle.target[:, unit], unit)
    jump = np.append(np.diff(patient) != 0, False)
    x, y, dx, dy = _way(battle, stats, unit, patient, works)
    arm = 0.3 * battle.thick
    across, upright = (x + dx - arm, y + dy, 2 * arm, 0.0), (x + dx, y + dy - arm, 0.0, 2 * arm)
    strokes = (((x, y, dx, dy), 0.3, 0.3), ((x, y, dx, dy), 0.1, 0.9), (across, 0.2, 1.0), (upright, 0.2, 1.0))
    return [
        Line(x=x, y=y, dx=dx, dy=dy, stroke=_HEAL, stroke_width=wide * battle.thick, alpha=alpha * works, jump=jump)
        for (x, y, dx, dy), wide, alpha in strokes
    ]


def _bars(env: Drawable, battle: _Battle, stats: UnitStats, unit: int) -> list[Shape]:
    """Bars above the bodies: health, shield, energy; in a crowd only for wounded units, lest they hide bodies."""
    x, y = battle.position[:, unit].T
    radius, thick = float(stats.radius[unit]), battle.thick
    width, height, edge = max(2.3 * radius, 0.95 * thick), 0.17 * thick, 0.05 * thick
    left, bottom = -width / 2, radius + 0.28 * thick
    rows = [(height, battle.health[:, unit] / float(stats.health[unit]), _TEAMS[battle.team[unit]].bright)]
    rows += [(0.6 * height, v[:, unit] / float(m[unit]), color) for _, v, m, color in battle.meters if m[unit] > 0]
    hurt = np.any([part < 1.0 for _, part, color in rows if color != _ENERGY], axis=0)
    shown = 1.0 * (battle.alive[:, unit] & (hurt | (not battle.crowded)))
    bars: list[Shape] = []
    up = bottom
    for high, part, color in rows:
        long = width * np.clip(part, 0.0, 1.0)
        bars.append(Rect(x=x, y=y, dx=left, dy=up, width=long, height=high, fill=color, alpha=shown))
        up += high + edge
    frame = Rect(
        x=x, y=y, dx=left - edge, dy=bottom - edge, width=width + 2 * edge, height=up - bottom + edge,
        fill="#05070b", corner=0.08 * thick, alpha=0.85 * shown,
    )  # fmt: skip
    return [frame, *bars]


def _tip(env: Drawable, battle: _Battle, stats: UnitStats, unit: int) -> Tip:
    names = np.array([*env.agents, *(f"enemy_{k}" for k in range(env.num_units - len(env.agents))), "-"])
    health = np.array([f"{value:.0f} / {stats.health[unit]:.0f}" for value in battle.health[:, unit]])
    cooldown = battle.cooldown[:, unit]
    rows = {"health": health}
    for label, left, most, _ in battle.meters:
        if most[unit] > 0:
            rows[label] = np.array([f"{value:.0f} / {most[unit]:.0f}" for value in left[:, unit]])
    rows["cooldown"] = np.where(cooldown > 0, [f"{value:.2f} s" for value in cooldown], "ready")
    rows["target"] = names[battle.target[:, unit]]
    return Tip(title=f"{names[unit]}, {env.unit_names[battle.unit_type[unit]]}", rows=rows)


def _captions(env: Drawable, battle: _Battle, states: State) -> tuple[Caption, Caption, Caption]:
    def left_over(name: str, team: int) -> Caption:
        members = (battle.team == team) & battle.there
        count = battle.alive[:, members].sum(1)
        return Caption(np.array([f"{name} {c} / {members.sum()}" for c in count]), _TEAMS[team].bright)

    steps = np.array([f"{env.name}   step {step}" for step in np.asarray(states.step)])
    return left_over("allies", 0), Caption(steps), left_over("enemies", 1)
