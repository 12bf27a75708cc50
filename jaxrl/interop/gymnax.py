"""Our environments for gymnax 1.0, `to_gymnax(env)`, and its environments as ours, `from_gymnax(env)`."""

from __future__ import annotations

import dataclasses
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxrl import spaces
from jaxrl.environment import Environment, MultiAgentEnvironment, Step, as_arrays, check_environment
from jaxrl.interop.common import (
    Adapted,
    Extra,
    check_name,
    defaults,
    explained,
    fitting,
    narrow,
    observed,
    observed_space,
    typed_key,
)
from jaxrl.keys import abstract_key

with Extra("gymnax"):
    import gymnax
    from gymnax.environments import environment
    from gymnax.environments import spaces as their_spaces

__all__ = ["FromGymnax", "GymnaxEnv", "from_gymnax", "make", "names", "to_gymnax"]


def to_gymnax(env: Environment) -> GymnaxEnv:
    """`env` as a `gymnax.environments.environment.Environment`; its `default_params` and states are ours.

    Our states do not say whether they end an episode, so `is_terminated`, `is_truncated` and `discount` of a state
    raise NotImplementedError; `info["terminated"]`, `info["truncated"]` and `info["discount"]` of a step have it.

    Raises:
        ValueError: The environment has several agents.
    """
    return GymnaxEnv(env)


def from_gymnax(env: Any, params: Any = None) -> FromGymnax:
    """A gymnax environment as one of ours, so that it can be trained on.

    Observations are whole numbers if gymnax declares Discrete, otherwise float32 arrays without bounds, because gymnax
    does not always keep declared bounds. JAX's 64-bit mode has no effect on it.

    Args:
        env: The environment that `gymnax.make` returned.
        params: The default parameters; None for the defaults of `env`.

    Raises:
        TypeError: `env` is not a gymnax environment.
    """
    if not isinstance(env, environment.Environment):
        hint = "from_gymnax(*gymnax.make(id)), or jaxrl.make of a name such as gymnax:Breakout-MinAtar"
        raise TypeError(f"from_gymnax takes one of gymnax's environments, as in {hint}; not a {type(env).__name__}.")
    return FromGymnax(env, params)


def names() -> list[str]:
    """Gymnax's names for its environments."""
    return list(gymnax.registered_envs)


def make(name: str, **options: Any) -> FromGymnax:
    """`from_gymnax(*gymnax.make(name, **options))`; options that are parameters of the environment change those.

    Raises:
        UnknownNameError: gymnax has no environment of that name.
        TypeError: It has no such option.
        ValueError: An option cannot have this value.
        OSError: It downloads what it consists of, and cannot.
    """
    check_name("gymnax", name, names())
    try:
        theirs, params = gymnax.make(name)
    except OSError as error:
        raise OSError(f"gymnax cannot make {name}, whose data it downloads: {error}") from error
    if not options:
        return from_gymnax(theirs, params)
    given = fitting(f"gymnax:{name}", options, vars(params) | defaults(type(theirs)))
    changed = {option: given.pop(option) for option in vars(params) if option in given}
    with explained("gymnax", name):
        theirs, params = gymnax.make(name, **given) if given else (theirs, params)
        return from_gymnax(theirs, dataclasses.replace(params, **changed))


class GymnaxEnv(environment.Environment):
    """See `to_gymnax`."""

    def __init__(self, env: Environment) -> None:
        check_environment(env, "to_gymnax")
        if isinstance(env, MultiAgentEnvironment):
            raise ValueError(f"{env.name} has {env.num_agents} agents and gymnax knows one; use to_jaxmarl.")
        self.env = env

    @property
    def default_params(self) -> Any:
        return self.env.default_params

    @property
    def name(self) -> str:
        return self.env.name

    @property
    def obs_shape(self) -> tuple[int, ...]:
        return self.env.observation_space().shape

    @property
    def num_actions(self) -> int:
        space = self.env.action_space()
        return space.n if isinstance(space, spaces.Discrete) else int(np.prod(space.shape))

    @partial(jax.jit, static_argnames=("self",))
    def reset(self, key: jax.Array, params: Any = None) -> tuple[Any, Any]:
        return self.env.reset(typed_key(key), params)

    @partial(jax.jit, static_argnames=("self",))
    def step(self, key: jax.Array, state: Any, action: Any, params: Any = None) -> Step:
        obs, state, reward, terminated, truncated, info = self.env.step(typed_key(key), state, action, params)
        del info["final_state"]  # which no reset has, so that Brax's states could not be scanned
        return obs, state, reward, terminated, truncated, {**info, **_ends(terminated, truncated)}

    def reset_env(self, key: jax.Array, params: Any) -> tuple[Any, Any]:
        return self.env.reset_env(typed_key(key), params)

    def step_env(
        self, key: jax.Array, state: Any, action: Any, params: Any
    ) -> tuple[Any, Any, jax.Array, jax.Array, dict[Any, Any]]:
        """One raw step; `info["truncated"]` says if the clock ended the episode: our states lack gymnax's clock."""
        obs, state, reward, terminated, truncated, info = self.env.step_env(typed_key(key), state, action, params)
        return obs, state, reward, terminated, {**info, **_ends(terminated, truncated)}

    def is_terminated(self, state: Any, params: Any) -> jax.Array:
        raise NotImplementedError(
            f"A state of {self.name} does not say whether it ends an episode; info of the step does: "
            'info["terminated"], info["truncated"], info["discount"].'
        )

    is_truncated = discount = is_terminated

    def action_space(self, params: Any = None) -> Any:
        return _theirs(self.env.action_space(params))

    def observation_space(self, params: Any = None) -> Any:
        return _theirs(self.env.observation_space(params))


class FromGymnax(Adapted):
    """See `from_gymnax`."""

    intended = ("same_start", "unused_params")  # for example, gymnax's CartPole has a mass that it never uses

    def __init__(self, env: Any, params: Any = None) -> None:
        self.env = env
        self.name = f"gymnax:{env.name}"
        self._default_params = as_arrays(env.default_params if params is None else params)
        obs, _ = jax.eval_shape(partial(narrow, env.reset_env), abstract_key(), self._default_params)
        theirs, actions = (space(self._default_params) for space in (env.observation_space, env.action_space))
        counted = isinstance(theirs, their_spaces.Discrete)
        self._observation_space = spaces.Discrete(theirs.n) if counted else observed_space(obs)
        self._action_space = (
            spaces.Discrete(actions.n)
            if isinstance(actions, their_spaces.Discrete)
            else spaces.Box(np.asarray(actions.low), np.asarray(actions.high), tuple(actions.shape))
        )

    @property
    def default_params(self) -> Any:
        return self._default_params

    def reset_env(self, key: jax.Array, params: Any) -> tuple[jax.Array, Any]:
        obs, state = narrow(self.env.reset_env, key, params)
        return self._observed(obs), state

    def step_env(self, key: jax.Array, state: Any, action: jax.Array, params: Any) -> Step:
        action = self._action_space.clip(action)
        obs, state, reward, terminated, info = narrow(self.env.step_env, key, state, action, params)
        truncated = narrow(self.env.is_truncated, state, params)
        terminated = jnp.asarray(terminated, bool)
        truncated = jnp.asarray(truncated, bool) & ~terminated
        reward = jnp.asarray(reward, jnp.float32).reshape(())
        return self._observed(obs), state, reward, terminated, truncated, info

    def _observed(self, obs: Any) -> jax.Array:
        counted = isinstance(self._observation_space, spaces.Discrete)
        return jnp.asarray(obs, jnp.int32) if counted else observed(obs)


def _ends(terminated: jax.Array, truncated: jax.Array) -> dict[str, jax.Array]:
    """The entries of gymnax's `info` about the end of an episode."""
    return {"terminated": terminated, "truncated": truncated, "discount": 1.0 - terminated}


def _theirs(space: spaces.Space) -> Any:
    if isinstance(space, spaces.Discrete):
        return their_spaces.Discrete(space.n)
    if isinstance(space, spaces.Box):
        return their_spaces.Box(space.low, space.high, space.shape, space.dtype)
    raise TypeError(f"gymnax has no {type(space).__name__} space.")
