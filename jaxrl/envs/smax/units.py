"""Unit types and their statistics (SMAX, Rutherford et al. 2023, https://arxiv.org/abs/2311.10090)."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import numpy as np

__all__ = ["UNIT_NAMES", "UnitStats", "default_unit_stats", "stats_of"]

# name: health, damage a shot, attack range, weapon cooldown (s), speed (units/s), radius, sight range
_TABLE = {
    "marine": (45.0, 9.0, 5.0, 0.61, 3.15, 0.375, 9.0),
    "marauder": (125.0, 10.0, 6.0, 1.07, 2.25, 0.5625, 10.0),
    "stalker": (160.0, 13.0, 6.0, 1.87, 4.13, 0.625, 10.0),
    "zealot": (150.0, 8.0, 2.0, 0.86, 3.15, 0.5, 9.0),
    "zergling": (35.0, 5.0, 2.0, 0.50, 4.13, 0.375, 8.0),
    "hydralisk": (80.0, 12.0, 5.0, 0.59, 3.15, 0.625, 9.0),
}
UNIT_NAMES = tuple(_TABLE)


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class UnitStats:
    """Statistics a unit type, each an array `[K]` over K types. Distances are centre to centre, in map units."""

    health: Any
    """Maximal health."""
    damage: Any
    """Health taken by one shot."""
    range: Any
    """Attack range."""
    cooldown: Any
    """Seconds from a shot until the weapon is ready again."""
    speed: Any
    """Map units a second."""
    radius: Any
    """Bodies nearer than the sum of their radii push each other apart."""
    sight: Any
    """Sight range."""


def default_unit_stats() -> UnitStats:
    """The six types of SMAX, as NumPy arrays `[6]` in the order of `UNIT_NAMES`."""
    return UnitStats(*np.asarray(list(_TABLE.values()), np.float32).T)


def stats_of(table: UnitStats, unit_type: Any) -> UnitStats:
    """The statistics of units of the given types: leaves of the shape of `unit_type`."""
    return jax.tree.map(lambda column: column[unit_type], table)
