"""Craftax's and Craftax-Classic's environments as ours, `from_craftax(env)`."""

from __future__ import annotations

import contextlib
import dataclasses
import importlib
import sys
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxrl import spaces
from jaxrl.environment import Step, as_arrays
from jaxrl.interop.common import (
    Adapted,
    Extra,
    check_name,
    explained,
    fitting,
    narrow,
    observed,
    observed_space,
    raw_key,
)
from jaxrl.keys import abstract_key

with Extra("craftax"):
    from craftax.craftax_env import make_craftax_env_from_name
    from craftax.environment_base.environment_bases import EnvironmentAutoReset, EnvironmentNoAutoReset

__all__ = ["FromCraftax", "from_craftax", "make", "names"]

_NAMES = tuple(f"{game}-{seen}-v1" for game in ("Craftax", "Craftax-Classic") for seen in ("Symbolic", "Pixels"))
_NO_LIMIT = np.int32(np.iinfo(np.int32).max)


def from_craftax(env: Any, params: Any = None) -> FromCraftax:
    """A Craftax environment as one of ours, so that it can be trained on.

    Observations are float32 arrays without bounds, pixels `[H, W, 3]` among them. Craftax counts running out of time as
    an end; here it is `truncated`, and `terminated` whatever would also end the episode without `max_timesteps`. In the
    step that ends an episode, `info` says which achievements it had: 100 or 0 each. JAX's 64-bit mode has no effect.

    Args:
        env: An environment that `make_craftax_env_from_name` returned, of either kind: its own auto-reset is not used.
        params: The default parameters; None for the defaults of `env`.

    Raises:
        TypeError: `env` is not a Craftax environment.
    """
    if not isinstance(env, EnvironmentAutoReset | EnvironmentNoAutoReset):
        hint = f"from_craftax(make_craftax_env_from_name({_NAMES[0]!r}, auto_reset=False))"
        raise TypeError(
            f"from_craftax takes one of Craftax's environments, as in {hint}, or jaxrl.make of a name such as "
            f"craftax:{_NAMES[0]}; not a {type(env).__name__}."
        )
    return FromCraftax(env, params)


def names() -> list[str]:
    """Craftax's names for its environments."""
    return list(_NAMES)


def make(name: str, **options: Any) -> FromCraftax:
    """The environment of that name; options are the fields of Craftax's `EnvParams` and `StaticEnvParams`."""
    check_name("craftax", name, names())
    with _beside_output():
        theirs: Any = make_craftax_env_from_name(name, auto_reset=False)
        params, static = theirs.default_params, theirs.default_static_params()
        given = fitting(f"craftax:{name}", options, vars(params) | vars(static))
        if fixed := {option: value for option, value in given.items() if option in vars(static)}:
            theirs = type(theirs)(dataclasses.replace(static, **fixed))
    changed = {option: value for option, value in given.items() if option in vars(params)}
    with explained("craftax", name):
        return from_craftax(theirs, dataclasses.replace(params, **changed))


class FromCraftax(Adapted):
    """See `from_craftax`."""

    def __init__(self, env: Any, params: Any = None) -> None:
        self.env = env
        self.name = f"craftax:{env.name}"
        self._default_params = as_arrays(env.default_params if params is None else params)
        self._package = type(env).__module__.partition(".envs.")[0]  # the game's, craftax.craftax_classic for one
        actions = importlib.import_module(f"{self._package}.constants").Action
        self.action_names = tuple(action.name.lower().replace("_", " ") for action in actions)
        obs, _ = jax.eval_shape(self.reset_env, abstract_key(), self._default_params)
        self._observation_space = observed_space(obs)
        self._action_space = spaces.Discrete(env.num_actions)

    @property
    def default_params(self) -> Any:
        return self._default_params

    def reset_env(self, key: jax.Array, params: Any) -> tuple[jax.Array, Any]:
        obs, state = narrow(self.env.reset_env, raw_key(key), params)
        return observed(obs), state

    def step_env(self, key: jax.Array, state: Any, action: jax.Array, params: Any) -> Step:
        action = self._action_space.clip(action)
        obs, state, reward, done, info = narrow(self.env.step_env, raw_key(key), state, action, params)
        # Craftax does not say why an episode is over, but its rules do if they are asked again without the limit.
        terminated = jnp.asarray(narrow(self.env.is_terminal, state, params.replace(max_timesteps=_NO_LIMIT)), bool)
        truncated = jnp.asarray(done, bool) & ~terminated
        info = {name: fact for name, fact in info.items() if name != "discount"}  # 0 at every end, time-outs included
        return observed(obs), state, jnp.asarray(reward, jnp.float32), terminated, truncated, info

    def observation(self, state: Any, params: Any = None) -> jax.Array:
        return observed(narrow(self.env.get_obs, state))


def _beside_output() -> contextlib.AbstractContextManager[Any]:
    """Craftax prints that it prepares its textures; this moves that to the standard error."""
    return contextlib.redirect_stdout(sys.stderr)
