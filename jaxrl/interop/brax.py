"""brax's environments as ours, `from_brax(env)`."""

from __future__ import annotations

import inspect
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxrl.interop.common import Extra
from jaxrl.interop.options import check_name, defaults, explained, fitting
from jaxrl.interop.physics import FromPhysics, check_unwrapped

with Extra("brax"):
    from brax import envs

__all__ = ["FromBrax", "from_brax", "make", "names"]


def from_brax(env: Any, *, episode_length: int = 1000, action_repeat: int = 1) -> FromBrax:
    """A brax environment as one of ours, so that it can be trained on.

    Actions are from -1 to 1. An episode in which brax says `done` is `terminated`. Of a dict of observations, those
    other than `privileged_state` are observed, as one vector if there are several; that one is the `global_state`, for
    a critic. JAX's 64-bit mode has no effect on it.

    Args:
        env: The environment that `brax.envs.get_environment` returned.
        episode_length: The number of brax's steps after which an episode is truncated.
        action_repeat: How often each action is repeated.

    Raises:
        TypeError: `env` is not a brax environment, or has a wrapper that ends or restarts episodes.
        ValueError: A number is not a whole number, or less than 1.
    """
    if not isinstance(env, envs.Env):
        hint = "from_brax(brax.envs.get_environment(name)), or jaxrl.make of a name such as brax:ant"
        raise TypeError(f"from_brax takes one of brax's environments, as in {hint}; not a {type(env).__name__}.")
    check_unwrapped(env, "from_brax")
    return FromBrax(env, f"brax:{type(env.unwrapped).__name__.lower()}", episode_length, action_repeat)


def names() -> list[str]:
    """What brax calls its environments."""
    return list(envs._envs)


def make(name: str, *, episode_length: int = 1000, action_repeat: int = 1, **options: Any) -> FromBrax:
    """`from_brax(brax.envs.get_environment(name, **options))`, such as `backend="spring"`.

    Raises:
        UnknownNameError: brax has no environment of that name.
        TypeError: It has no such option.
        ValueError: An option cannot have this value.
        NotImplementedError: It does not run with this version of jax.
    """
    check_name("brax", name, names())
    if name == "swimmer" and "a_min" not in inspect.signature(jnp.clip).parameters:
        raise NotImplementedError(
            f"brax:swimmer does not run with jax {jax.__version__}: brax computes the water's forces with an argument "
            f"that jnp.clip has no longer; MuJoCo Playground's is mjx:SwimmerSwimmer6."
        )
    clock = {"episode_length": episode_length, "action_repeat": action_repeat}
    own = defaults(envs.PipelineEnv) | defaults(envs._envs[name])  # which most hand on
    del own["sys"]  # the bodies, which the class itself decides
    given = fitting(f"brax:{name}", options, own | clock)
    with jax.enable_x64(False), explained("brax", name):
        theirs = envs.get_environment(name, **given)
    return from_brax(theirs, **clock)


class FromBrax(FromPhysics):
    """See `from_brax`."""

    def _posed(self, states: Any) -> tuple[Any, np.ndarray, tuple[np.ndarray, ...]]:
        system = getattr(self.env, "sys", None)
        if system is None:
            raise NotImplementedError(f"{self.name} has no picture: it has no bodies.")
        return system.mj_model, np.asarray(states.pipeline_state.q), ()
