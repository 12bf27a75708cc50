"""Wrappers that remember something within an episode: its length, its last observations, its last action."""

from __future__ import annotations

from numbers import Real
from typing import Any, cast

import jax
import jax.numpy as jnp
import numpy as np

from jaxrl.config import MAX_COUNT, as_whole
from jaxrl.environment import Environment, MultiAgentEnvironment, Step, select
from jaxrl.spaces import Box, Discrete, MultiDiscrete, Space
from jaxrl.wrappers.base import StatefulWrapper, Wrapped, Wrapper

__all__ = ["ActionRepeat", "FrameStack", "StickyActions", "TimeLimit"]


class TimeLimit(StatefulWrapper):
    """Truncates episodes that have not ended after `max_steps` steps.

    Args:
        env: The environment.
        max_steps: At least 1, and no more than an int32 holds.
    """

    keeps_observation = True

    def __init__(self, env: Environment, max_steps: int) -> None:
        super().__init__(env)
        self.max_steps = as_whole("max_steps", max_steps, most=MAX_COUNT)

    def after_reset(self, obs: Any, state: Any) -> tuple[Any, Wrapped]:
        return obs, Wrapped(state, jnp.zeros((), jnp.int32))

    def after_step(self, state: Wrapped, action: Any, stepped: Step) -> Step:
        obs, after, reward, terminated, truncated, info = stepped
        steps = state.own + 1
        truncated = truncated | ((steps >= self.max_steps) & jnp.logical_not(terminated))
        return obs, Wrapped(after, steps), reward, terminated, truncated, info


class FrameStack(StatefulWrapper):
    """Observations of the last `num_frames` steps, one after the other along the last axis, the newest last.

    Vectors `[D]` become `[num_frames * D]`, and pictures `[H, W, C]` get `num_frames * C` channels. At the start of an
    episode all frames are its first observation.

    Args:
        env: The environment.
        num_frames: At least 1.
    """

    mutate = Environment.mutate  # none: it observes its memory, not the state that an edit changes

    def __init__(self, env: Environment, num_frames: int) -> None:
        super().__init__(env)
        self.num_frames = as_whole("num_frames", num_frames)

    def observation_space(self, params: Any = None) -> Space:
        return _stacked(self.env.observation_space(params), self.num_frames)

    @property
    def agent_observation_spaces(self) -> dict[str, Space]:
        """The common space for every agent: frames of padded observations have their padding in between."""
        return dict.fromkeys(cast(MultiAgentEnvironment, self.env).agents, self.observation_space())

    @property
    def has_observation(self) -> bool:
        return True

    def observation(self, state: Wrapped, params: Any = None) -> jax.Array:
        return self._joined(state.own)

    def batch_observation(self, state: Wrapped, params: Any = None, *, own_params: bool = False) -> jax.Array:
        return jax.vmap(self._joined)(state.own)

    def after_reset(self, obs: Any, state: Any) -> tuple[Any, Wrapped]:
        frames = jnp.broadcast_to(obs, (self.num_frames, *obs.shape))
        return self._joined(frames), Wrapped(state, frames)

    def after_step(self, state: Wrapped, action: Any, stepped: Step) -> Step:
        frames = jnp.concatenate([state.own[1:], stepped[0][None]])
        return self._joined(frames), Wrapped(stepped[1], frames), *stepped[2:]

    def _joined(self, frames: jax.Array) -> jax.Array:
        """Frames `[F, …, C]` as `[…, F C]`."""
        if not self.env.observation_space().shape:
            frames = frames[..., None]
        return jnp.concatenate(list(frames), axis=-1)


class StickyActions(StatefulWrapper):
    """With some probability an agent's last action is repeated instead of the new one (Machado et al. 2018,
    https://arxiv.org/abs/1709.06009).

    Agents' actions stick independently of each other. The first action of an episode is always taken. A repeated action
    may be one that the environment's mask forbids by then, so it needs a rule for those.

    Args:
        env: The environment.
        probability: The probability of a repetition, 0 to 1.
    """

    split_key = Environment.split_key
    keeps_observation = True

    def __init__(self, env: Environment, probability: float = 0.25) -> None:
        super().__init__(env)
        if not isinstance(probability, Real) or not 0 <= probability <= 1:
            raise ValueError(f"probability must be a number from 0 to 1, got {probability!r}.")
        self.probability = probability

    def before_step(self, key: jax.Array, state: Wrapped, action: Any) -> tuple[jax.Array, Any]:
        key_sticky, key_env = jax.random.split(key)
        last, has_acted = state.own
        agents = (self.num_agents,) if isinstance(self, MultiAgentEnvironment) else ()
        sticks = jax.random.bernoulli(key_sticky, np.float32(self.probability), agents) & has_acted
        return key_env, select(sticks, last, self.action_space().clip(action))

    def after_reset(self, obs: Any, state: Any) -> tuple[Any, Wrapped]:
        space = self.action_space()
        agents = (self.num_agents,) if isinstance(self, MultiAgentEnvironment) else ()
        return obs, Wrapped(state, (jnp.zeros((*agents, *space.shape), space.dtype), jnp.zeros((), bool)))

    def after_step(self, state: Wrapped, action: Any, stepped: Step) -> Step:
        return stepped[0], Wrapped(stepped[1], (action, jnp.ones((), bool))), *stepped[2:]


class ActionRepeat(Wrapper):
    """Takes each action `num_steps` times, and adds up the rewards; the end of an episode ends the repetition.

    The info is that of the last of these steps.

    Args:
        env: The environment.
        num_steps: At least 1.
    """

    keeps_observation = True

    def __init__(self, env: Environment, num_steps: int) -> None:
        super().__init__(env)
        self.num_steps = as_whole("num_steps", num_steps)

    def step_env(self, key: jax.Array, state: Any, action: Any, params: Any) -> Step:
        keys = jax.random.split(key, self.num_steps)
        first = _summable(self.env.step_env(keys[0], state, action, params))

        def again(taken: Step, key: jax.Array) -> tuple[Step, None]:
            return _added(taken, self.env.step_env(key, taken[1], action, params)), None

        return jax.lax.scan(again, first, keys[1:])[0]

    def batch_step_env(
        self, keys: jax.Array, state: Any, action: Any, params: Any, *, own_params: bool = False
    ) -> Step:
        keys = jax.vmap(lambda key: jax.random.split(key, self.num_steps))(keys)
        first = _summable(self.env.batch_step_env(keys[:, 0], state, action, params, own_params=own_params))

        def again(taken: Step, keys: jax.Array) -> tuple[Step, None]:
            stepped = self.env.batch_step_env(keys, taken[1], action, params, own_params=own_params)
            return _added(taken, stepped), None

        return jax.lax.scan(again, first, jnp.swapaxes(keys[:, 1:], 0, 1))[0]

    def sub_states(self, key: jax.Array, state: Any, action: Any, params: Any = None) -> Any:
        return Environment.sub_states(self, key, state, action, params)


def _summable(stepped: Step) -> Step:
    """The step with a reward that adds up: the sum of two booleans would be a boolean."""
    obs, state, reward, terminated, truncated, info = stepped
    reward = jnp.asarray(reward, jnp.float32) if jnp.result_type(reward) == np.bool_ else reward
    return obs, state, reward, terminated, truncated, info


def _added(taken: Step, stepped: Step) -> Step:
    """`taken`, with one more step added where the episode has not ended. Flags are `[]`, or `[B]`."""
    obs, state, reward, terminated, truncated, info = stepped
    gained = taken[2] + reward
    ended = taken[3] | taken[4]
    return select(ended, taken, (obs, state, gained, terminated, truncated, info))


def _stacked(space: Space, num_frames: int) -> Space:
    """The space of `num_frames` elements along the last axis.

    Raises:
        TypeError: The space cannot be stacked.
    """
    if isinstance(space, Discrete):
        return MultiDiscrete((space.n,) * num_frames)
    if isinstance(space, MultiDiscrete):
        return MultiDiscrete(space.nvec * num_frames)
    if not isinstance(space, Box):
        raise TypeError(f"FrameStack takes observations in Box, Discrete or MultiDiscrete, not in {space}.")
    shape = space.shape or (1,)
    bounds = (np.broadcast_to(bound, space.shape).reshape(shape) for bound in (space.low, space.high))
    low, high = (np.concatenate([bound] * num_frames, axis=-1) for bound in bounds)
    return Box(low, high, low.shape, space.dtype)
