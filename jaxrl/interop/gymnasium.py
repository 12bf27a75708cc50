"""Our environments for Gymnasium: `to_gymnasium(env)`, and B at once by `to_gymnasium_vector(env, B)`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

from jaxrl import spaces
from jaxrl.environment import Environment, MultiAgentEnvironment
from jaxrl.interop.common import Compiled, Extra, Stepper, own_params, sampling_mask, writable
from jaxrl.spaces import check_action
from jaxrl.vector import VectorEnv

with Extra("gymnasium"):
    import gymnasium
    from gymnasium.vector import AutoresetMode
    from gymnasium.vector.utils import batch_space

__all__ = ["GymnasiumEnv", "GymnasiumVectorEnv", "space_of", "to_gymnasium", "to_gymnasium_vector"]


def to_gymnasium(env: Environment, params: Any = None, render_mode: str | None = None) -> GymnasiumEnv:
    """`env` as a `gymnasium.Env`.

    If actions are Discrete, `info["action_mask"]` says which can be chosen. Each step calls a small compiled program;
    for speed, use `to_gymnasium_vector`.

    Args:
        env: A single-agent environment.
        params: Its parameters; None for its defaults.
        render_mode: `"rgb_array"` for pictures, or None.

    Raises:
        ValueError: The environment has several agents, or the render mode is unknown.
    """
    return GymnasiumEnv(env, params, render_mode)


def to_gymnasium_vector(
    env: Environment, num_envs: int, params: Any = None, render_mode: str | None = None
) -> GymnasiumVectorEnv:
    """B copies of `env` as a `gymnasium.vector.VectorEnv`, stepped by one compiled program.

    Episodes that end are reset in the same step (`AutoresetMode.SAME_STEP`): `info["final_obs"]` has the last
    observation `[B, …]` and `info["final_info"]` the facts of the last step, valid where `info["_final_obs"]` and
    `info["_final_info"]` are True.

    Args:
        env: A single-agent environment.
        num_envs: B.
        params: Its parameters; None for its defaults.
        render_mode: `"rgb_array"` for a picture of each copy, or None.

    Raises:
        ValueError: The environment has several agents, `num_envs` is not positive, or the render mode is unknown.
    """
    return GymnasiumVectorEnv(env, num_envs, params, render_mode)


class GymnasiumEnv(gymnasium.Env):
    """See `to_gymnasium`."""

    metadata = {"render_modes": ["rgb_array"], "render_fps": 30}  # noqa: RUF012  (as in Gymnasium)

    def __init__(self, env: Environment, params: Any = None, render_mode: str | None = None) -> None:
        _one_agent(env)
        self.stepper = Stepper(env, params)
        self.render_mode, self._ended = _known(render_mode), False
        self.observation_space = space_of(env.observation_space(self.stepper.params))
        self.action_space = space_of(env.action_space(self.stepper.params))

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Start an episode; a `seed` makes everything that follows reproducible."""
        super().reset(seed=seed)
        obs, info = self.stepper.reset(int(self.np_random.integers(2**31)))
        self._ended = False
        return self._observed(obs), info

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """One step; after the end of an episode call `reset`: a step beyond it warns, and its result means nothing."""
        if self._ended:
            gymnasium.logger.warn(
                "The episode has ended; call reset() before the next step(), whose result means nothing."
            )
        obs, reward, terminated, truncated, info = self.stepper.step(action)
        self._ended = terminated or truncated
        return self._observed(obs), float(reward), terminated, truncated, info

    def render(self) -> np.ndarray | None:  # pyright: ignore[reportIncompatibleMethodOverride]
        """A picture, if `render_mode` is set."""
        return self.stepper.render() if self.render_mode else None

    def _observed(self, obs: np.ndarray) -> Any:
        """The observation as Gymnasium has it: a number, which can be a key of a table, if the space is Discrete."""
        return np.int64(obs) if isinstance(self.observation_space, gymnasium.spaces.Discrete) else obs


class GymnasiumVectorEnv(gymnasium.vector.VectorEnv):
    """See `to_gymnasium_vector`."""

    metadata = {"autoreset_mode": AutoresetMode.SAME_STEP, "render_modes": ["rgb_array"], "render_fps": 30}  # noqa: RUF012

    def __init__(self, env: Environment, num_envs: int, params: Any = None, render_mode: str | None = None) -> None:
        _one_agent(env)
        self.render_mode = _known(render_mode)
        self.venv = VectorEnv(env, num_envs)
        self.num_envs = num_envs
        self.params = own_params(env, params)
        self.single_observation_space = space_of(env.observation_space(self.params))
        self.single_action_space = space_of(env.action_space(self.params))
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self._masked = isinstance(env.action_space(self.params), spaces.Discrete)
        self._key, self.state = jax.random.key(0), None
        self._reset, self._step = Compiled(self._pure_reset), Compiled(self._pure_step)

    def reset(  # pyright: ignore[reportIncompatibleMethodOverride]
        self, *, seed: int | Sequence[int] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """Start B episodes; a `seed` makes everything that follows reproducible.

        Several seeds, B of them, are one for each environment, whatever the others are.

        Raises:
            ValueError: There are not as many seeds as environments.
        """
        if seed is None or isinstance(seed, int | np.integer):
            super().reset(seed=None if seed is None else int(seed))
            key = jax.random.key(int(self.np_random.integers(2**31)))
        elif len(seed) != self.num_envs:
            raise ValueError(f"seed is one whole number, or {self.num_envs} for as many environments; got {len(seed)}.")
        else:
            self.np_random = np.random.default_rng(list(seed))
            key = jax.vmap(jax.random.key)(np.asarray(seed, np.uint32))
        self._key, self.state, obs, info = self._reset(key, self.params)
        return writable(obs), _marked(writable(info))

    def step(self, actions: Any) -> tuple[Any, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        """Step all B environments.

        Raises:
            RuntimeError: No episodes have begun.
            TypeError: The actions are no numbers.
            ValueError: They have another shape.
        """
        if self.state is None:
            raise RuntimeError(f"No episodes of {self.venv.env.name} have begun; call reset before step.")
        actions = check_action(actions, self.venv.action_space(), "step", environments=self.num_envs)
        self._key, self.state, *rest = self._step(self._key, self.state, actions, self.params)
        obs, reward, terminated, truncated, info, final = writable(rest)
        info = _marked(info)
        done = terminated | truncated
        if done.any():  # like Gymnasium's own vector environments
            facts = {name: value for name, value in info.items() if name.strip("_") != "action_mask"}
            last = {name: value & done if name.startswith("_") else value for name, value in facts.items()}
            info |= {"final_obs": final, "_final_obs": done, "final_info": last, "_final_info": done}
        return obs, reward, terminated, truncated, info

    def render(self) -> tuple[np.ndarray, ...] | None:  # pyright: ignore[reportIncompatibleMethodOverride]
        """A picture of each environment, if `render_mode` is set.

        Raises:
            RuntimeError: No episodes have begun.
        """
        if not self.render_mode:
            return None
        if self.state is None:
            raise RuntimeError(f"No episodes of {self.venv.env.name} have begun; call reset before render.")
        copies = (jax.tree.map(lambda leaf, i=i: leaf[i], self.state) for i in range(self.num_envs))
        return tuple(self.venv.env.render(state, self.params) for state in copies)

    def _pure_reset(self, key: jax.Array, params: Any) -> tuple[Any, ...]:
        key, key_reset = _two(key)
        obs, state = self.venv.reset(key_reset, params)
        return key, state, obs, self._look(state, params)

    def _pure_step(self, key: jax.Array, state: Any, action: Any, params: Any) -> tuple[Any, ...]:
        key, key_step = _two(key)
        obs, state, reward, terminated, truncated, info = self.venv.step(key_step, state, action, params)
        final = info["final_observation"]
        info = {name: value for name, value in info.items() if not name.startswith("final_")}
        return key, state, obs, reward, terminated, truncated, {**info, **self._look(state, params)}, final

    def _look(self, state: Any, params: Any) -> dict[str, jax.Array]:
        return {"action_mask": sampling_mask(self.venv.action_mask(state, params))} if self._masked else {}


def space_of(space: spaces.Space) -> gymnasium.Space:
    """The space as a Gymnasium space."""
    if isinstance(space, spaces.Discrete):
        return gymnasium.spaces.Discrete(space.n)
    if isinstance(space, spaces.MultiDiscrete):
        return gymnasium.spaces.MultiDiscrete(list(space.nvec))
    assert isinstance(space, spaces.Box)
    low, high = (np.broadcast_to(np.asarray(bound, space.dtype), space.shape) for bound in (space.low, space.high))
    return gymnasium.spaces.Box(low, high, space.shape, space.dtype)


def _two(key: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Two keys of one, or of each of several."""
    split = jax.vmap(jax.random.split)(key) if key.ndim else jax.random.split(key)
    return split[..., 0], split[..., 1]


def _known(render_mode: str | None) -> str | None:
    if render_mode not in (None, "rgb_array"):
        raise ValueError(f'render_mode is "rgb_array" or None, not {render_mode!r}.')
    return render_mode


def _one_agent(env: Environment) -> None:
    if isinstance(env, MultiAgentEnvironment):
        raise ValueError(f"{env.name} has {env.num_agents} agents and Gymnasium knows one; use to_pettingzoo.")


def _marked(info: dict[str, Any]) -> dict[str, Any]:
    """`info` with Gymnasium's flags for which environments have an entry: here, all of them."""
    return info | {f"_{name}": np.ones(len(jax.tree.leaves(value)[0]), bool) for name, value in info.items()}
