"""MountainCar: swing a weak car up a hill, by three pushes or by a continuous force (Moore, 1990)."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxrl.environment import Environment, Step, as_arrays
from jaxrl.envs.classic.draw import draw_mountain_car
from jaxrl.envs.options import whole
from jaxrl.render.scene import Scene
from jaxrl.spaces import Box, Discrete

__all__ = ["MountainCar", "MountainCarContinuous", "Params", "State"]


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Params:
    """The hill and the car; positions are in the valley's own units, velocities in units per step."""

    min_position: Any = -1.2
    max_position: Any = 0.6
    max_speed: Any = 0.07
    goal_position: Any = 0.5
    goal_velocity: Any = 0.0
    force: Any = 0.001
    """Change of velocity from a full push."""
    gravity: Any = 0.0025
    max_steps: Any = 200


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class State:
    """The car, scalars."""

    position: jax.Array
    velocity: jax.Array
    step: jax.Array


class MountainCar(Environment):
    """A car too weak to climb the hill must gain speed by swinging. Equal to Gymnasium's MountainCar-v0.

    Args:
        max_steps: Steps after which an episode is truncated.

    Observation `[2]`: position (-1.2 to 0.6; starts in -0.6 to -0.4), velocity (-0.07 to 0.07; starts at 0).
    Action Discrete(3): 0 pushes left, 1 not at all, 2 right.
    Reward: -1 per step. Terminated at position 0.5.
    """

    action_names = ("left", "nothing", "right")

    def __init__(self, *, max_steps: int = 200) -> None:
        self._default_params = as_arrays(Params(max_steps=whole("max_steps", max_steps)))

    @property
    def default_params(self) -> Params:
        return self._default_params

    def observation_space(self, params: Params | None = None) -> Box:
        return Box(np.array([-1.2, -0.07], np.float32), np.array([0.6, 0.07], np.float32), (2,))

    def action_space(self, params: Params | None = None) -> Discrete:
        return Discrete(3)

    def reset_env(self, key: jax.Array, params: Params) -> tuple[jax.Array, State]:
        position = jax.random.uniform(key, (), jnp.float32, -0.6, -0.4)
        state = State(position, jnp.zeros((), jnp.float32), jnp.zeros((), jnp.int32))
        return _observe(state), state

    def step_env(self, key: jax.Array, state: State, action: jax.Array, params: Params) -> Step:
        push = self.action_space().clip(action).astype(jnp.float32) - 1.0
        after, arrived = _drive(state, push, params)
        truncated = (after.step >= params.max_steps) & ~arrived
        return _observe(after), after, jnp.full((), -1.0, jnp.float32), arrived, truncated, {}

    def draw(self, states: State, params: Params | None = None) -> Scene:
        return draw_mountain_car(type(self).__name__, states, self._params(params))


class MountainCarContinuous(Environment):
    """The same hill with a continuous push, which costs its square. Equal to Gymnasium's MountainCarContinuous-v0.

    Args:
        max_steps: Steps after which an episode is truncated.

    Observation `[2]`: as in `MountainCar`.
    Action Box(-1, 1, [1]): the push, to the right if positive.
    Reward: -0.1 push^2 per step, for a push that is clipped to its bounds (Gymnasium's reward takes it as it is), and
        100 for arriving. Terminated at position 0.45.
    """

    def __init__(self, *, max_steps: int = 999) -> None:
        self._default_params = as_arrays(
            Params(goal_position=0.45, force=0.0015, max_steps=whole("max_steps", max_steps))
        )

    @property
    def default_params(self) -> Params:
        return self._default_params

    def observation_space(self, params: Params | None = None) -> Box:
        return Box(np.array([-1.2, -0.07], np.float32), np.array([0.6, 0.07], np.float32), (2,))

    def action_space(self, params: Params | None = None) -> Box:
        return Box(-1.0, 1.0, (1,))

    def reset_env(self, key: jax.Array, params: Params) -> tuple[jax.Array, State]:
        position = jax.random.uniform(key, (), jnp.float32, -0.6, -0.4)
        state = State(position, jnp.zeros((), jnp.float32), jnp.zeros((), jnp.int32))
        return _observe(state), state

    def step_env(self, key: jax.Array, state: State, action: jax.Array, params: Params) -> Step:
        push = self.action_space().clip(action)[0]
        after, arrived = _drive(state, push, params)
        reward = jnp.where(arrived, 100.0, 0.0) - 0.1 * push**2
        truncated = (after.step >= params.max_steps) & ~arrived
        return _observe(after), after, reward.astype(jnp.float32), arrived, truncated, {}

    def draw(self, states: State, params: Params | None = None) -> Scene:
        return draw_mountain_car(type(self).__name__, states, self._params(params))


def _drive(state: State, push: jax.Array, params: Params) -> tuple[State, jax.Array]:
    """The car one step later, and whether it has arrived. `push` is in -1 … 1."""
    velocity = state.velocity + push * params.force - jnp.cos(3.0 * state.position) * params.gravity
    velocity = jnp.clip(velocity, -params.max_speed, params.max_speed)
    position = jnp.clip(state.position + velocity, params.min_position, params.max_position)
    velocity = jnp.where((position <= params.min_position) & (velocity < 0), 0.0, velocity)
    arrived = (position >= params.goal_position) & (velocity >= params.goal_velocity)
    return State(position, velocity, state.step + 1), arrived


def _observe(state: State) -> jax.Array:
    return jnp.stack([state.position, state.velocity])
