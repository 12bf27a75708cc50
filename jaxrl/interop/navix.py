"""Navix's environments (MiniGrid in JAX) as ours, `from_navix(env)`."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxrl import spaces
from jaxrl.config import typed
from jaxrl.environment import Step
from jaxrl.errors import UnknownNameError, nearest
from jaxrl.interop.common import (
    Adapted,
    Extra,
    check_name,
    clocked,
    explained,
    narrow,
    observed,
    observed_space,
    raw_key,
)
from jaxrl.keys import abstract_key

with Extra("navix"):
    import navix
    from navix import observations
    from navix.environments import KeyCorridor
    from navix.rendering.cache import RenderingCache

__all__ = ["FromNavix", "from_navix", "make", "names"]

# What Navix declares is too low: its player is number 10. A cell is (kind, colour, direction or state of a door).
_CELL = (10, 5, 3)
_WRAPPED = (10, 5, 255)  # the locked doors of KeyCorridor are in state -2, which becomes 254
_BOUNDS: dict[str, tuple[Any, Any]] = {
    "symbolic": (0, _CELL),
    "symbolic_first_person": (0, _CELL),
    "categorical": (-1, 10),  # walls are -1
    "categorical_first_person": (-1, 100),  # and what lies outside the map 100
    "rgb": (0, 255),
    "rgb_first_person": (0, 255),
}


def from_navix(env: Any) -> FromNavix:
    """A Navix environment as one of ours, so that it can be trained on.

    Navix's observations stay arrays of whole numbers `[H, W, C]` or `[H, W]`; those of a function of your own become
    float32. `info` holds Navix's events, which say what has happened since the episode began, and `won`: it ended with
    a reward, which in Navix's own tasks means that the goal is reached. JAX's 64-bit mode has no effect on it.

    Args:
        env: The environment that `navix.make` returned.

    Raises:
        TypeError: `env` is not a Navix environment.
    """
    if not isinstance(env, navix.Environment):
        hint = "from_navix(navix.make(id)), or jaxrl.make of a name such as navix:Navix-DoorKey-5x5-v0"
        raise TypeError(f"from_navix takes one of Navix's environments, as in {hint}; not a {type(env).__name__}.")
    return FromNavix(env)


def names() -> list[str]:
    """Navix's names for its environments."""
    return list(navix.registry())


def make(name: str, *, observation: str = "symbolic", **options: Any) -> FromNavix:
    """`from_navix(navix.make(name, **options))`; `observation` is the name of one of Navix's observation functions."""
    check_name("navix", name, names())
    if observation not in _BOUNDS:
        raise UnknownNameError(f"navix has no observation {observation!r}. {nearest(observation, _BOUNDS)}")
    options = clocked({"observation_fn": getattr(observations, observation), **options})
    if "penality_coeff" in options:
        options["penality_coeff"] = typed("penality_coeff", float, options["penality_coeff"])
    advice = (
        "It has observation, max_steps, penality_coeff and, in Python, reward_fn, termination_fn, transitions_fn, "
        "action_set, observation_fn, observation_space."
    )
    with explained("navix", name, advice):
        theirs = navix.make(name, **options)
    return from_navix(theirs)


class FromNavix(Adapted):
    """See `from_navix`. Its states are Navix's timesteps, without what the state and the keys of steps determine."""

    intended = ("same_start",)  # for example, Navix-Empty-5x5-v0 has nothing to draw at random

    def __init__(self, env: Any) -> None:
        self.env = env
        self.name = f"navix:{type(env).__name__}"
        self.action_names = tuple(
            getattr(action, "__name__", f"action {number}").replace("_", " ")
            for number, action in enumerate(env.action_set)
        )
        self._env = env.replace(observation_fn=lambda state: env.observation_fn(_with_tiles(state)))
        self._own = {getattr(observations, name): name for name in _BOUNDS}.get(env.observation_fn)
        obs = jax.eval_shape(lambda key: narrow(self._begun, key)[0], abstract_key())
        self._observation_space = self._space(obs)
        self._action_space = spaces.Discrete(len(env.action_set))

    def reset_env(self, key: jax.Array, params: Any) -> tuple[jax.Array, Any]:
        return narrow(self._begun, key)

    def step_env(self, key: jax.Array, state: Any, action: jax.Array, params: Any) -> Step:
        action = self._action_space.clip(action)
        obs, state = narrow(self._stepped, key, state, action)
        reward = jnp.asarray(state.reward, jnp.float32)
        terminated, truncated = state.is_termination(), state.is_truncation()
        happened = {name: event.happened for name, event in vars(state.state.events).items()}
        info = {**state.info, **happened, "won": terminated & (reward > 0)}
        return obs, state, reward, terminated, truncated, info

    def _begun(self, key: jax.Array) -> tuple[jax.Array, Any]:
        return self._parted(self._env.reset(raw_key(key)))

    def _stepped(self, key: jax.Array, timestep: Any, action: jax.Array) -> tuple[jax.Array, Any]:
        state = jax.tree.map(lambda leaf: leaf, timestep.state)  # a copy, for Navix writes into the dicts of a state
        return self._parted(self._env._step(timestep.replace(state=state.replace(key=raw_key(key))), action))

    def _parted(self, timestep: Any) -> tuple[jax.Array, Any]:
        """The observation, and the timestep without it, the key, and the tiles, of which only the map decides."""
        obs = timestep.observation if self._own else observed(timestep.observation)
        return obs, timestep.replace(observation=None, state=timestep.state.replace(key=None, cache=None))

    def _space(self, obs: Any) -> spaces.Space:
        if self._own is None:
            return observed_space(obs)
        low, high = _BOUNDS[self._own]
        high = _WRAPPED if high is _CELL and isinstance(self.env, KeyCorridor) else high
        return spaces.Box(low, np.asarray(high), obs.shape, obs.dtype)


def _with_tiles(state: Any) -> Any:
    """A state with the pictures of its map's floor and walls, which stay the same throughout an episode."""
    return state.replace(cache=RenderingCache.init(state.grid))
