"""Pendulum: swing it up with a weak motor and hold it there."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxrl.environment import Environment, Step, as_arrays
from jaxrl.envs.classic.draw import draw_pendulum
from jaxrl.envs.options import whole
from jaxrl.render.scene import Scene
from jaxrl.spaces import Box

__all__ = ["Params", "Pendulum", "State"]


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Params:
    """Physics in SI units."""

    gravity: Any = 10.0
    mass: Any = 1.0
    length: Any = 1.0
    max_speed: Any = 8.0
    """rad/s"""
    time_step: Any = 0.05
    max_steps: Any = 200


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class State:
    """The pendulum, scalars."""

    angle: jax.Array
    """Radians from upright, not wrapped."""
    angular_velocity: jax.Array
    step: jax.Array


class Pendulum(Environment):
    """A motor too weak to lift the pendulum at once must swing it up. Equal to Gymnasium's Pendulum-v1.

    Args:
        max_steps: Steps after which an episode is truncated.

    Observation `[3]`: cosine and sine of the angle (0 is upright; starts anywhere), angular velocity (-8 to 8 rad/s;
    starts in +-1).
    Action Box(-2, 2, [1]): torque (N m).
    Reward: -(angle^2 + 0.1 velocity^2 + 0.001 torque^2) with the angle in -pi … pi, before the step. Never terminated.
    """

    def __init__(self, *, max_steps: int = 200) -> None:
        self._default_params = as_arrays(Params(max_steps=whole("max_steps", max_steps)))

    @property
    def default_params(self) -> Params:
        return self._default_params

    def observation_space(self, params: Params | None = None) -> Box:
        high = np.array([1.0, 1.0, 8.0], np.float32)
        return Box(-high, high, (3,))

    def action_space(self, params: Params | None = None) -> Box:
        return Box(-2.0, 2.0, (1,))

    def reset_env(self, key: jax.Array, params: Params) -> tuple[jax.Array, State]:
        high = np.array([math.pi, 1.0], np.float32)
        angle, velocity = jax.random.uniform(key, (2,), jnp.float32, -high, high)
        state = State(angle, velocity, jnp.zeros((), jnp.int32))
        return _observe(state), state

    def step_env(self, key: jax.Array, state: State, action: jax.Array, params: Params) -> Step:
        torque = self.action_space().clip(action)[0]
        angle, velocity = state.angle, state.angular_velocity
        tilt = jnp.mod(angle + math.pi, 2 * math.pi) - math.pi
        cost = tilt**2 + 0.1 * velocity**2 + 0.001 * torque**2

        inertia = params.mass * params.length**2 / 3.0
        weight = 0.5 * params.mass * params.gravity * params.length * jnp.sin(angle)
        velocity = velocity + (weight + torque) / inertia * params.time_step
        velocity = jnp.clip(velocity, -params.max_speed, params.max_speed)
        after = State(angle + velocity * params.time_step, velocity, state.step + 1)
        return _observe(after), after, -cost, jnp.zeros((), jnp.bool_), after.step >= params.max_steps, {}

    def draw(self, states: State, params: Params | None = None) -> Scene:
        return draw_pendulum(states, self._params(params))


def _observe(state: State) -> jax.Array:
    return jnp.stack([jnp.cos(state.angle), jnp.sin(state.angle), state.angular_velocity])
