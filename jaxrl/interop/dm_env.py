"""Our environments for dm_env: `to_dm_env(env)`."""

from __future__ import annotations

from typing import Any

import numpy as np

from jaxrl.environment import Environment, MultiAgentEnvironment
from jaxrl.interop.common import Extra, Stepper
from jaxrl.spaces import Box, Discrete, MultiDiscrete, Space

with Extra("dm_env"):
    import dm_env
    from dm_env import specs

__all__ = ["DmEnv", "spec_of", "to_dm_env"]


def to_dm_env(env: Environment, params: Any = None, seed: int = 0) -> DmEnv:
    """`env` as a `dm_env.Environment`. The discount is 0 if the task ended and 1 if only time ran out.

    Args:
        env: A single-agent environment.
        params: Its parameters; None for its defaults.
        seed: Determines all randomness.

    Raises:
        ValueError: The environment has several agents.
    """
    return DmEnv(env, params, seed)


class DmEnv(dm_env.Environment):
    """See `to_dm_env`."""

    def __init__(self, env: Environment, params: Any = None, seed: int = 0) -> None:
        if isinstance(env, MultiAgentEnvironment):
            raise ValueError(f"{env.name} has {env.num_agents} agents and dm_env knows one; use to_pettingzoo.")
        self.stepper = Stepper(env, params)
        self._random = np.random.default_rng(seed)
        self._running = False

    def reset(self) -> dm_env.TimeStep:
        """Start an episode."""
        obs, _ = self.stepper.reset(int(self._random.integers(2**31)))
        self._running = True
        return dm_env.restart(obs)

    def step(self, action: Any) -> dm_env.TimeStep:
        """One step; after the end of an episode, the action is ignored and a new episode starts."""
        if not self._running:
            return self.reset()
        obs, reward, terminated, truncated, _ = self.stepper.step(action)
        self._running = not (terminated or truncated)
        if terminated:
            return dm_env.termination(float(reward), obs)
        return dm_env.truncation(float(reward), obs) if truncated else dm_env.transition(float(reward), obs)

    def observation_spec(self) -> Any:
        """The spec of observations."""
        return spec_of(self.stepper.env.observation_space(self.stepper.params), "observation")

    def action_spec(self) -> Any:
        """The spec of actions."""
        return spec_of(self.stepper.env.action_space(self.stepper.params), "action")


def spec_of(space: Space, name: str) -> specs.Array:
    """The space as a spec of dm_env."""
    if isinstance(space, Discrete):
        return specs.DiscreteArray(space.n, name=name)
    if isinstance(space, MultiDiscrete):
        return specs.BoundedArray(space.shape, space.dtype, 0, np.array(space.nvec) - 1, name)
    assert isinstance(space, Box)
    return specs.BoundedArray(space.shape, space.dtype, space.low, space.high, name)
