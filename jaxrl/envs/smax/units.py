"""Unit types and their statistics (SMAX, Rutherford et al. 2023, https://arxiv.org/abs/2311.10090)."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxrl.fields import typed

__all__ = ["UNIT_NAMES", "UNIT_TYPES", "UnitStats", "UnitType", "all_types", "default_unit_stats", "stats_of", "table"]


class UnitType(NamedTuple):
    """One row of the table of unit types. Distances are in map units, centre to centre."""

    health: float
    damage: float  # per shot
    range: float
    cooldown: float  # seconds
    speed: float  # map units per second
    radius: float
    sight: float


UNIT_TYPES: dict[str, UnitType] = {
    "marine": UnitType(45.0, 9.0, 5.0, 0.61, 3.15, 0.375, 9.0),
    "marauder": UnitType(125.0, 10.0, 6.0, 1.07, 2.25, 0.5625, 10.0),
    "stalker": UnitType(160.0, 13.0, 6.0, 1.87, 4.13, 0.625, 10.0),
    "zealot": UnitType(150.0, 8.0, 2.0, 0.86, 3.15, 0.5, 9.0),
    "zergling": UnitType(35.0, 5.0, 2.0, 0.50, 4.13, 0.375, 8.0),
    "hydralisk": UnitType(80.0, 12.0, 5.0, 0.59, 3.15, 0.625, 9.0),
}
UNIT_NAMES = tuple(UNIT_TYPES)


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class UnitStats:
    """Statistics of the unit types, each an array `[K]` over K types. Distances are centre to centre, in map units."""

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


def all_types(own: Any) -> dict[str, Any]:
    """The six types, and the user's own ones in addition or instead.

    Raises:
        ValueError: `own` is not a dict.
    """
    if not isinstance(own, Mapping | None):
        raise ValueError(f"unit_types is a dict of types by name, such as {{'tank': (…)}}, not a {type(own).__name__}.")
    return {**UNIT_TYPES, **(own or {})}


def table(types: Mapping[str, UnitType | tuple[float, ...] | Mapping[str, float]]) -> UnitStats:
    """The statistics of named types as NumPy arrays `[K]`, in the order given.

    Raises:
        ValueError: A row lacks seven finite numbers, or has one that is invalid in a battle; the message names both.
    """
    rows = []
    for name, row in types.items():
        try:
            unit = UnitType(**row) if isinstance(row, Mapping) else UnitType(*row)
        except TypeError:
            fields = ", ".join(UnitType._fields)
            raise ValueError(f"The unit type {name!r} needs these seven numbers: {fields}; got {row!r}.") from None
        for field, value in unit._asdict().items():
            what = f"{field} of the unit type {name!r}"
            number, lowest_is_zero = typed(what, float, value), field in ("damage", "range", "speed", "radius")
            if number < 0 or (number == 0 and not lowest_is_zero):
                raise ValueError(f"{what} must be a positive number, got {value!r}.")
        rows.append(unit)
    return UnitStats(*np.asarray(rows, np.float32).T)


def default_unit_stats() -> UnitStats:
    """The six types of SMAX, as NumPy arrays `[6]` in the order of `UNIT_NAMES`."""
    return table(UNIT_TYPES)


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
