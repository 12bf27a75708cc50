"""A game in normal form with zero sum, played once: the smallest task where the best answer to one loses to another."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxrl.environment import MultiAgentEnvironment, Step
from jaxrl.envs.options import table
from jaxrl.errors import UnknownNameError, nearest
from jaxrl.render.scene import Rect, Scene, Shape, Text
from jaxrl.spaces import Box, Discrete

__all__ = ["GAMES", "MatrixGame", "Params", "State"]

GAMES: dict[str, tuple[tuple[float, ...], ...]] = {
    "rock_paper_scissors": ((0, -1, 1), (1, 0, -1), (-1, 1, 0)),
    # A win by scissors counts double, so that the equilibrium is uneven: (1/2, 1/4, 1/4).
    "dear_scissors": ((0, -1, 1), (1, 0, -2), (-1, 2, 0)),
}
"""The sum that the first player wins and the second loses, by their actions."""

_THREE = ("rock", "paper", "scissors")


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Params:
    """The numbers that can vary between games."""

    payoff: Any
    """float32 `[A, A]`: the first player's reward by both players' actions; the second gets its negative."""


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class State:
    """The state of a game."""

    played: jax.Array
    """int32 `[2]`: what both chose, or -1 before they have."""


class MatrixGame(MultiAgentEnvironment):
    """Two players, each a team of its own, choose once; both see nothing but a constant.

    Args:
        game: A name in `GAMES`.
        payoff: A table `[A, A]` of your own instead: the first player's reward.

    Raises:
        UnknownNameError: There is no such game.
        ValueError: The table is not square and finite.
    """

    agents = ("player_0", "player_1")
    intended = ("same_start",)

    def __init__(
        self, game: str = "rock_paper_scissors", *, payoff: Sequence[Sequence[float]] | np.ndarray | None = None
    ) -> None:
        if payoff is None and game not in GAMES:
            raise UnknownNameError(f"There is no matrix game {game!r}. {nearest(game, list(GAMES))}")
        values = table("payoff", GAMES[game] if payoff is None else payoff)
        if values.ndim != 2 or len(set(values.shape)) > 1 or not values.size:
            raise ValueError(
                f"payoff must be a square table of finite numbers, such as [[1, -1], [-1, 1]], got {payoff!r}."
            )
        self.name = f"matrix/{game}" if payoff is None else "matrix"
        self._table = values
        three = payoff is None and len(values) == len(_THREE)
        self.action_names = _THREE if three else tuple(map(str, range(len(values))))

    @property
    def default_params(self) -> Params:
        return Params(self._table)

    @property
    def teams(self) -> tuple[int, ...]:
        return (0, 1)

    def observation_space(self, params: Any = None) -> Box:
        return Box(0.0, 1.0, (1,))

    def action_space(self, params: Any = None) -> Discrete:
        return Discrete(len(self._table))

    def reset_env(self, key: jax.Array, params: Params) -> tuple[jax.Array, State]:
        return jnp.ones((2, 1), jnp.float32), State(jnp.full(2, -1, jnp.int32))

    def step_env(self, key: jax.Array, state: State, action: jax.Array, params: Params) -> Step:
        action = self.action_space().clip(action)
        won = jnp.asarray(params.payoff, jnp.float32)[action[0], action[1]]
        flags = jnp.array(True), jnp.array(False)
        return jnp.ones((2, 1), jnp.float32), State(action), jnp.stack([won, -won]), *flags, {}

    def observation(self, state: State, params: Any = None) -> jax.Array:
        return jnp.ones((2, 1), jnp.float32)

    def draw(self, states: State, params: Any = None) -> Scene:
        played = np.asarray(states.played)
        shapes: list[Shape] = [
            Rect(x=x, y=0.1, width=0.9, height=0.8, fill="#1c2738", corner=0.08) for x in (0.05, 1.05)
        ]
        for x, choices in zip((0.5, 1.5), played.T, strict=True):
            label = np.array(["?" if choice < 0 else self.action_names[choice] for choice in choices])
            shapes.append(Text(x=x, y=0.5, text=label, size=0.14))
        return Scene(len(played), (0.0, 0.0, 2.0, 1.0), tuple(shapes), step_seconds=0.8)
