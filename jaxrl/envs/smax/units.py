"""Unit types, the armies made of them, and the named battles (SMAX, Rutherford et al. 2023,
https://arxiv.org/abs/2311.10090).
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxrl.config import typed
from jaxrl.envs.options import one_of
from jaxrl.envs.smax.terrain import Zone

__all__ = [
    "SCENARIOS",
    "UNIT_NAMES",
    "UNIT_TABLES",
    "UNIT_TYPES",
    "Scenario",
    "UnitStats",
    "UnitType",
    "all_types",
    "check_type",
    "default_unit_stats",
    "letters_of",
    "parse_army",
    "stats_of",
    "table",
]


class UnitType(NamedTuple):
    """One row of the table of unit types. Distances are in map units, centre to centre."""

    health: float
    damage: float  # per shot
    range: float
    cooldown: float  # seconds
    speed: float  # map units per second
    radius: float
    sight: float
    # What follows is off by default; docs/smax.md has the rules.
    shield: float = 0.0  # taken before the health
    shield_regen: float = 2.0  # per second
    shield_delay: float = 10.0  # seconds without a wound, after which the shield comes back
    regen: float = 0.0  # health per second
    armour: float = 0.0  # what the health does not lose of each hit
    hits: float = 1.0  # hits of one shot, each of them `damage`
    bonus: tuple[tuple[str, float], ...] = ()  # (type, damage that a hit on it adds)
    splash: float = 0.0  # what others lose who are in the ellipse about the target, as a share of a hit
    splash_radius: float = 0.0  # of the ellipse, across the line of fire
    splash_depth: float = 0.0  # along it
    suicide: bool = False  # the first shot kills it as well
    heal: float = 0.0  # health per second that it gives back to a mate in `range`: it is a healer, who cannot shoot
    energy: float = 0.0  # at most
    energy_start: float = 0.0
    energy_cost: float = 0.0  # per second of healing
    energy_regen: float = 0.0  # per second
    flies: bool = False  # over walls, zones and other units
    hits_air: bool = True
    hits_ground: bool = True
    sight_angle: float = 360.0  # degrees about the way it last walked or shot, in which it sees opponents
    price: float = 0.0  # for armies of equal price


UNIT_TYPES: dict[str, UnitType] = {
    "marine": UnitType(45.0, 9.0, 5.0, 0.61, 3.15, 0.375, 9.0, price=50),
    "marauder": UnitType(125.0, 10.0, 6.0, 1.07, 2.25, 0.5625, 10.0, price=125),
    "stalker": UnitType(160.0, 13.0, 6.0, 1.87, 4.13, 0.625, 10.0, price=175),
    "zealot": UnitType(150.0, 8.0, 2.0, 0.86, 3.15, 0.5, 9.0, price=100),
    "zergling": UnitType(35.0, 5.0, 2.0, 0.50, 4.13, 0.375, 8.0, price=25),
    "hydralisk": UnitType(80.0, 12.0, 5.0, 0.59, 3.15, 0.625, 9.0, price=150),
}
UNIT_NAMES = tuple(UNIT_TYPES)


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class UnitStats:
    """Statistics of the unit types, each an array `[K]` over K types. Distances are centre to centre, in map units.

    Those with a default are of groups, each of which is None where no unit of the battle has it. A None is part of the
    program's structure, so what a battle lacks adds nothing to it.
    """

    health: Any
    """Maximum health."""
    damage: Any
    """Health taken by one shot."""
    range: Any
    """Attack range."""
    cooldown: Any
    """Seconds from a shot until the weapon is ready again."""
    speed: Any
    """Map units per second."""
    radius: Any
    """Bodies closer than the sum of their radii push each other apart."""
    sight: Any
    """Sight range."""
    shield: Any = None
    shield_regen: Any = None
    shield_delay: Any = None
    regen: Any = None
    armour: Any = None
    hits: Any = None
    splash: Any = None
    splash_radius: Any = None
    splash_depth: Any = None
    suicide: Any = None
    heal: Any = None
    energy: Any = None
    energy_start: Any = None
    energy_cost: Any = None
    energy_regen: Any = None
    flies: Any = None
    hits_air: Any = None
    hits_ground: Any = None
    sight_angle: Any = None


_ARMOURED = ("marauder", "stalker", "colossus", "medivac", "spine_crawler")
_ARMOURED_5, _ARMOURED_10 = (tuple((name, extra) for name in _ARMOURED) for extra in (5.0, 10.0))
_LIGHT_5 = tuple((name, 5.0) for name in ("marine", "zealot", "zergling", "hydralisk"))
_ZERG: dict[str, Any] = {"regen": 0.38}
_GROUND: dict[str, Any] = {"hits_air": False}
_BEAM: dict[str, Any] = {"splash": 1, "splash_radius": 1.4, "splash_depth": 0.15}
_BLAST: dict[str, Any] = {"splash": 1, "splash_radius": 2.2, "splash_depth": 2.2, "suicide": True}
_HEALS: dict[str, Any] = {"heal": 9, "energy": 200, "energy_start": 50, "energy_cost": 3, "energy_regen": 0.5625}
# StarCraft's units with the numbers of SMAClite (Michalski et al. 2023, https://github.com/uoe-agents/smaclite), and
# SMAX's hydralisk. Ranges stand as there, from rim to rim, and `_centred` counts 0.7 for the target's body, which is
# 0.375 to 1 there; so the colossus is 0.625 wide rather than 1, or else no zergling would reach it. A baneling explodes
# about its target rather than itself, and beams are ellipses. Only the crawler looks farther than 9.
_SMAC = {
    "marine": UnitType(45, 6, 5, 0.61, 3.15, 0.375, 9),
    "marauder": UnitType(125, 10, 6, 1.07, 3.15, 0.5625, 9, armour=1, bonus=_ARMOURED_10, **_GROUND),
    "medivac": UnitType(150, 0, 4, 1.0, 3.5, 0.75, 9, armour=1, flies=True, **_HEALS),
    "stalker": UnitType(80, 13, 6, 1.34, 4.13, 0.625, 9, shield=80, armour=1, bonus=_ARMOURED_5),
    "zealot": UnitType(100, 8, 0.1, 0.86, 3.15, 0.5, 9, shield=50, armour=1, hits=2, **_GROUND),
    "colossus": UnitType(
        *(200, 10, 7, 1.07, 3.15, 0.625, 9), shield=150, armour=1, hits=2, bonus=_LIGHT_5, **_BEAM, **_GROUND
    ),
    "zergling": UnitType(35, 5, 0.1, 0.497, 4.13, 0.375, 9, **_ZERG, **_GROUND),
    "baneling": UnitType(30, 80, 0.25, 1.0, 3.15, 0.375, 9, **_BLAST, **_ZERG, **_GROUND),
    "hydralisk": UnitType(80, 12, 5, 0.59, 3.15, 0.625, 9, **_ZERG),
    "spine_crawler": UnitType(*(300, 25, 7, 1.32, 0, 0.5, 10), armour=2, bonus=_ARMOURED_5, **_ZERG, **_GROUND),
}

# TABX's units (https://github.com/ku-dmlab/TABX), whose sight reaches across its field, 121 x 78. There, a range begins
# at 0.7 of a unit's radius, and the target's body counts as large as its own; a farmer would not reach a mammoth, whose
# radius is 4.25, so it is 3 here. Healing comes evenly rather than every two seconds.
_FIELD = 144.0
_TABX = {
    "farmer": UnitType(60, 14, 2.5, 2.5, 1.1, 1, _FIELD, sight_angle=90, price=120),
    "assassin": UnitType(70, 22, 2.5, 1.5, 1.4, 1, _FIELD, sight_angle=90, price=430),
    "theking": UnitType(346, 46, 3.2, 2.5, 1.2, 1.47, _FIELD, sight_angle=90, price=1320),
    "mammoth": UnitType(685, 20, 3, 6.5, 1.2, 3, _FIELD, sight_angle=90, price=980),
    "archer": UnitType(40, 28, 27, 8, 1, 1, _FIELD, sight_angle=90, price=450),
    "cannon": UnitType(100, 80, 40, 10, 0.5, 1, _FIELD, sight_angle=90, price=1080),
    "deadeye": UnitType(40, 25, 20, 8, 1.1, 1, _FIELD, sight_angle=90, price=470),
    "healer": UnitType(25, 0, 10, 2, 1, 1, _FIELD, sight_angle=90, heal=3.5, price=190),
    "paladin": UnitType(220, 0, 7.5, 2, 1.2, 1.32, _FIELD, sight_angle=90, heal=3, price=230),
}


def _centred(types: dict[str, UnitType], own: float, other: float) -> dict[str, UnitType]:
    """The types with ranges from centre to centre: `own` of their radius more, and `other` for the target's body."""
    return {name: unit._replace(range=round(unit.range + own * unit.radius + other, 4)) for name, unit in types.items()}


UNIT_TABLES: dict[str, dict[str, UnitType]] = {
    "smax": UNIT_TYPES,
    "smac": _centred(_SMAC, 1.0, 0.7),
    "tabx": _centred(_TABX, 1.7071, 0.0),
}


def all_types(own: Any, units: str = "smax") -> dict[str, Any]:
    """The types of a table of `UNIT_TABLES`, and the user's own ones in addition or instead.

    Raises:
        ValueError: `own` is not a dict, or there is no such table.
    """
    one_of("units", units, tuple(UNIT_TABLES))
    if not isinstance(own, Mapping | None):
        raise ValueError(f"unit_types is a dict of types by name, such as {{'tank': (…)}}, not a {type(own).__name__}.")
    return {**UNIT_TABLES[units], **(own or {})}


_GROUPS = (  # the fields that decide whether a group is on, and those that go with them
    (("shield",), ("shield_regen", "shield_delay")),
    (("regen",), ()),
    (("armour", "hits", "bonus"), ()),
    (("splash",), ("splash_radius", "splash_depth")),
    (("suicide",), ()),
    (("heal",), ("energy", "energy_start", "energy_cost", "energy_regen")),
    (("flies",), ("hits_air", "hits_ground")),
    (("sight_angle",), ()),
)


def table(types: Mapping[str, Any], used: Iterable[int] = ()) -> tuple[UnitStats, np.ndarray | None]:
    """The statistics of named types as NumPy arrays `[K]`, in the order given, and the bonuses of hits `[K, K]`.

    Args:
        types: For each name a `UnitType`, a tuple of its numbers or a dict of them.
        used: The indices of the types that the battle has; groups of statistics that none of them has are None.

    Raises:
        ValueError: A row lacks the first seven numbers, or has one that is invalid in a battle; the message names both.
    """
    rows = [check_type(name, row, tuple(types)) for name, row in types.items()]
    here = [rows[kind] for kind in used]
    columns: dict[str, np.ndarray] = {
        name: np.asarray([getattr(row, name) for row in rows], np.float32) for name in UnitType._fields[:7]
    }
    default = UnitType._field_defaults
    for deciding, others in _GROUPS:
        if any(getattr(row, field) != default[field] for row in here for field in deciding):
            for field in (*deciding, *others):
                kind = np.bool_ if isinstance(default[field], bool) else np.float32
                if field != "bonus":
                    columns[field] = np.asarray([getattr(row, field) for row in rows], kind)
    bonus = [[dict(row.bonus).get(name, 0.0) for name in types] for row in rows]
    return UnitStats(**columns), np.asarray(bonus, np.float32) if "armour" in columns else None


def check_type(name: str, row: Any, names: tuple[str, ...]) -> UnitType:
    """A row of the table, checked; raises ValueError otherwise. `names` are the types on which it can have a bonus."""
    try:
        unit = UnitType(**row) if isinstance(row, Mapping) else UnitType(*row)
    except TypeError:
        fields = ", ".join(UnitType._fields[:7])
        others = ", ".join(UnitType._fields[7:])
        raise ValueError(
            f"The unit type {name!r} needs these seven numbers: {fields}; it may have {others}; got {row!r}."
        ) from None
    for field, value in unit._asdict().items():
        what = f"{field} of the unit type {name!r}"
        if field == "bonus":
            for other, extra in value:
                typed(what, float, extra)
                if other not in names:
                    raise ValueError(f"{what} is on {other!r}, which is none of {', '.join(names)}.")
            continue
        number = typed(what, type(UnitType._field_defaults.get(field, 0.0)), value)
        lowest_is_zero = field in ("damage", "range", "speed", "radius") or field in UnitType._field_defaults
        if number < 0 or (number == 0 and not lowest_is_zero):
            raise ValueError(f"{what} must be a positive number, got {value!r}.")
    return unit


def default_unit_stats() -> UnitStats:
    """The six types of SMAX, as NumPy arrays `[6]` in the order of `UNIT_NAMES`."""
    return table(UNIT_TYPES)[0]


def stats_of(table: UnitStats, unit_type: Any) -> UnitStats:
    """The statistics of units of the given types: leaves shaped like `unit_type`."""

    def look_up(column: Any) -> Any:
        if isinstance(unit_type, np.ndarray):
            return column[unit_type]
        out = jnp.broadcast_to(column[0], unit_type.shape)
        for kind in range(1, column.shape[0]):  # a few choices fuse into what follows, a gather does not
            out = jnp.where(unit_type == kind, column[kind], out)
        return out

    return jax.tree.map(look_up, table)


_LETTERS = {"m": "marine", "M": "marauder", "s": "stalker", "z": "zealot", "h": "hydralisk"}  # SMAC's map names
_LETTERS |= {"b": "baneling", "c": "colossus", "d": "medivac", "sc": "spine_crawler", "zg": "zergling"}


@dataclasses.dataclass(frozen=True)
class Scenario:
    """Who fights whom, and how a battle begins."""

    allies: tuple[int, ...]
    """The unit types of the A allies, indices into the table of unit types."""
    enemies: tuple[int, ...]
    """The unit types of the E enemies."""
    spawn: Literal["sides", "smacv2"] = "sides"
    """`"sides"`: each team around the middle of its half. `"smacv2"`: surrounded, or scattered and mirrored."""
    random_types: bool = False
    """True if every episode draws new types (`allies` and `enemies` then only give the number of units)."""
    units: str = "smax"
    """The table of unit types, of `UNIT_TABLES`."""
    own_types: tuple[tuple[str, UnitType], ...] = ()
    """Further types of its own, which may replace some of the table."""
    places: tuple[tuple[float, float], ...] = ()
    """Where each of the N units begins, in map units; () where `spawn` decides."""
    jitter: float = 0.0
    """How far from its place a unit may begin, in each direction."""
    variable: bool = False
    """True if `params.lineup` decides who is there, so that battles of different sizes are one program."""
    zones: tuple[Zone, ...] = ()
    map_size: float | tuple[float, float] = 32.0
    max_steps: int = 100
    deadly_border: bool = True
    """Whether touching the map's border kills, as in JaxMARL."""
    script: str | None = None
    """Who plays the enemies, see `orders.SCRIPTS`."""

    @property
    def unit_types(self) -> tuple[int, ...]:
        """The types of all N = A + E units, allies first."""
        return self.allies + self.enemies


def parse_army(army: str | Sequence[str], names: tuple[str, ...] = UNIT_NAMES) -> tuple[int, ...]:
    """The unit types of an army, as indices into `names`, in the order written.

    Args:
        army: Counts and types such as `"3s5z"` or `"2zergling1marauder"`, or a list of type names. For letters see
            `letters_of`.
        names: The existing types.

    Raises:
        ValueError: The text has another form, or contains no unit; the message shows the form.
    """
    if isinstance(army, str):
        if not re.fullmatch(r"(\d+[A-Za-z_]+)+", army):
            raise ValueError(f"An army is written as counts and types, such as {_forms(names)}; got {army!r}.")
        words = [word for count, word in re.findall(r"(\d+)([A-Za-z_]+)", army) for _ in range(int(count))]
    elif isinstance(army, Sequence):
        words = list(army)
    else:
        raise ValueError(f"An army is written as counts and types, such as {_forms(names)}; got {army!r}.")
    if not words:
        raise ValueError(f"An army needs at least one unit; got {army!r}.")
    letters = letters_of(names)
    units = [word if word in names else letters.get(word, word) for word in words]
    for unit in units:
        if unit not in names:
            raise ValueError(f"There is no unit type {unit!r}; an army is written such as {_forms(names)}.")
    return tuple(names.index(unit) for unit in units)


def letters_of(names: Iterable[str]) -> dict[str, str]:
    """What stands for each of these types in an army: SMAC's letters, such as m, and TABX's capitals, such as F."""
    pairs = [*_LETTERS.items(), *zip("FSKMACDHP", _TABX, strict=True)]
    return {letter: name for letter, name in pairs if name in names}


def _forms(names: tuple[str, ...]) -> str:
    known = letters_of(names)
    letters = ", ".join(f"{letter} {name}" for letter, name in known.items())
    example = "3s5z" if {"s", "z"} <= set(known) else "2F1K"
    return f"{example} ({letters}) or 2{names[-1]} (any of {', '.join(names)})"


def _named(name: str) -> Scenario:
    allies, _, enemies = name.partition("_vs_")
    return Scenario(parse_army(allies), parse_army(enemies or allies))


_EVEN = ("3m", "8m", "25m", "2s3z", "3s5z")
_UNEVEN = ("5m_vs_6m", "10m_vs_11m", "27m_vs_30m", "3s5z_vs_3s6z", "3s_vs_5z", "6h_vs_8z")

SCENARIOS: dict[str, Scenario] = {
    **{name: _named(name) for name in _EVEN + _UNEVEN},
    **{f"smacv2_{n}_units": Scenario((0,) * n, (0,) * n, "smacv2", random_types=True) for n in (5, 10, 20)},
}
