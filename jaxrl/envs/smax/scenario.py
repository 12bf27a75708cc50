"""Battles by name and as text: lines `key: value`, and after an empty line or `map:` perhaps a drawing.

    units: smac
    m: ally marine
    k: enemy zealot health 200

    ...........
    .mm..##..k.
    .mm..##..k.
    ...........

A `|` ends a line as well, so that a text can stand in the name of an environment.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from jaxrl.envs.options import one_of, whole
from jaxrl.envs.smax.orders import MIXTURES, SCRIPTS
from jaxrl.envs.smax.state import SMALLEST_MAP
from jaxrl.envs.smax.terrain import Zone, zones_of
from jaxrl.envs.smax.units import SCENARIOS, UNIT_TABLES, Scenario, UnitType, check_type, letters_of, parse_army
from jaxrl.errors import UnknownNameError, nearest

__all__ = ["NAMED", "parse_scenario", "parts", "rectangles", "scenario_of", "scenario_text"]

_FOLDER = Path(__file__).parent / "scenarios"
NAMED = tuple(sorted(file.stem for file in _FOLDER.glob("*.txt")))
"""The battles of the folder `scenarios`."""

_YES = ("yes", "no")
_CHOICES = {"units": tuple(UNIT_TABLES), "script": (*SCRIPTS, *MIXTURES), "spawn": ("sides", "smacv2")}
_CHOICES |= {"random_types": _YES, "variable": _YES, "deadly_border": _YES}
_NUMBERS = ("max_steps", "jitter", "cell", "slow", "burn")
_SEVERAL = ("zone", "place", "type")  # which a text may have more than once
_KEYS = (*_CHOICES, *_NUMBERS, "allies", "enemies", "size", *_SEVERAL)
_TILES = {"#": "wall", "=": "wall", "~": "slow", '"': "cover", "^": "burn"}


def scenario_of(name: str) -> Scenario:
    """The battle of that name, or the one that a text describes.

    Raises:
        UnknownNameError: There is none; the message names the nearest.
        ValueError: The text has a mistake; the message says where.
    """
    if name in SCENARIOS:
        return SCENARIOS[name]
    if name in NAMED:
        return parse_scenario((_FOLDER / f"{name}.txt").read_text(encoding="utf-8"))
    if any(sign in name for sign in "\n|:"):
        return parse_scenario(name)
    hint = nearest(name, [*SCENARIOS, *NAMED])
    raise UnknownNameError(f'SMAX has no scenario {name!r}. {hint} Or give allies="3s5z", enemies="3s6z".')


class _Word(NamedTuple):
    """A part of a text, and where it begins."""

    text: str
    line: int
    column: int

    def error(self, message: object) -> ValueError:
        return ValueError(f"Line {self.line}, column {self.column}: {message}")

    def checked(self, check: Callable[..., Any], *args: Any) -> Any:
        """`check(*args)`, whose ValueError says what is wrong here."""
        try:
            return check(*args)
        except ValueError as error:
            raise self.error(error) from None

    def split(self, least: int, example: str) -> list[_Word]:
        """Its words, which are at least so many."""
        words = [_Word(m[0], self.line, self.column + m.start()) for m in re.finditer(r"\S+", self.text)]
        if len(words) < least:
            raise self.error(f"Something is missing; write it like `{example}`.")
        return words

    @property
    def number(self) -> float:
        if not re.fullmatch(r"[-+]?(\d+\.?\d*|\.\d+)(e[-+]?\d{1,2})?", self.text):
            raise self.error(f"{self.text!r} is not a number.")
        return float(self.text)


class _Unit(NamedTuple):
    """A unit, its place, and what stands for it in the text."""

    team: str
    kind: str
    x: float
    y: float
    word: _Word


def parse_scenario(text: str) -> Scenario:
    """The battle that a text describes.

    Raises:
        ValueError: It has a mistake; the message says in which line and column, and what to type instead.
    """
    header, rows, end = parts(text)
    once = {key: lines[0] for key, lines in header.items()}
    given: dict[str, Any] = {key: once[key].number for key in _NUMBERS if key in once}
    for key in (key for key in _CHOICES if key in once):
        value = once[key].checked(one_of, key, once[key].text, _CHOICES[key])
        given[key] = value == "yes" if value in _YES else value
    if "max_steps" in given:
        given["max_steps"] = once["max_steps"].checked(whole, "max_steps", given["max_steps"])
    units = given.get("units", "smax")
    types, own, legend = _types(header, UNIT_TABLES[units])
    zones = [_zone(line) for line in header.get("zone", ())]
    standing = [unit for line in header.get("place", ()) for unit in _placed(line, types)]
    size = _size(once, given, rows, end)
    if rows:
        zones += _drawn_zones(rows, once, size[1] / len(rows))
        standing += _drawn_units(rows, legend, size[1] / len(rows))
    for unit in standing:
        _check_place(unit, types[unit.kind], zones, size, given.get("jitter", 0.0))
    standing.sort(key=lambda unit: unit.team)  # allies first
    allies, enemies = (_army(key, once, standing, tuple(types), end) for key in ("allies", "enemies"))
    return Scenario(
        allies,
        enemies,
        own_types=tuple(own.items()),
        places=tuple((unit.x, unit.y) for unit in standing),
        zones=tuple(zones),
        map_size=size[0] if size[0] == size[1] else size,
        **{key: value for key, value in given.items() if key not in ("cell", "slow", "burn")},
    )


def parts(text: str) -> tuple[dict[str, list[_Word]], list[_Word], _Word]:
    """The values of each key, the rows of the drawing, and the end of the text."""
    lines = re.split(r"\r?\n|\|", text)
    first = next((line for line in lines if line.strip()), "")
    indent = first[: len(first) - len(first.lstrip())]
    header: dict[str, list[_Word]] = {}
    rows: list[_Word] = []
    draws = gap = False
    for number, line in enumerate(lines, 1):
        start = len(indent) if line.startswith(indent) else 0
        pair = re.fullmatch(r"\s*([^:]*?)\s*:\s*(.*?)\s*", line)
        if line.lstrip().startswith(";"):
            continue
        if pair and not draws:
            draws = pair[1] == "map"
            if not draws:
                _enter(header, *(_Word(pair[part], number, pair.start(part) + 1) for part in (1, 2)))
        elif draws or (gap and line.strip()):
            draws = True
            rows.append(_Word(line[start:], number, start + 1))
        elif line.strip():
            raise _Word("", number, 1).error("A line is `key: value`; a drawing begins after an empty line or `map:`.")
        else:
            gap = bool(header)
    while rows and not rows[-1].text.strip():
        rows.pop()
    return header, rows, _Word("", len(lines), len(lines[-1]) + 1)


def _enter(header: dict[str, list[_Word]], key: _Word, value: _Word) -> None:
    """Put a line of the header to those of its key."""
    if key.text not in _KEYS and not (len(key.text) == 1 and key.text.isalpha()):
        raise key.error(f"There is no {key.text!r} here. {nearest(key.text, _KEYS)}")
    if not value.text:
        raise value.error(f"{key.text!r} needs a value after the colon.")
    if key.text in header and key.text not in _SEVERAL:
        raise key.error(f"{key.text!r} stands in line {header[key.text][0].line} already; keep one of them.")
    header.setdefault(key.text, []).append(value)


def _types(
    header: Mapping[str, list[_Word]], table: Mapping[str, UnitType]
) -> tuple[dict[str, UnitType], dict[str, UnitType], dict[str, tuple[str, str]]]:
    """All types, those of the text's own among them, and team and type of each letter in the drawing."""
    types, own, legend = dict(table), {}, {}
    lines = [("", line) for line in header.get("type", ())]
    for letter, line in [*lines, *((key, lines[0]) for key, lines in header.items() if len(key) == 1)]:
        who, word, *changes = line.split(2, "m: ally marine" if letter else "type: tank marine health 300")
        kind = word.checked(_known, word.text, types)
        name = who.text if not letter else f"{kind}_{letter}" if changes else kind
        if letter:
            legend[letter] = who.checked(one_of, "The team", who.text, ("ally", "enemy")), name
        if changes or not letter:
            own[name] = _changed(types[kind], changes)
            types[name] = line.checked(check_type, name, own[name], (*types, *own))
    return types, own, legend


def _known(kind: str, types: Mapping[str, UnitType]) -> str:
    """The type of that name, or for which that letter stands."""
    kind = letters_of(types).get(kind, kind)
    if kind not in types:
        raise ValueError(f"There is no unit type {kind!r}. {nearest(kind, types)}")
    return kind


def _changed(base: UnitType, words: Sequence[_Word]) -> UnitType:
    """A type with other numbers, given as names and values in turn."""
    if len(words) % 2:
        raise words[-1].error(f"{words[-1].text!r} needs a value, such as `health 300 damage 12`.")
    changes, bonus = {}, dict(base.bonus)
    for name, value in zip(words[::2], words[1::2], strict=True):
        field = name.text
        if field.startswith("bonus_"):
            bonus[field.removeprefix("bonus_")] = value.number
        elif field not in UnitType._fields or field == "bonus":
            raise name.error(f"Units have no {field!r}. {nearest(field, [*UnitType._fields, 'bonus_marine'])}")
        elif isinstance(getattr(base, field), bool):
            changes[field] = value.checked(one_of, field, value.text, _YES) == "yes"
        else:
            changes[field] = value.number
    return base._replace(**changes, bonus=tuple((kind, extra) for kind, extra in bonus.items() if extra))


def _team(word: _Word, names: tuple[str, ...]) -> tuple[int, ...]:
    """The unit types of a word such as `2zealot`, `z` or `2s3z`."""
    match = re.fullmatch(r"(\d*)([^\W\d]\w*)", word.text)
    kind = match and letters_of(names).get(match[2], match[2])
    if match and kind in names:
        return (names.index(kind),) * int(match[1] or 1)
    return word.checked(parse_army, word.text, names)


def _army(
    key: str, once: Mapping[str, _Word], standing: Sequence[_Unit], names: tuple[str, ...], end: _Word
) -> tuple[int, ...]:
    """The unit types of a team, `allies` or `enemies`."""
    team = "ally" if key == "allies" else "enemy"
    if key in once and standing:
        raise once[key].error(f"The units have places, so leave {key!r} out, or give none of them a place.")
    army = [kind for word in (once[key].split(1, "") if key in once else ()) for kind in _team(word, names)]
    army += [names.index(unit.kind) for unit in standing if unit.team == team]
    if not army:
        raise end.error(f"There are no {key}; add `{key}: 2s 3z`, or places of theirs, such as `m: {team} marine`.")
    return tuple(army)


def _placed(line: _Word, types: Mapping[str, UnitType]) -> list[_Unit]:
    """The units of a line `place: ally 20zergling 16 21`; several stand in a square about the place."""
    side, word, x, y = line.split(4, "place: ally marine 10 12")[:4]
    side.checked(one_of, "The team", side.text, ("ally", "enemy"))
    kinds = [tuple(types)[kind] for kind in _team(word, tuple(types))]
    gap, wide = 2 * max(types[kind].radius for kind in kinds) + 0.1, math.ceil(math.sqrt(len(kinds)))
    middle = (wide - 1) / 2, (math.ceil(len(kinds) / wide) - 1) / 2
    return [
        _Unit(side.text, kind, x.number + gap * (i % wide - middle[0]), y.number + gap * (i // wide - middle[1]), word)
        for i, kind in enumerate(kinds)
    ]


def _zone(line: _Word) -> Zone:
    example = "zone: slow 30 20 10 5 0.6 round"
    kind, *numbers = line.split(5, example)
    is_round = numbers[-1].text == "round"
    values = [word.number for word in (numbers[:-1] if is_round else numbers)]
    if len(values) not in (4, 5):
        raise line.error(f"A zone is like `{example}`: its middle, half its width and height, and perhaps its effect.")
    zone = Zone(kind.text, *values[:4], round=is_round, effect=values[4] if len(values) > 4 else None)
    line.checked(zones_of, [zone])
    return zone


def _size(
    once: Mapping[str, _Word], given: Mapping[str, float], rows: Sequence[_Word], end: _Word
) -> tuple[float, float]:
    """Width and height of the map."""
    for key in {"size"} & once.keys() if rows else {"cell", "slow", "burn"} & once.keys():
        raise once[key].error(f"Leave {key!r} out: there is {'a' if rows else 'no'} drawing.")
    if rows:
        word, cell = once.get("cell", rows[0]), given.get("cell", 2.0)
        size = len(rows[0].text) * cell, len(rows) * cell
    else:
        word = once.get("size", end)
        numbers = [part.number for part in word.split(0, "")] or [32.0]
        size = numbers[0], numbers[-1]
    if min(size) < SMALLEST_MAP:
        raise word.error(f"A map is at least {SMALLEST_MAP:g} wide and high, not {size[0]:g} x {size[1]:g}.")
    return size


def _drawn_zones(rows: Sequence[_Word], once: Mapping[str, _Word], cell: float) -> list[Zone]:
    width, zones = len(rows[0].text), []
    for row in rows:
        if len(row.text) != width:
            word = row._replace(column=row.column + min(width, len(row.text)))
            raise word.error(f"This row is {len(row.text)} long and the first one {width}; fill it up with dots.")
    effects: dict[str, float | None] = {"=": 0.0}
    for key, tile in (("slow", "~"), ("burn", "^")):
        if key in once:
            effects[tile] = once[key].number
            once[key].checked(zones_of, [Zone(key, 0, 0, 1, 1, effect=effects[tile])])
    for tile, kind in _TILES.items():
        for top, left, high, wide in rectangles(np.array([[each == tile for each in row.text] for row in rows])):
            middle = cell * (left + wide / 2), cell * (len(rows) - top - high / 2)
            zones.append(Zone(kind, *middle, cell * wide / 2, cell * high / 2, effect=effects.get(tile)))
    return zones


def rectangles(cells: np.ndarray) -> list[tuple[int, int, int, int]]:
    """Few rectangles, each `(top, left, height, width)`, that cover the true cells of bool `[H, W]` once."""
    high = [(top, left, height, width) for left, top, width, height in _grown(cells.T.copy())]
    return min(_grown(cells.copy()), high, key=len)


def _grown(free: np.ndarray) -> list[tuple[int, int, int, int]]:
    """Rectangles from the top left, as wide as possible, and then as high; they empty `free`."""
    found = []
    while free.any():
        top, left = map(int, np.argwhere(free)[0])
        width = int(np.argmin(np.append(free[top, left:], False)))
        height = int(np.argmin(np.append(free[top:, left : left + width].all(1), False)))
        free[top : top + height, left : left + width] = False
        found.append((top, left, height, width))
    return found


def _drawn_units(rows: Sequence[_Word], legend: Mapping[str, tuple[str, str]], cell: float) -> list[_Unit]:
    """The units of a drawing, each in the middle of its cell, from the top."""
    units = []
    for y, row in enumerate(rows):
        for x, tile in enumerate(row.text):
            word = row._replace(text=tile, column=row.column + x)
            if tile in legend:
                units.append(_Unit(*legend[tile], (x + 0.5) * cell, (len(rows) - y - 0.5) * cell, word))
            elif tile not in (".", " ", *_TILES):
                advice = f"add a line such as `{tile}: enemy zealot`, or " if tile.isalpha() else ""
                raise word.error(f"No unit is called {tile!r}; {advice}use one of {' '.join([*legend, '.', *_TILES])}")
    return units


def _check_place(unit: _Unit, kind: UnitType, zones: Sequence[Zone], size: tuple[float, float], jitter: float) -> None:
    """Raise ValueError for a unit outside of the map or in a wall."""
    if not (jitter < unit.x < size[0] - jitter and jitter < unit.y < size[1] - jitter):
        raise unit.word.error(f"{unit.x:g} {unit.y:g} is outside of the map, which is {size[0]:g} x {size[1]:g}.")
    room = kind.radius + jitter
    for zone in (zone for zone in zones if zone.kind == "wall" and not kind.flies):
        parts = abs(unit.x - zone.x) / (zone.half_width + room), abs(unit.y - zone.y) / (zone.half_height + room)
        if (math.hypot(*parts) if zone.round else max(parts)) < 1:
            advice = "leave more room, or draw larger cells, such as `cell: 4`"
            raise unit.word.error(f"The {unit.kind}, of radius {kind.radius:g}, would stand in a wall; {advice}.")


def scenario_text(scenario: Scenario) -> str:
    """The battle as a text, from which `parse_scenario` makes the same one."""
    table, own = UNIT_TABLES[scenario.units], dict(scenario.own_types)
    names, lines = tuple({**table, **own}), []
    for name, unit in own.items():
        base = next(each for each in (name, name.rpartition("_")[0], *table) if each in table)
        lines.append(f"type: {name} {base}{_differences(unit, table[base])}")
    if not scenario.places:
        for key, army in (("allies", scenario.allies), ("enemies", scenario.enemies)):
            lines.append(f"{key}: " + " ".join(f"{len(list(same))}{names[kind]}" for kind, same in groupby(army)))
    values = {**vars(scenario), "size": _plain(*np.broadcast_to(np.asarray(scenario.map_size, float), (2,)))}
    usual = {**vars(Scenario((), ())), "size": "32 32"}
    for key in ("units", "size", "max_steps", "script", "spawn", "jitter", "random_types", "variable", "deadly_border"):
        if values[key] != usual[key]:
            lines.append(f"{key}: {_plain(values[key])}")
    for kind, *numbers, is_round, effect in scenario.zones:
        effects = () if effect is None else (effect,)
        lines.append(f"zone: {kind} {_plain(*numbers, *effects)}{' round' * is_round}")
    teams = ["ally"] * len(scenario.allies) + ["enemy"] * len(scenario.enemies)
    for team, kind, place in zip(teams, scenario.unit_types, scenario.places, strict=False):
        lines.append(f"place: {team} {names[kind]} {_plain(*place)}")
    return "\n".join(lines) + "\n"


def _differences(unit: UnitType, base: UnitType) -> str:
    """How a type differs from another one, in words that change that one."""
    changes = {field: value for field, value in unit._asdict().items() if value != getattr(base, field)}
    bonus = {**dict.fromkeys(dict(base.bonus), 0.0), **dict(changes.pop("bonus", base.bonus))}
    changes |= {f"bonus_{kind}": extra for kind, extra in bonus.items() if dict(base.bonus).get(kind) != extra}
    return "".join(f" {field} {_plain(value)}" for field, value in changes.items())


def _plain(*values: Any) -> str:
    """Numbers without `.0`, and yes or no."""
    texts = [_YES[not value] if isinstance(value, bool) else str(value) for value in values]
    return " ".join(text.removesuffix(".0") for text in texts)
