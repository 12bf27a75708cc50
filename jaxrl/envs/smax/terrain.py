"""Zones of the map: walls, slow ground, cover and fire, as rectangles and ellipses; and who sees whom past them.

Zones are `[Z]`, or `[Z, …]` with batch axes; units are `[N, …]`, as in `dynamics`. Nothing here concerns units that
fly, and everything is the same with left and right exchanged.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxrl.envs.options import number, one_of

__all__ = [
    "BURN",
    "COVER",
    "KINDS",
    "NONE",
    "SLOW",
    "WALL",
    "Zone",
    "Zones",
    "blocked_lines",
    "burn",
    "column",
    "hidden",
    "in_wall",
    "slowed",
    "stop",
    "zones_of",
]

NONE, WALL, SLOW, COVER, BURN = range(5)
KINDS = ("none", "wall", "slow", "cover", "burn")


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Zones:
    """Z zones of the map, arrays `[Z]`. They may overlap."""

    kind: Any
    """int32, an index into `KINDS`; 0 is no zone, to fill up."""
    x: Any
    """The centre, in map units."""
    y: Any
    half_width: Any
    half_height: Any
    round: Any
    """bool: an ellipse rather than a rectangle."""
    effect: Any
    """Of a wall 1 if nobody sees or shoots through it, else 0; of slow ground the share of the speed that it takes; of
    fire the health that it takes per second; of cover nothing."""


class Zone(NamedTuple):
    """A zone in words, of which `zones_of` makes arrays."""

    kind: str
    """A name of `KINDS`."""
    x: float
    y: float
    half_width: float
    half_height: float
    round: bool = False
    effect: float | None = None
    """As in `Zones`; None stands for a wall that blocks sight, half of the speed, or 5 health per second."""


_EFFECTS = {"none": 0.0, "wall": 1.0, "slow": 0.5, "cover": 0.0, "burn": 5.0}


def zones_of(zones: Sequence[Zone]) -> Zones | None:
    """The zones as NumPy arrays `[Z]`; None if there are none.

    Raises:
        ValueError: A zone has a kind that does not exist, no area, or an effect that is out of range.
    """
    rows = []
    for zone in zones:
        zone = Zone(*zone)
        one_of("the kind of a zone", zone.kind, KINDS)
        effect = _EFFECTS[zone.kind] if zone.effect is None else zone.effect
        for name, value in (("x", zone.x), ("y", zone.y), ("effect", effect)):
            number(f"{name} of the zone {zone.kind}", value)
        if not (zone.half_width > 0 and zone.half_height > 0):
            raise ValueError(f"A zone is wider and higher than 0; half of them are given, not {tuple(zone)}.")
        if effect < 0 or (zone.kind in ("wall", "slow") and effect > 1):
            raise ValueError(
                f"The effect of a zone {zone.kind} is a number from 0 on, up to 1 but for fire, not {effect}."
            )
        rows.append((KINDS.index(zone.kind), *zone[1:5], zone.round, effect))
    if not rows:
        return None
    kinds = (np.int32, *(np.float32,) * 4, np.bool_, np.float32)
    return Zones(*(np.asarray(column, kind) for column, kind in zip(zip(*rows, strict=True), kinds, strict=True)))


def slowed(zones: Zones, x: jax.Array, y: jax.Array) -> jax.Array:
    """The share of their speed that units keep on the ground where they are, `[N, …]`."""
    here = _within(zones, x, y, 0.0) & _is(zones, SLOW, x.ndim)
    return jnp.where(here, 1.0 - column(zones.effect, x.ndim), 1.0).prod(0)


def burn(zones: Zones, x: jax.Array, y: jax.Array) -> jax.Array:
    """The health that fire takes from units per second, `[N, …]`."""
    here = _within(zones, x, y, 0.0) & _is(zones, BURN, x.ndim)
    return jnp.where(here, column(zones.effect, x.ndim), 0.0).sum(0)


def stop(
    zones: Zones, before: tuple[jax.Array, jax.Array], after: tuple[jax.Array, jax.Array], radius: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """Where units get that want from one place to another, `[N, …]`: they slide along walls.

    A unit is as large as the square about it. One that is in a wall, because it was put there, can leave it.
    """
    free = ~in_wall(zones, *before, radius)
    x = jnp.where(free & in_wall(zones, after[0], before[1], radius), before[0], after[0])
    return x, jnp.where(free & in_wall(zones, x, after[1], radius), before[1], after[1])


def hidden(zones: Zones, seer: tuple[jax.Array, jax.Array], seen: tuple[jax.Array, jax.Array]) -> jax.Array:
    """Whom cover hides from whom: bool `[M, J, …]`. It hides nobody from those in the same zone."""
    cover = _is(zones, COVER, seen[0].ndim)
    outside = ~_within(zones, *seer, 0.0)
    return (outside[:, :, None] & (_within(zones, *seen, 0.0) & cover)[:, None]).any(0)


def blocked_lines(zones: Zones, seer: tuple[jax.Array, jax.Array], seen: tuple[jax.Array, jax.Array]) -> jax.Array:
    """Between whom there is a wall that blocks sight: bool `[M, J, …]`."""
    ndim = seen[0].ndim + 1
    x, y, width, height, round_ = (
        column(leaf, ndim) for leaf in (zones.x, zones.y, zones.half_width, zones.half_height, zones.round)
    )
    opaque = _is(zones, WALL, ndim) & (column(zones.effect, ndim) > 0)
    # The line's middle from the centre, and half of the line.
    mid_x, mid_y = (
        (seer[0][None, :, None] + seen[0][None, None]) / 2 - x,
        (seer[1][None, :, None] + seen[1][None, None]) / 2 - y,
    )
    way_x, way_y = (
        (seen[0][None, None] - seer[0][None, :, None]) / 2,
        (seen[1][None, None] - seer[1][None, :, None]) / 2,
    )
    # Two convex shapes are apart if they are so along an axis: those of the rectangle, or the one across the line.
    long_x, long_y, area = jnp.abs(way_x), jnp.abs(way_y), mid_x * way_y - mid_y * way_x
    meets = (jnp.abs(mid_x) < width + long_x) & (jnp.abs(mid_y) < height + long_y)
    meets &= jnp.abs(area) < width * long_y + height * long_x
    # In units of its half axes, an ellipse is a disc: the line passes it nearer than 1, or ends in it.
    across, up = 1 / jnp.maximum(width, 1e-6), 1 / jnp.maximum(height, 1e-6)
    mid_x, mid_y, way_x, way_y, area = mid_x * across, mid_y * up, way_x * across, way_y * up, area * across * up
    square, along = way_x * way_x + way_y * way_y, jnp.abs(mid_x * way_x + mid_y * way_y)
    ends = mid_x * mid_x + mid_y * mid_y + square - 2 * along < 1
    crosses = ends | ((area * area < square) & (along < square))
    return (opaque & jnp.where(round_, crosses, meets)).any(0)


def in_wall(zones: Zones, x: jax.Array, y: jax.Array, radius: jax.Array | float) -> jax.Array:
    """Who would be in a wall, at these places and with this radius: bool `[N, …]`."""
    return (_within(zones, x, y, radius) & _is(zones, WALL, x.ndim)).any(0)


def _within(zones: Zones, x: jax.Array, y: jax.Array, margin: jax.Array | float) -> jax.Array:
    """Who is in which zone, or nearer than `margin` to it: bool `[Z, N, …]`."""
    ndim = x.ndim
    across = jnp.abs(x[None] - column(zones.x, ndim)), jnp.abs(y[None] - column(zones.y, ndim))
    half = column(zones.half_width, ndim) + margin, column(zones.half_height, ndim) + margin
    # (x / a)^2 + (y / b)^2 < 1, without divisions.
    part_x, part_y, whole = across[0] * half[1], across[1] * half[0], half[0] * half[1]
    in_ellipse = part_x * part_x + part_y * part_y < whole * whole
    return jnp.where(column(zones.round, ndim), in_ellipse, (across[0] < half[0]) & (across[1] < half[1]))


def _is(zones: Zones, kind: int, ndim: int) -> jax.Array:
    return column(zones.kind, ndim) == kind


def column(leaf: Any, ndim: int) -> Any:
    """`[Z]` or `[Z, …]` as `[Z, 1 …]`, to stand beside units with `ndim` axes, the last of which are batch axes."""
    leaf = np.asarray(leaf) if isinstance(leaf, np.generic) else leaf
    batch = leaf.shape[1:]
    return leaf.reshape(leaf.shape[0], *(1,) * (ndim - len(batch)), *batch)
