"""How the members of a population are related."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

__all__ = ["ancestors", "distant"]


def ancestors(parent: np.ndarray, member: int) -> list[int]:
    """The members that a member of a population descends from, one per generation, ending with itself.

    Args:
        parent: int `[M, G]`, the member that each member copied when the generation began; itself if none.
        member: The member's index.
    """
    line = [member]
    for g in range(parent.shape[1] - 1, 0, -1):
        line.append(int(parent[line[-1], g]))
    return line[::-1]


def distant(parent: np.ndarray, ranked: Sequence[int], count: int) -> list[int]:
    """The best members of different families, so that a lucky ancestor is not tried again in each of its descendants.

    A family are the members with the same ancestor in one generation: in the earliest one with `count` families, or
    the last one, where each member is its own.

    Args:
        parent: See `ancestors`.
        ranked: The members to choose from, best first.
        count: The most members to choose.
    """
    lines = {member: ancestors(parent, member) for member in ranked}
    best: dict[int, int] = {}
    for generation in range(parent.shape[1]):
        best = {}
        for member in ranked:
            best.setdefault(lines[member][generation], member)
        if len(best) >= count:
            break
    return list(best.values())[:count]
