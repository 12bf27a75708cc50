"""Environments in which something of every kind is seen: `toy/alone` and `toy/team` (see the fixture `toys`)."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxrl.environment import Environment, MultiAgentEnvironment
from jaxrl.spaces import Box, Discrete, MultiDiscrete, Space

SEEN: dict[str, Space] = {
    "class": Discrete(5),
    "classes": MultiDiscrete((3, 4)),
    "bytes": Box(0, 255, (6,), np.uint8),
    "picture": Box(0, 255, (4, 3, 2), np.uint8),
    "counts": Box(np.array([2, 0]), np.array([12, 4]), (2,), np.int32),
    "grid": Box(0, 10, (3, 2), np.int32),  # two axes are no picture
    "floats": Box(-1.0, 1.0, (6,)),
}
DONE = {
    "discrete": Discrete(2),
    "several": MultiDiscrete((2, 3)),
    "bounded": Box(-1.0, 1.0, (2,)),
    "wide": Box(np.array([0.0, -3.0]), np.array([5.0, 3.0]), (2,)),
    "unbounded": Box(-np.inf, np.inf, (2,)),
    "widest": Box(np.finfo(np.float32).min, np.finfo(np.float32).max, (2,)),
    "whole": Box(0, 10, (2,), np.int32),
}


class Alone(Environment):
    """Observations are drawn anew in every step; an episode has three, and they earn nothing."""

    def __init__(self, seen: str = "floats", done: str = "discrete") -> None:
        self.seen, self.done = SEEN[seen], DONE[done]

    def observation_space(self, params: Any = None) -> Space:
        return self.seen

    def action_space(self, params: Any = None) -> Space:
        return self.done

    def reset_env(self, key: jax.Array, params: Any) -> tuple[jax.Array, jax.Array]:
        return self.seen.sample(key), jnp.int32(0)

    def step_env(self, key: jax.Array, state: jax.Array, action: jax.Array, params: Any) -> Any:
        return self.seen.sample(key), state + 1, jnp.float32(0), jnp.bool_(False), state == 2, {}


class Team(MultiAgentEnvironment, Alone):
    """The same for two agents, in one team or in one each."""

    agents = ("agent_0", "agent_1")

    def __init__(self, seen: str = "floats", done: str = "discrete", rivals: bool = False) -> None:
        Alone.__init__(self, seen, done)
        self.rivals = rivals

    @property
    def teams(self) -> tuple[int, ...]:
        return (0, 1) if self.rivals else (0, 0)

    def _sample(self, key: jax.Array) -> jax.Array:
        return jax.vmap(self.seen.sample)(jax.random.split(key, self.num_agents))

    def reset_env(self, key: jax.Array, params: Any) -> tuple[jax.Array, jax.Array]:
        return self._sample(key), jnp.int32(0)

    def step_env(self, key: jax.Array, state: jax.Array, action: jax.Array, params: Any) -> Any:
        return self._sample(key), state + 1, jnp.zeros(2), jnp.bool_(False), state == 2, {}
