"""Eleven levels: level k is won with probability k / 10 whatever is done, or by one of two actions."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from jaxrl.environment import Environment
from jaxrl.spaces import Box, Discrete


class State(NamedTuple):
    level: jax.Array  # int32, 0 to 10
    step: jax.Array  # int32


class Eleven(Environment):
    """Episodes of `length` steps; the last one wins `prize` with the level's probability, or if the action fits.

    `by_action`: level k is won by action k mod 2 instead. `mutate` goes up by one level.
    """

    name = "eleven"

    def __init__(self, length: int = 1, prize: float = 1.0, by_action: bool = False) -> None:
        self.length, self.prize, self.by_action = length, prize, by_action

    def observation_space(self, params: Any = None) -> Box:
        return Box(0.0, 1.0, (12,))

    def action_space(self, params: Any = None) -> Discrete:
        return Discrete(2)

    def observation(self, state: State, params: Any = None) -> jax.Array:
        seen = jax.nn.one_hot(state.level, 11)
        return jnp.append(seen, state.step.astype(jnp.float32) / self.length)

    def reset_env(self, key: jax.Array, params: Any) -> tuple[jax.Array, State]:
        state = State(jax.random.randint(key, (), 0, 11), jnp.int32(0))
        return self.observation(state), state

    def step_env(self, key: jax.Array, state: State, action: jax.Array, params: Any) -> Any:
        lucky = jax.random.uniform(key) < state.level / 10
        over = state.step + 1 >= self.length
        won = over & (action == state.level % 2 if self.by_action else lucky)
        after = State(state.level, state.step + 1)
        return self.observation(after), after, won * self.prize, over, jnp.bool_(False), {"won": won}

    def mutate(self, key: jax.Array, state: State, params: Any = None) -> State:
        del key
        return state._replace(level=(state.level + 1) % 11)
