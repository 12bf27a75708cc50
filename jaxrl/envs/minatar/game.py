"""The base of the five games: actions that stick, the clock, observations of a channel for each kind of thing."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from jaxrl.environment import Environment, Step, as_arrays
from jaxrl.envs.batching import same_key, uniform_rows
from jaxrl.envs.minatar.draw import draw_cells
from jaxrl.envs.options import flag, part, whole
from jaxrl.render.scene import Scene
from jaxrl.spaces import Box, Discrete

__all__ = [
    "COLUMNS",
    "DOWN",
    "FIRE",
    "LEFT",
    "NOOP",
    "RIGHT",
    "UP",
    "Game",
    "Params",
    "RampParams",
    "RampedGame",
    "State",
    "cell",
    "lanes",
    "moved_x",
    "moved_y",
    "trail",
    "zeros",
]

NOOP, LEFT, UP, RIGHT, DOWN, FIRE = range(6)
_NAMES = ("nothing", "left", "up", "right", "down", "fire")
COLUMNS = np.arange(10, dtype=np.int32)
"""The numbers of the columns, from the left; and of the rows, from the top."""


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Params:
    """The numbers that may vary in every game."""

    sticky_action_prob: Any = 0.1
    """Probability that a step repeats the action of the step before, whatever the agent chooses."""
    max_steps: Any = 5000


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class RampParams(Params):
    """The numbers that may vary in a game that gets harder as it goes on."""

    difficulty_ramping: Any = True
    """True if it does."""


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class State:
    """A game and what stands around it."""

    board: Any
    """The game's own state."""
    last_action: jax.Array
    """The action of the last step, of the six actions, which a sticky action repeats; at first nothing."""
    step: jax.Array


class Game(Environment):
    """A game on 10 x 10 cells. Each one writes `start`, `play` and `planes`, and says what it is made of.

    Args:
        use_minimal_action_set: Whether the agent chooses only among the actions that have an effect, or among all six.
        sticky_action_prob: Probability that a step repeats the last step's action instead of the chosen one.
        max_steps: Steps after which an episode is truncated.

    Raises:
        ValueError: An option is out of its range.
    """

    channels: ClassVar[tuple[str, ...]]
    """The names of the channels."""
    minimal_actions: ClassVar[tuple[int, ...]]
    """Those of the six actions that have an effect."""
    start_draws: ClassVar[int] = 0
    """The number of random draws that the start needs."""
    step_draws: ClassVar[int] = 0
    """The number of random draws that a step needs."""

    def __init__(
        self, *, use_minimal_action_set: bool = True, sticky_action_prob: float = 0.1, max_steps: int = 5000
    ) -> None:
        self._set_up(Params(sticky_action_prob, max_steps), use_minimal_action_set)

    def _set_up(self, params: Params, use_minimal_action_set: bool) -> None:
        minimal = flag("use_minimal_action_set", use_minimal_action_set)
        probability = part("sticky_action_prob", params.sticky_action_prob)
        max_steps = whole("max_steps", params.max_steps)
        self._default_params = as_arrays(
            dataclasses.replace(params, sticky_action_prob=probability, max_steps=max_steps)
        )
        self._actions = np.array(self.minimal_actions if minimal else range(6), np.int32)
        self.action_names = tuple(_NAMES[action] for action in self._actions)

    # What a game writes.

    def start(self, draws: jax.Array) -> Any:
        """The board at the start of an episode, given `[start_draws]` uniform numbers in [0, 1)."""
        raise NotImplementedError

    def play(self, board: Any, action: jax.Array, draws: jax.Array, params: Any) -> tuple[Any, jax.Array, jax.Array]:
        """The board after a step, the reward (a whole number), and whether the game is lost.

        Args:
            board: The board before.
            action: One of the six.
            draws: `[step_draws]` uniform numbers in [0, 1).
            params: The parameters.
        """
        raise NotImplementedError

    def planes(self, board: Any) -> Sequence[jax.Array]:
        """The names of the channels: C arrays `[10]`, a whole number for each row, whose bit c stands for column c."""
        raise NotImplementedError

    def fact(self, boards: Any) -> Any:
        """For pictures: what a player would like to read, one text or `[F]` of them, from NumPy leaves `[F, …]`."""
        return ""

    # The contract.

    @property
    def default_params(self) -> Any:
        return self._default_params

    def observation_space(self, params: Any = None) -> Box:
        return Box(0, 1, (10, 10, len(self.channels)), bool)

    def action_space(self, params: Any = None) -> Discrete:
        return Discrete(len(self._actions))

    split_key = same_key  # steps and starts draw different rows of a key

    def reset_env(self, key: jax.Array, params: Any) -> tuple[jax.Array, State]:
        draws = uniform_rows(key, self.start_draws, 1 + self.step_draws)
        state = State(self.start(draws), jnp.zeros((), jnp.int32), jnp.zeros((), jnp.int32))
        return self.observation(state), state

    def step_env(self, key: jax.Array, state: State, action: jax.Array, params: Any) -> Step:
        draws = uniform_rows(key, 1 + self.step_draws)
        action = jnp.asarray(self._actions)[self.action_space().clip(action)]
        action = jnp.where(draws[0] < params.sticky_action_prob, state.last_action, action)
        board, reward, terminated = self.play(state.board, action, draws[1:], params)
        after = State(board, action, state.step + 1)
        truncated = (after.step >= params.max_steps) & ~terminated
        return self.observation(after), after, reward.astype(jnp.float32), terminated, truncated, {}

    def observation(self, state: State, params: Any = None) -> jax.Array:
        """Bool `[10, 10, C]`."""
        rows = jnp.stack(self.planes(state.board), -1).astype(jnp.int16)
        # Inverted twice: a loop keeps XLA from computing all that leads to a row anew for each of its cells.
        rows = jax.lax.fori_loop(0, 2, lambda _, bits: ~bits, rows)
        return rows[:, None] & (1 << COLUMNS).astype(np.int16)[:, None] != 0

    def batch_observation(self, state: State, params: Any = None, *, own_params: bool = False) -> jax.Array:
        """Bool `[B, 10, 10, C]`; that it is written here saves a step from making two of them."""
        return jax.vmap(self.observation)(state)

    def draw(self, states: State, params: Any = None) -> Scene:
        cells = np.asarray(jax.vmap(self.observation)(states))
        return draw_cells(type(self).__name__, self.channels, cells, self.fact(states.board), states.step)


class RampedGame(Game):
    """A game that gets harder.

    Args:
        use_minimal_action_set: See `Game`.
        sticky_action_prob: See `Game`.
        difficulty_ramping: Whether it gets harder as it goes on.
        max_steps: See `Game`.

    Raises:
        ValueError: An option is out of its range.
    """

    def __init__(
        self,
        *,
        use_minimal_action_set: bool = True,
        sticky_action_prob: float = 0.1,
        difficulty_ramping: bool = True,
        max_steps: int = 5000,
    ) -> None:
        self._set_up(
            RampParams(sticky_action_prob, max_steps, flag("difficulty_ramping", difficulty_ramping)),
            use_minimal_action_set,
        )

    def fact(self, boards: Any) -> Any:
        return np.array([f"level {number}" for number in np.asarray(boards.level).tolist()])


def cell(row: Any, column: Any, there: Any = True) -> jax.Array:
    """Rows of bits with one cell of the board, if something is there: `[10]`."""
    return jnp.where((row == COLUMNS) & there, 1 << column, 0)


def moved_x(x: jax.Array, action: jax.Array) -> jax.Array:
    """The column `x` after a step to the left or right, if that is the action."""
    return jnp.clip(x + (action == RIGHT) - (action == LEFT), 0, 9)


def moved_y(y: jax.Array, action: jax.Array, top: int, bottom: int) -> jax.Array:
    """The row `y` after a step up or down, if that is the action, within `top` and `bottom`."""
    return jnp.clip(y + (action == DOWN) - (action == UP), top, bottom)


def lanes(x: jax.Array, there: Any) -> jax.Array:
    """Rows of bits with one cell in each of the rows 1 to 8, where something is there: `[10]` from `[8]`, `[8]`."""
    return jnp.pad(jnp.where(there, 1 << x, 0), 1)


def trail(x: jax.Array, right: jax.Array, there: Any) -> jax.Array:
    """Rows of bits with the cells behind what is in rows 1 to 8; off the board there is none: `[10]`."""
    return jnp.pad(jnp.where(there, jnp.where(right, (1 << x) >> 1, (2 << x) & 1023), 0), 1)


def zeros(*shape: int, dtype: Any = jnp.int32) -> jax.Array:
    """Zeros, whole numbers by default."""
    return jnp.zeros(shape, dtype)
