"""MuJoCo Playground's environments, which MJX simulates, as ours: `from_mjx(env)`."""

from __future__ import annotations

import subprocess
from typing import Any

import jax

from jaxrl.interop.common import Extra, check_name, explained, fitting

with Extra("mjx"):
    from mujoco_playground import MjxEnv, registry
    from mujoco_playground._src.mjx_env import MENAGERIE_PATH

    from jaxrl.interop.brax import FromPhysics, check_unwrapped  # Playground brings brax along
    from jaxrl.interop.split import Split, split_if_asked

__all__ = ["from_mjx", "make", "names"]


def from_mjx(env: Any, *, episode_length: int | None = None, action_repeat: int | None = None) -> FromPhysics:
    """An environment of MuJoCo Playground as one of ours, so that it can be trained on.

    Actions are from -1 to 1. An episode in which it says `done` is `terminated`. Of a dict of observations, those other
    than `privileged_state` are observed, as one vector if there are several; that one is the `global_state`, for a
    critic. JAX's 64-bit mode has no effect on it.

    Args:
        env: The environment that `mujoco_playground.registry.load` returned.
        episode_length: The number of its steps after which an episode is truncated; None for that in its config.
        action_repeat: The number of its steps that each action lasts; None for that in its config.

    Raises:
        TypeError: `env` is not an environment of MuJoCo Playground, or has a wrapper that ends or restarts episodes.
        ValueError: A number is not a whole number, or less than 1.
    """
    if not isinstance(env, MjxEnv):
        hint = "from_mjx(registry.load(name)), or jaxrl.make of a name such as mjx:CartpoleBalance"
        raise TypeError(
            f"from_mjx takes one of MuJoCo Playground's environments, as in {hint}; not a {type(env).__name__}."
        )
    check_unwrapped(env, "from_mjx")
    config: Any = env.unwrapped._config  # no wrapper and no property shows it
    length = config.episode_length if episode_length is None else episode_length
    repeat = config.action_repeat if action_repeat is None else action_repeat
    return FromPhysics(env, f"mjx:{type(env.unwrapped).__name__}", length, repeat)


def names() -> list[str]:
    """MuJoCo Playground's names for its environments."""
    return list(registry.ALL_ENVS)


def make(name: str, *, split: Any = None, observe_joints: Any = None, **options: Any) -> FromPhysics | Split:
    """`from_mjx(registry.load(name))` with `options` in its config; a dot leads inside, as in `noise_config.level=0`.

    With a `split`, it is a team.

    Physics runs in JAX, `impl="jax"`, unless an option says otherwise.

    Raises:
        ConnectionError: The robot's files are not here and cannot be downloaded.
    """
    check_name("MuJoCo Playground", name, names())
    config = registry.get_default_config(name)
    defaults = _flat(config)
    given = fitting(f"mjx:{name}", options, defaults | {"split": split, "observe_joints": observe_joints})
    if "impl" in defaults:
        given.setdefault("impl", "jax")
    try:
        with jax.enable_x64(False), explained("MuJoCo Playground", name):
            theirs = registry.load(name, config, given)
            if theirs.n_substeps < 1:  # of physics, which would stand still
                raise ValueError(f"ctrl_dt={theirs.dt} is shorter than sim_dt={theirs.sim_dt}")
    except (subprocess.CalledProcessError, FileNotFoundError) as error:
        if MENAGERIE_PATH.exists():
            raise
        raise ConnectionError(
            f"mjx:{name} needs the robots of MuJoCo Menagerie, which cannot be downloaded: {error} Where there is a "
            f"network, git clone https://github.com/google-deepmind/mujoco_menagerie, and put it at {MENAGERIE_PATH}. "
            f"The tasks of the DM Control Suite, such as mjx:CartpoleBalance, do without it."
        ) from error
    return split_if_asked(from_mjx(theirs), split, observe_joints)


def _flat(config: Any, within: str = "") -> dict[str, Any]:
    """The fields of a config and of those inside it, by their dotted names."""
    fields: dict[str, Any] = {}
    for name, value in config.items():
        fields |= _flat(value, f"{within}{name}.") if hasattr(value, "items") else {f"{within}{name}": value}
    return fields
