"""An algorithm of which is known what it learns: its only parameter grows by the gain of the learning rate.

The environment's reward is the action, the action is the parameter. So the score is the sum of gains, the best learning
rate is 0.01, and one above 1 makes the parameter NaN.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import jaxrl
from jaxrl.algorithm import Algorithm, Learned, PerEnvironment, Replicated
from jaxrl.spaces import Box


class Echo(jaxrl.Environment):
    """One step, the reward is the action."""

    name = "echo"

    def observation_space(self, params: Any = None) -> Box:
        return Box(0.0, 1.0, (1,))

    def action_space(self, params: Any = None) -> Box:
        return Box(-jnp.inf, jnp.inf, ())

    def reset_env(self, key: jax.Array, params: Any) -> tuple[jax.Array, jax.Array]:
        return jnp.zeros(1), jnp.zeros(())

    def step_env(self, key: jax.Array, state: jax.Array, action: jax.Array, params: Any) -> Any:
        return jnp.zeros(1), state, action, jnp.bool_(True), jnp.bool_(False), {}


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Hyperparams:
    lr: Any
    bonus: Any


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class State:
    params: Learned[Any]
    hyperparams: Replicated[Hyperparams]
    runner: PerEnvironment[Any]
    key: Replicated[jax.Array]
    update: Replicated[jax.Array]


@dataclasses.dataclass(frozen=True)
class Config:
    """Options of the toy."""

    env: str = "echo"
    """Its only one."""
    seed: int = 0
    """Of its keys."""
    total_timesteps: int = 36
    """One step an update."""
    lr: float = 1e-6
    """Decides the gain; best is 0.01."""
    bonus: float = 0.0
    """Added to the gain."""
    width: int = 1
    """Adds nothing, and needs its own program."""

    steps_per_update = 1

    @property
    def num_updates(self) -> int:
        return self.total_timesteps

    @property
    def hyperparams(self) -> Hyperparams:
        return Hyperparams(np.float32(self.lr), np.float32(self.bonus))

    def make_env(self) -> Echo:
        return Echo()


def gain(lr: float) -> float:
    """1 for 0.01, less for others."""
    return math.exp(-((math.log10(lr) + 2) ** 2))


def make(config: Config) -> Algorithm:
    def init(key: jax.Array, hyperparams: Any = None) -> State:
        chosen = jax.tree.map(jnp.float32, config.hyperparams if hyperparams is None else hyperparams)
        key, key_loop = jax.random.split(key)
        return State({"theta": jnp.zeros(())}, chosen, jax.random.uniform(key_loop), key, jnp.int32(0))

    def update(state: State) -> Any:
        key, key_loop = jax.random.split(state.key)
        h = state.hyperparams
        step = jnp.exp(-jnp.square(jnp.log10(h.lr) + 2)) + h.bonus
        theta = jnp.where(h.lr > 1, jnp.nan, state.params["theta"] + step)
        after = State({"theta": theta}, h, jax.random.uniform(key_loop), key, state.update + 1)
        one = jnp.float32(1)
        return after, {"episodes": one, "return_sum": theta, "length_sum": one, "losses": {"policy": -theta}}

    def act(state: State, obs: Any, carry: Any = None, key: Any = None, **given: Any) -> Any:
        return jnp.broadcast_to(state.params["theta"], obs.shape[:1]), carry

    return Algorithm(init, update, act)


PRESETS = {"default": Config()}
