"""Sight and overlaps, written once more for NumPy, one agent and one rectangle at a time, by other formulas."""

import numpy as np


def corners(x, y, half_x, half_y, cos=1.0, sin=0.0, grow=0.0):
    """The corners of a rectangle, in order: `[4, 2]`."""
    signs = np.array([(-1, -1), (1, -1), (1, 1), (-1, 1)], float)
    along, across = signs[:, 0] * (half_x + grow), signs[:, 1] * (half_y + grow)
    return np.stack([x + cos * along - sin * across, y + sin * along + cos * across], 1)


def side(a, b, p):
    """On which side of the line from a to b the point p lies, and how far."""
    (ax, ay), (bx, by), (px, py) = a, b, p
    return (bx - ax) * (py - ay) - (by - ay) * (px - ax)


def inside(polygon, p):
    return all(side(polygon[i], polygon[(i + 1) % 4], p) > 0 for i in range(4))


def cross(a, b, c, d):
    """Whether the segments from a to b and from c to d cross."""
    return side(a, b, c) * side(a, b, d) < 0 and side(c, d, a) * side(c, d, b) < 0


def blocked(polygon, a, b):
    """Whether a rectangle lies across a segment and contains neither end."""
    if inside(polygon, a) or inside(polygon, b):
        return False
    return any(cross(a, b, polygon[i], polygon[(i + 1) % 4]) for i in range(4))


def rectangles(state, params, grow=0.0):
    """The corners of all walls that are there, and of all objects, of one state without batch axis."""
    walls = [corners(*wall, grow=grow) for wall in state.walls.astype(float) if wall[2] > 0]
    objects = zip(state.object_position, params.object_size, state.object_heading, strict=True)
    return walls + [corners(*place, *size, *turn, grow=grow) for place, size, turn in objects]


def sight(state, params, grow=0.0):
    """`State.sight` of one state; `grow` makes walls, objects and the gaps of the cone wider."""
    agents, objects = state.position.astype(float), state.object_position.astype(float)
    targets = np.concatenate([agents, objects])
    high = state.height >= params.high
    seen = np.zeros((len(agents), len(targets)), bool)
    blocks = rectangles(state, params, grow)
    for i, place in enumerate(agents):
        look = np.arctan2(state.heading[i, 1], state.heading[i, 0])
        for j, target in enumerate(targets):
            angle = np.arctan2(*(target - place)[::-1]) - look
            angle = abs((angle + np.pi) % (2 * np.pi) - np.pi)
            above = high[i] or (j < len(agents) and high[j])
            free = above or not any(blocked(block, place, target) for block in blocks)
            seen[i, j] = i != j and free and angle < params.half_vision - grow
    return seen


def depth_of_disc(wall, x, y, radius):
    """How deep discs `[…]` reach into an upright rectangle: negative if they do not."""
    away = np.maximum(np.abs(x - wall[0]) - wall[2], 0), np.maximum(np.abs(y - wall[1]) - wall[3], 0)
    return radius - np.hypot(*away)
