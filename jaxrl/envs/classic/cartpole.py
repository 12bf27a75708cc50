"""CartPole: keep a pole upright on a cart (Barto, Sutton and Anderson, 1983)."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxrl.environment import Environment, Step, as_arrays
from jaxrl.envs.classic.draw import draw_cart_pole
from jaxrl.envs.options import whole
from jaxrl.render.scene import Scene
from jaxrl.spaces import Box, Discrete

__all__ = ["CartPole", "Params", "State"]


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Params:
    """Physics in SI units."""

    gravity: Any = 9.8
    cart_mass: Any = 1.0
    pole_mass: Any = 0.1
    half_length: Any = 0.5
    """Half the length of the pole."""
    force: Any = 10.0
    """Force of a push in either direction."""
    time_step: Any = 0.02
    position_limit: Any = 2.4
    angle_limit: Any = 12 * math.pi / 180
    max_steps: Any = 500


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class State:
    """Cart and pole, scalars."""

    position: jax.Array
    velocity: jax.Array
    angle: jax.Array
    """Radians from upright, positive to the right."""
    angular_velocity: jax.Array
    step: jax.Array


class CartPole(Environment):
    """A cart that is pushed left or right must keep the pole on it upright. Equal to Gymnasium's CartPole-v1.

    Args:
        max_steps: Steps after which an episode is truncated.

    Observation `[4]`: position (m), velocity (m/s), angle (rad), angular velocity (rad/s); all start in +-0.05.
    Action Discrete(2): 0 pushes left, 1 right.
    Reward: 1 per step. Terminated beyond 2.4 m or 12 degrees.
    """

    action_names = ("left", "right")

    def __init__(self, *, max_steps: int = 500) -> None:
        self._default_params = as_arrays(Params(max_steps=whole("max_steps", max_steps)))

    @property
    def default_params(self) -> Params:
        return self._default_params

    def observation_space(self, params: Params | None = None) -> Box:
        high = np.array([4.8, np.inf, 24 * math.pi / 180, np.inf], np.float32)
        return Box(-high, high, (4,))

    def action_space(self, params: Params | None = None) -> Discrete:
        return Discrete(2)

    def reset_env(self, key: jax.Array, params: Params) -> tuple[jax.Array, State]:
        start = jax.random.uniform(key, (4,), jnp.float32, -0.05, 0.05)
        state = State(*start, step=jnp.zeros((), jnp.int32))
        return _observe(state), state

    def step_env(self, key: jax.Array, state: State, action: jax.Array, params: Params) -> Step:
        push = jnp.where(self.action_space().clip(action) == 1, params.force, -params.force)
        sin, cos = jnp.sin(state.angle), jnp.cos(state.angle)
        mass = params.cart_mass + params.pole_mass
        # Florian (2007), "Correct equations for the dynamics of the cart-pole system", without friction.
        drive = (push + params.pole_mass * params.half_length * state.angular_velocity**2 * sin) / mass
        leverage = params.half_length * (4.0 / 3.0 - params.pole_mass * cos**2 / mass)
        angular_acceleration = (params.gravity * sin - cos * drive) / leverage
        acceleration = drive - params.pole_mass * params.half_length * angular_acceleration * cos / mass

        after = State(
            position=state.position + params.time_step * state.velocity,
            velocity=state.velocity + params.time_step * acceleration,
            angle=state.angle + params.time_step * state.angular_velocity,
            angular_velocity=state.angular_velocity + params.time_step * angular_acceleration,
            step=state.step + 1,
        )
        terminated = (jnp.abs(after.position) > params.position_limit) | (jnp.abs(after.angle) > params.angle_limit)
        truncated = (after.step >= params.max_steps) & ~terminated
        return _observe(after), after, jnp.ones((), jnp.float32), terminated, truncated, {}

    def draw(self, states: State, params: Params | None = None) -> Scene:
        return draw_cart_pole(states, self._params(params))


def _observe(state: State) -> jax.Array:
    return jnp.stack([state.position, state.velocity, state.angle, state.angular_velocity])
