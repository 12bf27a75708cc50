"""What can be renamed in a game without changing it, such as the colours of cards."""

from __future__ import annotations

import dataclasses

import numpy as np

__all__ = ["Symmetries"]


@dataclasses.dataclass(frozen=True, eq=False)
class Symmetries:
    """K ways to rename what an agent sees and does; the first changes nothing, and they form a group.

    An agent under symmetry k sees `obs[observation[k]]` where the observation is `obs[D]`, and its action a means
    `action[k, a]`. If all agents are under the same one, nothing distinguishes their game from the original.
    """

    observation: np.ndarray
    """int32 `[K, D]`, a permutation in each row."""
    action: np.ndarray
    """int32 `[K, A]`, a permutation in each row."""

    def __len__(self) -> int:
        return len(self.action)
