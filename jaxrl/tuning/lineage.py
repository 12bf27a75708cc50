"""Whose hyperparameters a member of a population has had."""

from __future__ import annotations

import numpy as np

__all__ = ["ancestors"]


def ancestors(parent: np.ndarray, member: int) -> list[int]:
    """The members that a member of a population descends from, one a generation, itself the last.

    Args:
        parent: int `[M, G]`, whom each member took over when the generation began; itself if nobody.
        member: Which one.
    """
    line = [member]
    for g in range(parent.shape[1] - 1, 0, -1):
        line.append(int(parent[line[-1], g]))
    return line[::-1]
