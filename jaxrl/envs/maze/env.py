"""A maze of which an agent sees what is in front of it: a test bed for curricula over levels."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxrl.environment import Environment, Step, as_arrays
from jaxrl.envs.batching import same_key, uniform_rows
from jaxrl.envs.maze.draw import draw
from jaxrl.envs.options import one_of, whole
from jaxrl.render.scene import Scene
from jaxrl.spaces import Box, Discrete

__all__ = ["DIRECTIONS", "UNREACHABLE", "VIEW", "Maze", "Params", "State", "fewest_steps"]

DIRECTIONS = np.array([(-1, 0), (0, 1), (1, 0), (0, -1)], np.int32)
"""The change of (row, column) in a step up, to the right, down and to the left; direction d + 1 is clockwise of d."""
UNREACHABLE = 2**30
"""What `fewest_steps` says of a goal to which there is no way; no way is as long."""
VIEW = 5
"""Cells along each side of the view."""

_TURNS = np.array([-1, 1, 0], np.int32)  # of the actions, clockwise
_FORWARD = 2
_LIDAR = np.array([0, -1, 1, 2], np.int32)  # ahead, left, right, behind: directions relative to the agent's
_ROWS, _COLUMNS = np.mgrid[:VIEW, :VIEW]
_AHEAD, _ASIDE = VIEW - 1 - _ROWS, _COLUMNS - VIEW // 2  # places in the view, as seen by the agent
_NORTH = (_ROWS == 0) & (_ASIDE == 0)  # in the view, for an agent that looks there
_COMPASS = np.stack([np.rot90(_NORTH, turns) for turns in range(4)])  # for each direction


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Params:
    """The numbers that may vary."""

    max_steps: Any = 250
    """Steps after which an episode is truncated, T."""


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class State:
    """A maze with H rows, from the top, and W columns; all around it is wall."""

    walls: jax.Array
    """bool `[H, W]`."""
    position: jax.Array
    """int32 `[2]`: the agent's row and column."""
    direction: jax.Array
    """int32: where the agent looks; 0 is up, 1 right, 2 down and 3 left."""
    goal: jax.Array
    """int32 `[2]`: its row and column."""
    step: jax.Array
    """int32: steps taken."""


class Maze(Environment):
    """Find the goal in a random maze, with the actions and rewards of the mazes of Dennis et al. 2020
    (https://arxiv.org/abs/2012.02096). Nobody promises that there is a way.

    Observation, by `observe`: `"view"`, float32 `[54]`, is the 5 x 5 cells ahead, `[5, 5, 2]` with the channels wall
    and goal, then the direction, one-hot. The agent is in the middle of the bottom row and looks up; walls hide
    nothing. `"picture"`, bool `[5, 5, 3]`, is the same with a compass as its third channel: True in the middle of the
    edge that is in the north. `"lidar"`, float32 `[12]`, is the free cells ahead, to the left, to the right and behind
    as parts of `size`, whether the goal is among them, and the direction.
    Action Discrete(3): turn left, turn right, go forward, which walls prevent.
    Reward: 1 - 0.9 t / T on arrival after t of at most T steps. Terminated on arrival, which wins.

    Args:
        size: The cells along each side of the maze.
        walls: The most walls, None for 60 of 169 cells; how many there are, is drawn.
        observe: What the agent sees: `"view"`, `"picture"` or `"lidar"`.
        max_steps: T.

    Raises:
        ValueError: An option is out of its range.
    """

    action_names = ("left", "right", "forward")

    def __init__(
        self, *, size: int = 13, walls: int | None = None, observe: str = "view", max_steps: int = 250
    ) -> None:
        self.size = whole("size", size, 2, 100)
        cells = self.size**2
        self.num_walls = whole("walls", 60 * cells // 169 if walls is None else walls, 0, cells - 2)
        self.observe = one_of("observe", observe, ("view", "picture", "lidar"))
        self._default_params = as_arrays(Params(whole("max_steps", max_steps)))

    @property
    def default_params(self) -> Params:
        return self._default_params

    def observation_space(self, params: Params | None = None) -> Box:
        if self.observe == "picture":
            return Box(0, 1, (VIEW, VIEW, 3), bool)
        return Box(0, 1, (2 * VIEW**2 + 4 if self.observe == "view" else 12,))

    def action_space(self, params: Params | None = None) -> Discrete:
        return Discrete(3)

    split_key = same_key  # only starts draw from it

    def start(self, key: jax.Array) -> State:
        """The start of an episode: a random order of the cells gives walls, goal and agent. Consumes `key`."""
        cells = self.size**2
        draws = uniform_rows(key, cells + 2)
        count = (draws[0] * (self.num_walls + 1)).astype(jnp.int32)
        # Different whole numbers, whose remainders are the cells: to look for one of them takes an eighth of the time
        # that a permutation takes.
        finest = 1 << (((2**31 - 1) // cells).bit_length() - 1)
        order = (draws[2:] * finest).astype(jnp.int32) * cells + np.arange(cells, dtype=np.int32)
        goal = _smallest(order, count)
        agent = jnp.min(jnp.where(order > goal, order, np.int32(2**31 - 1)))
        return State(
            walls=(order < goal).reshape(self.size, self.size),
            position=self._place(agent % cells),
            direction=(draws[1] * 4).astype(jnp.int32),
            goal=self._place(goal % cells),
            step=jnp.zeros((), jnp.int32),
        )

    def reset_env(self, key: jax.Array, params: Params) -> tuple[jax.Array, State]:
        state = self.start(key)
        return self.observation(state), state

    def step_env(self, key: jax.Array, state: State, action: jax.Array, params: Params) -> Step:
        action = self.action_space().clip(action)
        direction = (state.direction + jnp.asarray(_TURNS)[action]) % 4
        ahead = state.position + jnp.asarray(DIRECTIONS)[direction]
        cell = jnp.clip(ahead, 0, self.size - 1)
        moves = (action == _FORWARD) & jnp.all(cell == ahead) & ~state.walls[cell[0], cell[1]]
        position = jnp.where(moves, ahead, state.position)
        after = dataclasses.replace(state, position=position, direction=direction, step=state.step + 1)

        arrived = jnp.all(position == state.goal)
        spent = after.step.astype(jnp.float32) / jnp.asarray(params.max_steps, jnp.float32)
        reward = jnp.where(arrived, 1.0 - 0.9 * spent, 0.0).astype(jnp.float32)
        truncated = (after.step >= params.max_steps) & ~arrived
        return self.observation(after), after, reward, arrived, truncated, {"won": arrived}

    def observation(self, state: State, params: Params | None = None) -> jax.Array:
        """What the agent sees, see `Maze`."""
        if self.observe == "picture":
            compass = jnp.asarray(_COMPASS)[state.direction]
            return jnp.concatenate([self._view(state), compass[..., None]], axis=-1)
        parts = self._lidar(state) if self.observe == "lidar" else (self._view(state).reshape(-1),)
        return jnp.concatenate([part.astype(jnp.float32) for part in (*parts, state.direction == np.arange(4))])

    def mutate(self, key: jax.Array, state: State, params: Params | None = None) -> State:
        """One of three edits, all as likely: another cell becomes wall or free, the goal moves to another free cell, or
        the agent does, and looks anywhere. Where no cell is free, nothing moves. Consumes `key`.
        """
        cells = self.size**2
        draws = uniform_rows(key, cells + 2)
        kind = (draws[0] * 3).astype(jnp.int32)
        grid = np.arange(cells, dtype=np.int32).reshape(self.size, self.size)
        agent, goal = (place[0] * self.size + place[1] for place in (state.position, state.goal))

        allowed = (grid != agent) & (grid != goal) & ((kind == 0) | ~state.walls)
        chosen = jnp.argmax(jnp.where(allowed, draws[2:].reshape(grid.shape), -1.0)).astype(jnp.int32)
        possible = jnp.any(allowed)
        moves_goal, moves_agent = possible & (kind == 1), possible & (kind == 2)
        return dataclasses.replace(
            state,
            walls=state.walls ^ (possible & (kind == 0) & (grid == chosen)),
            goal=jnp.where(moves_goal, self._place(chosen), state.goal),
            position=jnp.where(moves_agent, self._place(chosen), state.position),
            direction=jnp.where(moves_agent, (draws[1] * 4).astype(jnp.int32), state.direction),
        )

    def draw(self, states: State, params: Params | None = None) -> Scene:
        steps = np.asarray(jax.jit(jax.vmap(fewest_steps))(states)).tolist()
        facts = [f"fewest steps: {left}" if left < UNREACHABLE else "no way to the goal" for left in steps]
        ways = jax.jit(jax.vmap(self._ways))(states) if self.observe == "lidar" else None
        return draw(self.name, states, np.array(facts), VIEW if ways is None else np.asarray(ways))

    def _place(self, cell: jax.Array) -> jax.Array:
        """Row and column, int32 `[2]`, of a cell by its number, row by row."""
        return jnp.stack([cell // self.size, cell % self.size])

    def _view(self, state: State) -> jax.Array:
        """The cells ahead, bool `[VIEW, VIEW, 2]`: wall and goal."""
        far, side = VIEW - 1, VIEW // 2
        padded = jnp.pad(state.walls, far, constant_values=True)
        around = jax.lax.dynamic_slice(padded, (state.position[0], state.position[1]), (2 * far + 1, 2 * far + 1))
        turned = [jnp.rot90(around, turns)[:VIEW, far - side : far + side + 1] for turns in range(4)]
        forward, right = (jnp.asarray(DIRECTIONS)[(state.direction + turn) % 4] for turn in (0, 1))
        way = state.goal - state.position
        goal = (jnp.sum(way * forward) == _AHEAD) & (jnp.sum(way * right) == _ASIDE)
        return jnp.stack([jax.lax.select_n(state.direction, *turned), goal], axis=-1)

    def _lidar(self, state: State) -> tuple[jax.Array, jax.Array]:
        """Free cells ahead, left, right and behind, float32 `[4]` in parts of `size`; is the goal there, bool `[4]`."""
        ways, to_goal = self._ways(state), state.goal - state.position
        distance = jnp.sum(jnp.abs(to_goal), dtype=jnp.int32)
        seen = (jnp.sum(to_goal * DIRECTIONS, axis=1, dtype=jnp.int32) == distance) & (distance <= ways)
        looks = (state.direction + _LIDAR) % 4
        return ways[looks].astype(jnp.float32) / np.float32(self.size), seen[looks]

    def _ways(self, state: State) -> jax.Array:
        """Free cells in each direction, int32 `[4]`."""
        row, column = state.position
        along = np.arange(self.size, dtype=np.int32)
        ways = []
        for line, place in ((state.walls[:, column], row), (state.walls[row], column)):
            before = jnp.max(jnp.where(line & (along < place), along, -1))
            behind = jnp.min(jnp.where(line & (along > place), along, self.size))
            ways.append((place - 1 - before, behind - 1 - place))
        (up, down), (left, right) = ways
        return jnp.stack([up, right, down, left])


def fewest_steps(state: State) -> jax.Array:
    """The fewest actions, turns included, that lead from the agent's place and direction to the goal: int32.

    It is `UNREACHABLE` if there is no way. The best return is 1 - 0.9 d / T where d such steps are at most T, and 0
    otherwise; less the agent's own return, that is its true regret.
    """
    height, width = state.walls.shape
    far = np.int32(UNREACHABLE)

    def relax(carry: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        steps, _ = carry  # [H, W, 4] from each place and direction
        around = jnp.pad(steps, ((1, 1), (1, 1), (0, 0)), constant_values=far)
        ahead = [around[1 + y : 1 + y + height, 1 + x : 1 + x + width, d] for d, (y, x) in enumerate(DIRECTIONS)]
        turned = jnp.minimum(jnp.roll(steps, 1, axis=-1), jnp.roll(steps, -1, axis=-1))
        fewer = jnp.minimum(steps, 1 + jnp.minimum(turned, jnp.stack(ahead, axis=-1)))
        fewer = jnp.where(state.walls[..., None], far, fewer)
        return fewer, jnp.any(fewer != steps)

    first = jnp.full((height, width, 4), far).at[state.goal[0], state.goal[1]].set(0)
    steps, _ = jax.lax.while_loop(lambda carry: carry[1], relax, (first, jnp.ones((), bool)))
    return steps[state.position[0], state.position[1], state.direction]


def _smallest(numbers: jax.Array, rank: jax.Array) -> jax.Array:
    """The number of that rank, from 0, among different int32 `[N]` of which none is negative."""

    def next_bit(i: jax.Array, found: jax.Array) -> jax.Array:
        larger = found | (jnp.int32(1) << (30 - i))
        return jnp.where(jnp.sum(numbers < larger, dtype=jnp.int32) <= rank, larger, found)

    return jax.lax.fori_loop(0, 31, next_bit, jnp.zeros((), jnp.int32))
