"""Discs, rectangles, segments and rays in the plane, in closed form.

Everything broadcasts: a number is an array of any shape, and a rectangle a tuple of such arrays. A batch axis comes
last, which keeps the processor's vector lanes full.
"""

from __future__ import annotations

from typing import Any, NamedTuple, TypeVar

import jax
import jax.numpy as jnp

__all__ = ["FAR", "Rect", "blocks", "contains", "disc_out", "extents", "fixed", "ray", "rect_out", "turned", "unit"]

Tree = TypeVar("Tree")
FAR = 1e6
"""The distance of what a ray does not hit, in metres."""
_TINY = 1e-12


class Rect(NamedTuple):
    """Rectangles. `cos` and `sin` are those of the angle of the length; None for upright ones."""

    x: Any
    y: Any
    half_x: Any
    half_y: Any
    cos: Any = None
    sin: Any = None

    def __getitem__(self, index: Any) -> Rect:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Some of them."""
        return Rect(*(None if field is None else field[index] for field in self))

    def local(self, x: Any, y: Any) -> tuple[Any, Any]:
        """A point seen from the centre, with the length as the first axis."""
        x, y = x - self.x, y - self.y
        return (x, y) if self.cos is None else (self.cos * x + self.sin * y, self.cos * y - self.sin * x)

    def world(self, x: Any, y: Any) -> tuple[Any, Any]:
        """The inverse of `local` for a direction."""
        return (x, y) if self.cos is None else (self.cos * x - self.sin * y, self.sin * x + self.cos * y)


def turned(cos: Any, sin: Any, half_tan: Any) -> tuple[Any, Any]:
    """A direction turned by an angle whose half has the tangent `half_tan`: exact, and without trigonometry."""
    square = half_tan * half_tan
    c, s = (1 - square) / (1 + square), 2 * half_tan / (1 + square)
    return unit(cos * c - sin * s, sin * c + cos * s)


def unit(x: Any, y: Any) -> tuple[Any, Any]:
    """A vector's direction."""
    scale = jax.lax.rsqrt(jnp.maximum(x * x + y * y, _TINY))
    return x * scale, y * scale


def contains(rect: Rect, x: Any, y: Any) -> Any:
    """True if a point lies in a rectangle."""
    x, y = rect.local(x, y)
    return (abs(x) < rect.half_x) & (abs(y) < rect.half_y)


def extents(rect: Rect) -> tuple[Any, Any]:
    """Half the width and height of what a rectangle covers in x and in y."""
    c, s = abs(rect.cos), abs(rect.sin)
    return c * rect.half_x + s * rect.half_y, s * rect.half_x + c * rect.half_y


def disc_out(rect: Rect, x: Any, y: Any, radius: Any) -> tuple[Any, Any, Any]:
    """The shortest move `(dx, dy)` of a disc out of a rectangle, and the depth of the overlap (negative if apart)."""
    x, y = rect.local(x, y)
    away_x = x - jnp.clip(x, -rect.half_x, rect.half_x)
    away_y = y - jnp.clip(y, -rect.half_y, rect.half_y)
    square = away_x * away_x + away_y * away_y
    distance = jnp.sqrt(jnp.maximum(square, _TINY))
    # With its middle inside, a disc leaves through the nearest side.
    side_x, side_y = rect.half_x - abs(x), rect.half_y - abs(y)
    inside, by_x = square < _TINY, side_x < side_y
    depth = radius + jnp.where(inside, jnp.minimum(side_x, side_y), -distance)
    to_x = jnp.where(inside, jnp.where(by_x, _sign(x), 0.0), away_x / distance)
    to_y = jnp.where(inside, jnp.where(by_x, 0.0, _sign(y)), away_y / distance)
    push = jnp.maximum(depth, 0.0)
    return *rect.world(to_x * push, to_y * push), depth


def rect_out(rect: Rect, other: Rect) -> tuple[Any, Any, Any]:
    """The shortest move `(dx, dy)` of `rect`, which has an angle, out of `other`, and the depth of the overlap.

    By separating axes: two rectangles are apart if their shadows are on one of the four directions of their sides.
    """
    x, y = other.local(rect.x, rect.y)
    if other.cos is None:
        c, s = rect.cos, rect.sin
    else:
        c, s = other.cos * rect.cos + other.sin * rect.sin, other.cos * rect.sin - other.sin * rect.cos
    ac, as_ = abs(c), abs(s)
    along, across = x * c + y * s, y * c - x * s
    choices = (
        (ac * rect.half_x + as_ * rect.half_y + other.half_x - abs(x), _sign(x), 0.0),
        (as_ * rect.half_x + ac * rect.half_y + other.half_y - abs(y), 0.0, _sign(y)),
        (rect.half_x + ac * other.half_x + as_ * other.half_y - abs(along), c * _sign(along), s * _sign(along)),
        (rect.half_y + as_ * other.half_x + ac * other.half_y - abs(across), -s * _sign(across), c * _sign(across)),
    )
    depth, to_x, to_y = choices[0]
    for other_depth, other_x, other_y in choices[1:]:
        less = other_depth < depth
        depth = jnp.where(less, other_depth, depth)
        to_x, to_y = jnp.where(less, other_x, to_x), jnp.where(less, other_y, to_y)
    push = jnp.maximum(depth, 0.0)
    return *other.world(to_x * push, to_y * push), depth


def blocks(rect: Rect, x0: Any, y0: Any, x1: Any, y1: Any) -> Any:
    """True if a rectangle lies across a segment and contains neither of its ends; the same in both directions.

    Separating axes again. The ends enter symmetrically, so that not even rounding tells them apart.
    """
    (x0, y0), (x1, y1) = rect.local(x0, y0), rect.local(x1, y1)
    x, y, half_x, half_y = (x0 + x1) / 2, (y0 + y1) / 2, (x1 - x0) / 2, (y1 - y0) / 2
    ax, ay = abs(half_x), abs(half_y)
    crosses = (abs(x) < rect.half_x + ax) & (abs(y) < rect.half_y + ay)
    crosses &= abs(half_x * y - half_y * x) < rect.half_x * ay + rect.half_y * ax
    starts = (abs(x0) < rect.half_x) & (abs(y0) < rect.half_y)
    ends = (abs(x1) < rect.half_x) & (abs(y1) < rect.half_y)
    return crosses & ~starts & ~ends


def ray(rect: Rect, x: Any, y: Any, to_x: Any, to_y: Any) -> Any:
    """The way of a ray in the direction `(to_x, to_y)` from `(x, y)` until it enters a rectangle, or `FAR`."""
    x, y = rect.local(x, y)
    if rect.cos is not None:
        to_x, to_y = rect.cos * to_x + rect.sin * to_y, rect.cos * to_y - rect.sin * to_x
    per_x, per_y = 1 / _nonzero(to_x), 1 / _nonzero(to_y)
    middle_x, middle_y = -x * per_x, -y * per_y
    wide_x, wide_y = rect.half_x * abs(per_x), rect.half_y * abs(per_y)
    enter = jnp.maximum(middle_x - wide_x, middle_y - wide_y)
    leave = jnp.minimum(middle_x + wide_x, middle_y + wide_y)
    return jnp.where((enter >= 0) & (enter < leave), enter, FAR)


def _sign(x: Any) -> Any:
    """1 or -1, never 0, so that there is always a way out."""
    return jnp.where(x < 0, -1.0, 1.0).astype(jnp.float32)


def _nonzero(x: Any) -> Any:
    """`x`, kept from zero, so that no ray is exactly parallel to a side."""
    return jnp.where(abs(x) < 1e-6, 1e-6, x)


def fixed(tree: Tree) -> Tree:
    """The same arrays, computed once.

    Turned over twice: a loop keeps XLA from fusing what leads to them into all that depends on them, anew for each,
    which would take minutes to compile.
    """

    def turn(_: Any, tree: Any) -> Any:
        return jax.tree.map(lambda leaf: -leaf if jnp.issubdtype(leaf.dtype, jnp.floating) else ~leaf, tree)

    return jax.lax.fori_loop(0, 2, turn, tree)
