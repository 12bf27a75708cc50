"""The lineage of a member of a population."""

from __future__ import annotations

import numpy as np

__all__ = ["ancestors"]


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
