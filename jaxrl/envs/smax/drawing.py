"""Battles that a person draws: the map of a text for the terminal, and a page on which to draw with the mouse."""

from __future__ import annotations

import json
import re
import string
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from jaxrl.envs.options import TextMap
from jaxrl.envs.smax.orders import MIXTURES, SCRIPTS
from jaxrl.envs.smax.scenario import NAMED, parse_scenario, parts, scenario_text
from jaxrl.envs.smax.state import SMALLEST_MAP
from jaxrl.envs.smax.units import UNIT_TABLES, letters_of
from jaxrl.registry import canonical, make, parse_options

__all__ = ["battle_map", "battle_page"]

_GROUNDS = {"#": "wall", "=": "low wall", "~": "slow", '"': "cover", "^": "burn"}
_CELLS = (2.0, 1.5, 1.0, 0.5)
_MOST = 6  # lines of a note
_NO_LETTERS = "uq_"  # the editor needs the first two itself
_IN_TEXT = ("allies", "enemies", "units", "spawn", "random_types", "map_size", "max_steps")


def battle_map(env: str) -> TextMap:
    """The drawing of a battle such as `smax/3m` or `smax/my_battle.txt`, an empty one if it has none.

    Raises:
        UnknownNameError: There is no such battle.
        ValueError: Cells do not fill its map, or its text has a mistake above the drawing.
    """
    text, others = _text_of(env)
    header, drawn, _ = parts(text)
    rows, end = tuple(row.text for row in drawn), drawn[0].line - 1 if drawn else None
    above = [line.strip() for line in re.split(r"\r?\n|\|", text)[:end] if line.strip() not in ("", "map:")]
    if not rows:
        width, height = np.broadcast_to(np.asarray(parse_scenario(text).map_size), (2,)).tolist()
        cell = next((cell for cell in _CELLS if not (width % cell or height % cell)), None)
        if cell is None:
            raise ValueError(f"No cells fill a map of {width:g} x {height:g}; use the mouse: --out battle.html.")
        above = [line for line in above if not line.startswith("size")] + [f"cell: {cell:g}"] * (cell != 2)
        rows = ("." * int(width / cell),) * int(height / cell)
    table = UNIT_TABLES.get(header["units"][0].text if "units" in header else "smax", {})
    letters = {key: " ".join(words[0].text.split()) for key, words in header.items() if len(key) == 1}
    written = set(letters)
    for kind in dict.fromkeys([*table, *(line.text.split()[0] for line in header.get("type", ()))]):
        for team, case in (("ally", str.lower), ("enemy", str.upper)):
            free = [each for each in map(case, kind + string.ascii_lowercase) if each not in {*letters, *_NO_LETTERS}]
            if free and f"{team} {kind}" not in letters.values():
                letters[free[0]] = f"{team} {kind}"

    def whole_text(drawing: Sequence[str]) -> str:
        used = [letter for letter in letters if any(letter in row for row in drawing)]
        kept = [line for line in above if not (used and re.match(r"(allies|enemies)\s*:", line))]
        return "|".join([*kept, *(f"{key}: {letters[key]}" for key in used if key not in written), "map:", *drawing])

    apart = [f"\nNot drawn: {line}" for line in above if re.match(r"(zone|place|allies|enemies)\s*:", line)]
    note = "".join(apart[:_MOST]) + f", and {len(apart) - _MOST} lines more" * (len(apart) > _MOST)
    file = found[1] if (found := re.match(r"\w+/(.*\.txt)(\?|$)", env)) else "my_battle.txt"
    tiles, grounds, units = {**_GROUNDS, ".": "floor", **letters}, "".join(_GROUNDS), "".join(letters)
    return TextMap("smax", "scenario", rows, tiles, "#", units, others, grounds, file, whole_text, note)


def _text_of(env: str) -> tuple[str, dict[str, Any]]:
    """The text of a battle, and the options of its environment besides."""
    name, _, query = canonical(env).partition("?")
    options = parse_options(query)
    given = str(options.pop("scenario", name.partition("/")[2]))
    options |= {"mode": "selfplay"} if name == "smax/selfplay" else {}
    if any(sign in given for sign in "\n|:"):
        return given, options
    if given in NAMED:
        return (Path(__file__).parent / "scenarios" / f"{given}.txt").read_text(encoding="utf-8"), options
    if given in ("random", "mix"):
        raise ValueError(f"{name} is many battles; edit one, such as smax/3m.")
    return scenario_text(make(env).scenario), {key: value for key, value in options.items() if key not in _IN_TEXT}


def battle_page(env: str) -> str:
    """A page, in one file and without a network, on which a person draws, beginning with this battle.

    Raises:
        UnknownNameError: There is no such battle.
        ValueError: Its text has a mistake; the message says where.
    """
    tables = {name: {kind: unit._asdict() for kind, unit in table.items()} for name, table in UNIT_TABLES.items()}
    letters, scripts = {name: letters_of(table) for name, table in UNIT_TABLES.items()}, [*SCRIPTS, *MIXTURES]
    data = {"text": scenario_text(parse_scenario(_text_of(env)[0])), "tables": tables, "letters": letters}
    text = json.dumps({**data, "scripts": scripts, "smallest": SMALLEST_MAP}, separators=(",", ":"))
    page = Path(__file__).with_suffix(".html").read_text(encoding="utf-8")
    return page.replace("{{battle}}", text.replace("<", "\\u003c"))  # so that no text can end the script element
