"""What the games on a board share, on which one cell after the other is chosen."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp

from jaxrl.environment import Environment, as_arrays
from jaxrl.envs.draws import same_key
from jaxrl.envs.memory.cards import one_hot
from jaxrl.envs.options import flag, whole
from jaxrl.spaces import Discrete

__all__ = ["BoardGame", "Params"]


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Params:
    """What may vary."""

    max_steps: Any


class BoardGame(Environment):
    """A board of W x W cells, numbered row by row.

    Args:
        size: W.
        max_steps: Steps after which an episode is truncated.
        observe_action: Whether the observation tells the last cell.
    """

    def __init__(self, size: int, max_steps: int, observe_action: bool) -> None:
        self.size = size
        self.observes_action = flag("observe_action", observe_action)
        self._default_params = as_arrays(Params(whole("max_steps", max_steps)))

    @property
    def default_params(self) -> Params:
        return self._default_params

    def action_space(self, params: Params | None = None) -> Discrete:
        return Discrete(self.size**2)

    split_key = same_key  # steps draw nothing

    def seen_cell(self, cell: jax.Array) -> jax.Array:
        """What an observation tells of the last cell: its row and its column, bool `[2 W]`, or nothing, `[0]`.

        Args:
            cell: int32: its number, -1 before the first.
        """
        if not self.observes_action:
            return jnp.zeros(0, bool)
        row, column = cell // self.size, cell % self.size
        return (cell >= 0) & jnp.concatenate([one_hot(row, self.size), one_hot(column, self.size)])
