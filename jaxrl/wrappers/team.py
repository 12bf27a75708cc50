"""Teams: a single agent as a team of one, and all agents as one team."""

from __future__ import annotations

from typing import Any, cast

import jax
import jax.numpy as jnp

from jaxrl.environment import Environment, MultiAgentEnvironment, Step
from jaxrl.wrappers.base import Wrapper
from jaxrl.wrappers.functions import RewardFunction, Taken

__all__ = ["SharedReward", "SingleAgentTeam", "as_multi_agent"]


class SingleAgentTeam(Wrapper, MultiAgentEnvironment):
    """A single-agent environment as a team of N = 1, so that multi-agent code runs it unchanged."""

    agents = ("agent",)
    split_key = Wrapper.split_key
    mutate = Wrapper.mutate

    def reset_env(self, key: jax.Array, params: Any) -> tuple[jax.Array, Any]:
        obs, state = self.env.reset_env(key, params)
        return _add_axis(obs), state

    def batch_reset(self, keys: jax.Array, params: Any = None, *, own_params: bool = False) -> tuple[Any, Any]:
        obs, state = self.env.batch_reset(keys, self._params(params), own_params=own_params)
        return jax.vmap(_add_axis)(obs), state

    def step_env(self, key: jax.Array, state: Any, action: jax.Array, params: Any) -> Step:
        return _of_team(self.env.step_env(key, state, action[0], params))

    def batch_step_env(
        self, keys: jax.Array, state: Any, action: Any, params: Any, *, own_params: bool = False
    ) -> Step:
        return jax.vmap(_of_team)(self.env.batch_step_env(keys, state, action[:, 0], params, own_params=own_params))

    def batch_step(
        self,
        keys: jax.Array,
        state: Any,
        action: Any,
        params: Any = None,
        reset_to: tuple[Any, Any] | None = None,
        *,
        own_params: bool = False,
    ) -> Step:
        if reset_to is not None:
            reset_to = reset_to[0][:, 0], reset_to[1]
        stepped = self.env.batch_step(keys, state, action[:, 0], self._params(params), reset_to, own_params=own_params)
        *stepped, info = jax.vmap(_of_team)(stepped)
        final = jax.vmap(_add_axis)(info["final_observation"])
        return *stepped, {**info, "final_observation": final}  # pyright: ignore[reportReturnType]

    def batch_observation(self, state: Any, params: Any = None, *, own_params: bool = False) -> Any:
        obs = self.env.batch_observation(state, self._params(params), own_params=own_params)
        return jax.vmap(_add_axis)(obs)

    def observation(self, state: Any, params: Any = None) -> Any:
        return _add_axis(self.env.observation(state, params))

    def action_mask(self, state: Any, params: Any = None) -> jax.Array:
        return self.env.action_mask(state, params)[None]

    def sub_states(self, key: jax.Array, state: Any, action: jax.Array, params: Any = None) -> Any:
        return self.env.sub_states(key, state, action[0], params)


def as_multi_agent(env: Environment) -> MultiAgentEnvironment:
    """`env` itself if it is multi-agent, otherwise the same task as a team of one."""
    return env if isinstance(env, MultiAgentEnvironment) else SingleAgentTeam(env)


def _of_team(stepped: Step) -> Step:
    return _add_axis(stepped[0]), stepped[1], _add_axis(stepped[2]), *stepped[3:]


def _add_axis(tree: Any) -> Any:
    return jax.tree.map(lambda leaf: jnp.asarray(leaf)[None], tree)


def _mean_reward(taken: Taken) -> jax.Array:
    """A function of the module, which can be pickled."""
    return taken.reward.mean()


class SharedReward(RewardFunction):
    """All agents as one team (`teams`): each gets the mean of what they earn.

    Raises:
        TypeError: `env` has a single agent.
    """

    def __init__(self, env: MultiAgentEnvironment) -> None:
        if not isinstance(env, MultiAgentEnvironment):
            raise TypeError(f"SharedReward needs an environment with several agents, and {env.name} has one.")
        super().__init__(env, _mean_reward)

    @property
    def teams(self) -> tuple[int, ...]:
        """One team for all."""
        return (0,) * len(cast(MultiAgentEnvironment, self.env).agents)
