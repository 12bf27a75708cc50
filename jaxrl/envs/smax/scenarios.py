"""The named battles of SMAX and the armies they are made of."""

from __future__ import annotations

import dataclasses
import re

from jaxrl.envs.smax.units import UNIT_NAMES

__all__ = ["SCENARIOS", "Scenario", "parse_army"]

_LETTERS = {"m": "marine", "M": "marauder", "s": "stalker", "z": "zealot", "h": "hydralisk"}


@dataclasses.dataclass(frozen=True)
class Scenario:
    """Who fights whom: the unit types (indices into `UNIT_NAMES`) of A allies and E enemies."""

    allies: tuple[int, ...]
    enemies: tuple[int, ...]

    @property
    def unit_types(self) -> tuple[int, ...]:
        """Types of all N = A + E units, allies first."""
        return self.allies + self.enemies


def parse_army(text: str) -> tuple[int, ...]:
    """The unit types of an army such as `"3s5z"` (three stalkers, five zealots), in the order written.

    Letters as in SMAC's map names: m marine, M marauder, s stalker, z zealot, h hydralisk.

    Raises:
        ValueError: If the text is not counts and letters; the message shows the form.
    """
    if not re.fullmatch(r"(\d+[mMszh])+", text):
        letters = ", ".join(f"{letter} {name}" for letter, name in _LETTERS.items())
        raise ValueError(f"An army is written as counts and letters, such as 3s5z ({letters}); got {text!r}.")
    units: list[int] = []
    for count, letter in re.findall(r"(\d+)([mMszh])", text):
        units += [UNIT_NAMES.index(_LETTERS[letter])] * int(count)
    if not units:
        raise ValueError(f"An army needs at least one unit; got {text!r}.")
    return tuple(units)


def _named(name: str) -> Scenario:
    allies, _, enemies = name.partition("_vs_")
    return Scenario(parse_army(allies), parse_army(enemies or allies))


SCENARIOS: dict[str, Scenario] = {
    name: _named(name)
    for name in (
        "3m",
        "8m",
        "25m",
        "2s3z",
        "3s5z",
        "5m_vs_6m",
        "10m_vs_11m",
        "27m_vs_30m",
        "3s5z_vs_3s6z",
        "3s_vs_5z",
        "6h_vs_8z",
    )
}
