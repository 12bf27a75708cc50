"""The named battles of SMAX and their armies."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence
from typing import Literal

from jaxrl.envs.smax.units import UNIT_NAMES

__all__ = ["SCENARIOS", "Scenario", "parse_army"]

_LETTERS = {"m": "marine", "M": "marauder", "s": "stalker", "z": "zealot", "h": "hydralisk"}  # SMAC's map names


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
    """Whether every episode draws new types (`allies` and `enemies` then only give the number of units)."""

    @property
    def unit_types(self) -> tuple[int, ...]:
        """The types of all N = A + E units, allies first."""
        return self.allies + self.enemies


def parse_army(army: str | Sequence[str], names: tuple[str, ...] = UNIT_NAMES) -> tuple[int, ...]:
    """The unit types of an army, as indices into `names`, in the order written.

    Args:
        army: Counts and types such as `"3s5z"` or `"2zergling1marauder"`, or a list of type names. Letters are those
            of SMAC's map names: m marine, M marauder, s stalker, z zealot, h hydralisk.
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
    units = [word if word in names else _LETTERS.get(word, word) for word in words]
    for unit in units:
        if unit not in names:
            raise ValueError(f"There is no unit type {unit!r}; an army is written such as {_forms(names)}.")
    return tuple(names.index(unit) for unit in units)


def _forms(names: tuple[str, ...]) -> str:
    letters = ", ".join(f"{letter} {name}" for letter, name in _LETTERS.items())
    return f"3s5z ({letters}) or 2{names[-1]} (any of {', '.join(names)})"


def _named(name: str) -> Scenario:
    allies, _, enemies = name.partition("_vs_")
    return Scenario(parse_army(allies), parse_army(enemies or allies))


_EVEN = ("3m", "8m", "25m", "2s3z", "3s5z")
_UNEVEN = ("5m_vs_6m", "10m_vs_11m", "27m_vs_30m", "3s5z_vs_3s6z", "3s_vs_5z", "6h_vs_8z")

SCENARIOS: dict[str, Scenario] = {
    **{name: _named(name) for name in _EVEN + _UNEVEN},
    **{f"smacv2_{n}_units": Scenario((0,) * n, (0,) * n, "smacv2", random_types=True) for n in (5, 10, 20)},
}
