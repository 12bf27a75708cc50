"""Payoffs of matrix games: two tables each, of the row player and of the column player, for K choices each.

The prisoners' dilemma has the numbers of JaxMARL's STORM; stag hunt, chicken and Bach or Stravinsky have those of
Melting Pot 2.0 (Agapiou et al. 2022, https://arxiv.org/abs/2211.13746); the others are the textbook's.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from jaxrl.envs import options

__all__ = ["MATRICES", "as_payoff"]

Table = tuple[tuple[float, ...], ...]


def _symmetric(table: Table) -> tuple[Table, Table]:
    """Both players have the same choices and payoffs: the column player's table is the transposed one."""
    return table, tuple(zip(*table, strict=True))


MATRICES: dict[str, tuple[Table, Table]] = {
    "prisoners_dilemma": _symmetric(((3, 0), (5, 1))),
    "stag_hunt": _symmetric(((4, 0), (2, 2))),
    "chicken": _symmetric(((3, 2), (5, 0))),
    "coordination": _symmetric(((1, 0), (0, 1))),
    "bach_or_stravinsky": (((3, 0), (0, 2)), ((2, 0), (0, 3))),
    "matching_pennies": (((1, -1), (-1, 1)), ((-1, 1), (1, -1))),
    "rock_paper_scissors": _symmetric(((0, -1, 1), (1, 0, -1), (-1, 1, 0))),
}
"""Rows and columns are the kinds of coins; in the dilemmas the first kind stands for cooperation."""


def as_payoff(value: Any, places: int) -> np.ndarray:
    """`value` as a table float32 `[2, K, K]`; one `[K, K]` table stands for a symmetric game.

    Args:
        value: What the user gave.
        places: Of coins; K must divide their number, so that there are as many coins of each kind.

    Raises:
        ValueError: It is not such a table.
    """
    table = options.table("payoff", value)
    if table.ndim == 2:
        table = np.stack([table, table.T]) if table.shape[0] == table.shape[1] else table
    kinds = table.shape[-1] if table.ndim else 0
    if table.shape != (2, kinds, kinds) or kinds < 2 or places % kinds:
        raise ValueError(
            f"payoff must be two square tables, [2, K, K], or one for a symmetric game, with K "
            f"kinds of coins, at least 2, that divide the {places} places; got the shape {np.shape(value)}."
        )
    return table
