"""Wrappers that apply a function to each reward or observation. They change no state, so states keep their type."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple, cast

import jax
import jax.numpy as jnp
import numpy as np

from jaxrl.environment import Environment, MultiAgentEnvironment, Step
from jaxrl.spaces import Box, Discrete, MultiDiscrete, Space
from jaxrl.wrappers.base import Wrapper

__all__ = ["Flatten", "ObservationFunction", "RewardFunction", "Taken"]


class Taken(NamedTuple):
    """A step that one environment took."""

    state: Any
    """Before the step."""
    action: Any
    next_state: Any
    """After the step, before any reset."""
    reward: jax.Array
    """The environment's own: float32 `[]`, or `[N]` with agents."""
    terminated: jax.Array
    truncated: jax.Array
    info: dict[str, Any]
    params: Any
    """The environment's parameters."""


class RewardFunction(Wrapper):
    """Another reward: `function(taken)` of each step, written for one environment.

        def shaped(taken):
            lost = taken.state.health[:3].sum() - taken.next_state.health[:3].sum()
            return taken.reward - 0.01 * lost

    Args:
        env: The environment.
        function: Takes a `Taken`, returns the reward; with agents `[N]`, or one number for all of them.

    Raises:
        TypeError: The function cannot be called, or returns no number (when the environment steps).
        ValueError: The function returns another shape (likewise).
    """

    split_key = Wrapper.split_key
    keeps_observation = True

    def __init__(self, env: Environment, function: Callable[[Taken], Any]) -> None:
        super().__init__(env)
        _check_callable(function, "RewardFunction takes a function of a step that was taken")
        self.function = function

    def step_env(self, key: jax.Array, state: Any, action: Any, params: Any) -> Step:
        return self._with_reward(self.env.step_env(key, state, action, params), state, action, params)

    def batch_step_env(
        self, keys: jax.Array, state: Any, action: Any, params: Any, *, own_params: bool = False
    ) -> Step:
        stepped = self.env.batch_step_env(keys, state, action, params, own_params=own_params)
        return self._batched(own_params)(stepped, state, action, params)

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
        params = self._params(params)
        stepped = self.env.batch_step(keys, state, action, params, reset_to, own_params=own_params)
        return self._batched(own_params)(stepped, state, action, params)

    def _batched(self, own_params: bool) -> Callable[..., Step]:
        return jax.vmap(self._with_reward, in_axes=(0, 0, 0, 0 if own_params else None))

    def _with_reward(self, stepped: Step, state: Any, action: Any, params: Any) -> Step:
        obs, after, reward, terminated, truncated, info = stepped
        reward = jnp.asarray(reward)
        final_state = info.get("final_state", after)
        told = {name: value for name, value in info.items() if name not in ("final_state", "final_observation")}
        taken = Taken(state, action, final_state, reward, terminated, truncated, told, params)
        for_agents = f", or {list(reward.shape)}, one for each agent" if reward.shape else ""
        new = _numbers(self.function(taken), "The reward function", f"return one number{for_agents}")
        new = new.astype(jnp.float32)
        if new.shape not in ((), reward.shape):
            raise ValueError(f"The reward function returns shape {list(new.shape)}; return one number{for_agents}.")
        return obs, after, jnp.broadcast_to(new, reward.shape), terminated, truncated, info


class ObservationFunction(Wrapper):
    """Another observation: `function(obs)` of each agent's observation.

    Args:
        env: The environment.
        function: Takes one agent's observation, an array in the space of `env`, and returns one in `space`.
        space: The space of what it returns; None if it is that of `env`.

    Raises:
        TypeError: The function cannot be called, or `space` is not a space; or the function returns no array (when the
            environment observes).
        ValueError: The function returns another shape than that of the space (likewise).
    """

    split_key = Wrapper.split_key
    mutate = Wrapper.mutate

    def __init__(self, env: Environment, function: Callable[[jax.Array], Any], space: Space | None = None) -> None:
        super().__init__(env)
        _check_callable(function, "ObservationFunction takes a function of an observation")
        if not isinstance(space, Space | None):
            raise TypeError(f"space is one of jaxrl.spaces, such as Box(-1.0, 1.0, (3,)), or None, not {space!r}.")
        self.function = function
        self.space = space

    def observation_space(self, params: Any = None) -> Space:
        return self.env.observation_space(params) if self.space is None else self.space

    @property
    def agent_observation_spaces(self) -> dict[str, Space]:
        """Each agent's observation space: those of `env` if the function stays in them, otherwise `space`."""
        team = cast(MultiAgentEnvironment, self.env)
        if self.space is None:
            return team.agent_observation_spaces
        return dict.fromkeys(team.agents, self.space)

    @property
    def entities(self) -> None:
        """None, since it is unknown what the function does."""
        return None

    @property
    def symmetries(self) -> None:
        """None, likewise."""
        return None

    @property
    def scripted_policy(self) -> None:
        """None, likewise: the rules may not be able to read what the function returns."""
        return None

    def observation(self, state: Any, params: Any = None) -> Any:
        return self._of_agents(self.env.observation(state, params))

    def batch_observation(self, state: Any, params: Any = None, *, own_params: bool = False) -> Any:
        obs = self.env.batch_observation(state, self._params(params), own_params=own_params)
        return jax.vmap(self._of_agents)(obs)

    def reset_env(self, key: jax.Array, params: Any) -> tuple[Any, Any]:
        obs, state = self.env.reset_env(key, params)
        return self._of_agents(obs), state

    def step_env(self, key: jax.Array, state: Any, action: Any, params: Any) -> Step:
        stepped = self.env.step_env(key, state, action, params)
        return self._of_agents(stepped[0]), *stepped[1:]

    def batch_reset(self, keys: jax.Array, params: Any = None, *, own_params: bool = False) -> tuple[Any, Any]:
        obs, state = self.env.batch_reset(keys, self._params(params), own_params=own_params)
        return jax.vmap(self._of_agents)(obs), state

    def batch_step_env(
        self, keys: jax.Array, state: Any, action: Any, params: Any, *, own_params: bool = False
    ) -> Step:
        stepped = self.env.batch_step_env(keys, state, action, params, own_params=own_params)
        return jax.vmap(self._of_agents)(stepped[0]), *stepped[1:]

    def _of_agents(self, obs: Any) -> jax.Array:
        """The new observation, `[…]`, or `[N, …]` with agents, in the dtype of its space."""
        function = jax.vmap(self.function) if isinstance(self, MultiAgentEnvironment) else self.function
        space = self.observation_space()
        new = _numbers(function(obs), "The observation function", "return one array")
        shape = (*((self.num_agents,) if isinstance(self, MultiAgentEnvironment) else ()), *space.shape)
        if new.shape != shape:
            own = list(new.shape[len(shape) - len(space.shape) :])
            wanted = f"return {list(space.shape)}, or give the space of what it returns"
            raise ValueError(f"The observation function returns shape {own}; {wanted}.")
        return new.astype(space.dtype)


class Flatten(ObservationFunction):
    """Observations as vectors of float32: arrays in a row, classes one-hot."""

    def __init__(self, env: Environment) -> None:
        space = env.observation_space()
        super().__init__(env, partial(_flat, space), _flat_space(space))

    @property
    def agent_observation_spaces(self) -> dict[str, Space]:
        """Each agent's own observation space, flattened; the common one if padding ends up in between."""
        team = cast(MultiAgentEnvironment, self.env)
        common, spaces = team.observation_space(), team.agent_observation_spaces
        return {
            agent: _flat_space(space if _stays_in_front(space, common) else common) for agent, space in spaces.items()
        }


def _check_callable(function: Any, sentence: str) -> None:
    if not callable(function):
        raise TypeError(f"{sentence}, not {function!r}.")


def _numbers(returned: Any, function: str, advice: str) -> jax.Array:
    """What a function returned as an array; raises TypeError, with advice, if it is none."""
    try:
        return jnp.asarray(returned)
    except (TypeError, ValueError):  # such as None, where the function lacks its return, or a dict
        raise TypeError(f"{function} returns a {type(returned).__name__}; {advice}.") from None


def _stays_in_front(own: Space, common: Space) -> bool:
    """Whether an agent's entries are the first ones of the padded observation, flattened, too."""
    if isinstance(common, Box):
        return own.shape[1:] == common.shape[1:]
    *classes, _ = _classes(own)
    return tuple(classes) == _classes(common)[: len(classes)]


def _flat_space(space: Space) -> Box:
    if isinstance(space, Box):
        low, high = (np.broadcast_to(bound, space.shape).reshape(-1) for bound in (space.low, space.high))
        return Box(low, high, low.shape)
    return Box(0.0, 1.0, (sum(_classes(space)),))


def _flat(space: Space, obs: jax.Array) -> jax.Array:
    if isinstance(space, Box):
        return obs.reshape(-1).astype(jnp.float32)
    parts = zip(jnp.atleast_1d(obs), _classes(space), strict=True)
    return jnp.concatenate([jax.nn.one_hot(number, size, dtype=jnp.float32) for number, size in parts])


def _classes(space: Space) -> tuple[int, ...]:
    """The number of classes of each entry.

    Raises:
        TypeError: The space cannot be flattened.
    """
    if isinstance(space, MultiDiscrete):
        return space.nvec
    if isinstance(space, Discrete):
        return (space.n,)
    raise TypeError(f"Flatten takes observations in Box, Discrete or MultiDiscrete, not in {space}.")
