"""Small wrappers that turn one environment into another."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp

from jaxrl.environment import Environment, MultiAgentEnvironment, Step
from jaxrl.spaces import Space

if TYPE_CHECKING:
    from jaxrl.render.scene import Scene

__all__ = ["SingleAgentTeam", "as_multi_agent"]


class SingleAgentTeam(MultiAgentEnvironment):
    """A single-agent environment as a team of N = 1, so that multi-agent code runs it unchanged."""

    agents = ("agent",)

    def __init__(self, env: Environment) -> None:
        self.env = env
        self.name = env.name
        self.intended = env.intended

    @property
    def default_params(self) -> Any:
        return self.env.default_params

    def observation_space(self, params: Any = None) -> Space:
        return self.env.observation_space(params)

    def action_space(self, params: Any = None) -> Space:
        return self.env.action_space(params)

    def reset_env(self, key: jax.Array, params: Any) -> tuple[jax.Array, Any]:
        obs, state = self.env.reset_env(key, params)
        return _add_axis(obs), state

    def step_env(self, key: jax.Array, state: Any, action: jax.Array, params: Any) -> Step:
        obs, state, reward, terminated, truncated, info = self.env.step_env(key, state, action[0], params)
        return _add_axis(obs), state, reward[None], terminated, truncated, info

    @property
    def has_observation(self) -> bool:
        return self.env.has_observation

    def observation(self, state: Any, params: Any = None) -> Any:
        return _add_axis(self.env.observation(state, params))

    def split_key(self, key: jax.Array) -> tuple[jax.Array, jax.Array]:
        return self.env.split_key(key)

    def action_mask(self, state: Any, params: Any = None) -> jax.Array:
        return self.env.action_mask(state, params)[None]

    def sub_states(self, key: jax.Array, state: Any, action: jax.Array, params: Any = None) -> Any:
        return self.env.sub_states(key, state, action[0], params)

    def draw(self, states: Any, params: Any = None) -> Scene:
        return self.env.draw(states, params)


def as_multi_agent(env: Environment) -> MultiAgentEnvironment:
    """`env` itself if it is multi-agent, otherwise the same task as a team of one."""
    return env if isinstance(env, MultiAgentEnvironment) else SingleAgentTeam(env)


def _add_axis(tree: Any) -> Any:
    return jax.tree.map(lambda leaf: jnp.asarray(leaf)[None], tree)
