"""An environment of your own: check it, train on it, film it.

    python examples/own_environment.py                                        # seconds on two CPU cores
    jaxrl train ppo --env ./examples/own_environment.py:Catch --total-timesteps 60000

A ball falls through a grid, and a paddle on the ground must be under it when it lands (the task Catch of
https://github.com/google-deepmind/bsuite). The size of the grid is an option: `Catch(rows=10, columns=5)`.
"""

from __future__ import annotations

import argparse
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

import jaxrl
from jaxrl.algos import ppo
from jaxrl.environment import Environment, Step
from jaxrl.render.scene import Circle, Rect, Scene
from jaxrl.spaces import Box, Discrete


class State(NamedTuple):
    row: jax.Array  # of the ball, from 0 at the top
    column: jax.Array
    paddle: jax.Array  # its column


class Catch(Environment):
    """One ball per episode; the reward is 1 for catching it and -1 for missing it."""

    name = "catch"

    def __init__(self, rows: int = 10, columns: int = 5) -> None:
        self.rows, self.columns = rows, columns

    def observation_space(self, params: Any = None) -> Box:
        return Box(0.0, 1.0, (self.rows, self.columns))

    def action_space(self, params: Any = None) -> Discrete:
        return Discrete(3)  # left, stay, right

    def reset_env(self, key: jax.Array, params: Any) -> tuple[Any, Any]:
        column = jax.random.randint(key, (), 0, self.columns, jnp.int32)
        state = State(jnp.int32(0), column, jnp.int32(self.columns // 2))
        return self.observation(state), state

    def step_env(self, key: jax.Array, state: State, action: Any, params: Any) -> Step:
        paddle = jnp.clip(state.paddle + jnp.clip(action, 0, 2) - 1, 0, self.columns - 1).astype(jnp.int32)
        state = State(state.row + 1, state.column, paddle)
        landed = state.row >= self.rows - 1
        reward = jnp.where(landed, jnp.where(state.column == paddle, 1.0, -1.0), 0.0).astype(jnp.float32)
        return self.observation(state), state, reward, landed, jnp.bool_(False), {}

    def observation(self, state: State, params: Any = None) -> jax.Array:
        grid = jnp.zeros((self.rows, self.columns), jnp.float32)
        return grid.at[state.row, state.column].set(1.0).at[self.rows - 1, state.paddle].set(1.0)

    def draw(self, states: Any, params: Any = None) -> Scene:
        ball = Circle(x=states.column + 0.5, y=self.rows - 0.5 - states.row, radius=0.4, fill="#e15759")
        paddle = Rect(x=states.paddle, y=0.0, width=1.0, height=0.5, fill="#4e79a7")
        return Scene(len(states.row), (0.0, 0.0, self.columns, self.rows), (paddle, ball))


def main() -> None:
    """Check, train, film."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--total-timesteps", type=int, default=60_000)
    jaxrl.check_env(Catch())
    config = ppo.Config(env=Catch, total_timesteps=parser.parse_args().total_timesteps)
    result = jaxrl.fit(ppo.make(config), config, "runs/catch", resume="auto", quiet=True)
    print(result)


if __name__ == "__main__":
    main()
