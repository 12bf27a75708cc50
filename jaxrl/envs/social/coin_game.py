"""The coin game, a dilemma that lasts (Lerer and Peysakhovich 2017, https://arxiv.org/abs/1707.01068)."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxrl.environment import MultiAgentEnvironment, Step, as_arrays
from jaxrl.envs.batching import same_key, uniform_rows
from jaxrl.envs.options import flag, table, whole
from jaxrl.envs.social.draw import coin_game_board, draw_coin_game
from jaxrl.render.scene import Scene
from jaxrl.spaces import Box, Discrete

__all__ = ["CoinGame", "Params", "State"]

SIZE = 3
_MOVES = np.array([[0, 1], [0, -1], [1, 0], [-1, 0], [0, 0]], np.int32)  # right, left, up, down, stay
# Each player sees itself first, and its own coin before the other. With 64 bits, jax mixes it up with its own copy of
# 32 once both jax_enable_x64 and its opposite have been in use.
_SEEN_BY = np.array([[0, 1, 2, 3], [1, 0, 3, 2]], np.int32)
_DRAWS = 8  # two for each player and each coin


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Params:
    """The numbers that may vary."""

    payoff: Any
    """float32 `[2, 3]`: what each player gets for taking red's coin, for taking blue's, and for losing its own."""
    inner_steps: Any
    """Steps of a round, after which everything is dealt anew."""
    max_steps: Any
    """Steps of an episode."""


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class State:
    """A round, and what was taken before."""

    things: jax.Array
    """int32 `[4, 2]`: the row, from the bottom, and the column of red, blue, red's coin and blue's coin."""
    taken: jax.Array
    """int32 `[2, 2]`: the coins that red and blue have taken in this episode, by colour."""
    step: jax.Array


class CoinGame(MultiAgentEnvironment):
    """Two players on a torus of 3 x 3 cells, and a coin of each one's colour, which lies elsewhere once it is taken.

    Any coin is worth 1 to whoever takes it, and whose coin the other one takes loses 2. Greedy players end up with
    nothing; the best for both is that everyone takes only their own.

    Observation of each agent bool `[36]`: a cell is four numbers, whether I, the other one, my coin, the other's coin
    are there, and a row of cells comes after the other; with `picture`, `[3, 3, 4]`.
    Action Discrete(5): right, left, up, down, stay.
    Reward: the player's own payoffs, or with `shared_reward` for both the sum of the two.
    Truncated after `outer_steps` rounds of `inner_steps` steps each; `info["inner_end"]` tells the end of a round.
    `info["own_coins"]` is the share of the coins taken in this episode that had the taker's colour.

    Args:
        inner_steps: Steps of a round. The next one starts with everything dealt anew.
        outer_steps: Rounds of an episode.
        payoff: See `Params.payoff`.
        shared_reward: Whether both get the sum of both rewards, and so are one team.
        egocentric: Whether each player sees itself in the middle of the torus.
        picture: Whether observations are `[3, 3, 4]`.

    Raises:
        ValueError: An option is out of its range.
    """

    agents = ("red", "blue")
    action_names = ("right", "left", "up", "down", "stay")

    def __init__(
        self,
        *,
        inner_steps: int = 10,
        outer_steps: int = 10,
        payoff: Any = ((1, 1, -2), (1, 1, -2)),
        shared_reward: bool = False,
        egocentric: bool = False,
        picture: bool = False,
    ) -> None:
        values = table("payoff", payoff)
        if values.shape != (2, 3):
            raise ValueError(f"payoff must be a table of 2 x 3 numbers, got the shape {values.shape}.")
        inner = whole("inner_steps", inner_steps)
        self._rounds = whole("outer_steps", outer_steps)
        steps = whole("inner_steps * outer_steps", inner * self._rounds)
        self._default_params = as_arrays(Params(values, inner, steps))
        self._shared_reward, self._egocentric = flag("shared_reward", shared_reward), flag("egocentric", egocentric)
        self._picture = flag("picture", picture)

    @property
    def default_params(self) -> Params:
        return self._default_params

    @property
    def teams(self) -> tuple[int, ...]:
        return (0, 0) if self._shared_reward else (0, 1)

    @property
    def roles(self) -> tuple[int, ...]:
        return (0, 0)

    def observation_space(self, params: Params | None = None) -> Box:
        return Box(0, 1, (SIZE, SIZE, 4) if self._picture else (SIZE * SIZE * 4,), bool)

    def action_space(self, params: Params | None = None) -> Discrete:
        return Discrete(len(_MOVES))

    split_key = same_key  # steps and starts draw different rows of a key

    def reset_env(self, key: jax.Array, params: Params) -> tuple[jax.Array, State]:
        draws = uniform_rows(key, _DRAWS, _DRAWS)
        state = State(_dealt(draws), jnp.zeros((2, 2), jnp.int32), jnp.zeros((), jnp.int32))
        return self.observation(state), state

    def step_env(self, key: jax.Array, state: State, action: jax.Array, params: Params) -> Step:
        action = self.action_space().clip(action)
        dealt = _dealt(uniform_rows(key, _DRAWS))
        players = (state.things[:2] + jnp.asarray(_MOVES)[action]) % SIZE
        coins = state.things[2:]
        takes = jnp.all(players[:, None] == coins, -1)  # [player, coin]
        coins = jnp.where(jnp.any(takes, 0)[:, None], dealt[2:], coins)

        step = state.step + 1
        truncated = step >= params.max_steps
        inner_end = step % params.inner_steps == 0
        things = jnp.where(inner_end & ~truncated, dealt, jnp.concatenate([players, coins]))
        after = State(things, state.taken + takes, step)
        reward = _rewards(takes.astype(jnp.float32), params.payoff)
        if self._shared_reward:
            reward = jnp.broadcast_to(reward.sum(), (2,))
        info = {"inner_end": inner_end, "own_coins": _own_share(after.taken)}
        return self.observation(after), after, reward, jnp.zeros_like(truncated), truncated, info

    def observation(self, state: State, params: Params | None = None) -> jax.Array:
        """Bool `[2, 36]`, or `[2, 3, 3, 4]` with `picture`."""
        seen = state.things[_SEEN_BY]  # [player, thing, 2]
        if self._egocentric:
            seen = (seen - seen[:, :1] + 1) % SIZE
        rows, columns = (seen[..., axis][..., None] == np.arange(SIZE) for axis in (0, 1))
        cells = rows[:, :, :, None] & columns[:, :, None]
        shape = (2, *self.observation_space().shape)
        return jnp.moveaxis(cells, 1, -1).reshape(shape)

    def global_state(self, state: State, params: Params | None = None) -> jax.Array:
        """float32 `[36]`: what red would see without `egocentric`."""
        cells = jax.nn.one_hot(state.things[:, 0] * SIZE + state.things[:, 1], SIZE * SIZE, dtype=jnp.float32)
        return cells.T.reshape(-1)

    def draw(self, states: State, params: Params | None = None) -> Scene:
        given = self._params(params)
        return draw_coin_game(states, int(np.asarray(given.inner_steps)), int(np.asarray(given.max_steps)))

    def board(self, state: State) -> str:
        """One state in letters, see `coin_game_board`."""
        return coin_game_board(state)


def _dealt(draws: jax.Array) -> jax.Array:
    """Each of the four things in any cell, int32 `[4, 2]`, from eight uniform draws."""
    return (draws * SIZE).astype(jnp.int32).reshape(4, 2)


def _rewards(takes: jax.Array, payoff: jax.Array) -> jax.Array:
    """float32 `[2]`: each player's payoffs, given `takes[player, coin]`, and what the other one took of theirs."""
    gains = (takes * payoff[:, :2]).sum(1)
    return gains + payoff[:, 2] * jnp.stack([takes[1, 0], takes[0, 1]])


def _own_share(taken: jax.Array) -> jax.Array:
    """The share of the coins `taken[player, coin]` that had the taker's colour; 0 if there are none."""
    return (taken[0, 0] + taken[1, 1]) / jnp.maximum(taken.sum(), 1).astype(jnp.float32)
