"""Acrobot: swing a two-link arm up by its elbow (Sutton, 1996; equations of Sutton and Barto's book)."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxrl.environment import Environment, Step, as_arrays
from jaxrl.envs.classic.draw import draw_acrobot
from jaxrl.envs.options import whole
from jaxrl.render.scene import Scene
from jaxrl.spaces import Box, Discrete

__all__ = ["Acrobot", "Params", "State"]

_MAX_VELOCITY = (4 * math.pi, 9 * math.pi)  # rad/s of shoulder and elbow


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Params:
    """Physics in SI units; the links are equal except where fields name one of them."""

    gravity: Any = 9.8
    length_1: Any = 1.0
    """Length of the upper link."""
    mass_1: Any = 1.0
    mass_2: Any = 1.0
    centre_1: Any = 0.5
    """Distance from the upper link's joint to its centre of mass."""
    centre_2: Any = 0.5
    inertia: Any = 1.0
    """Moment of inertia of each link."""
    torque: Any = 1.0
    time_step: Any = 0.2
    max_steps: Any = 500


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class State:
    """The arm."""

    angles: jax.Array
    """`[2]` radians: the shoulder's angle from hanging down, the elbow's from straight; within -pi … pi."""
    velocities: jax.Array
    """`[2]` rad/s."""
    step: jax.Array


class Acrobot(Environment):
    """A hanging arm with a motor only in its elbow must lift its tip. Equal to Gymnasium's Acrobot-v1.

    Args:
        max_steps: Steps after which an episode is truncated.

    Observation `[6]`: cosine and sine of the shoulder's angle, cosine and sine of the elbow's, both velocities
    (within 4 pi and 9 pi rad/s). All four numbers of the state start in +-0.1.
    Action Discrete(3): torque of -1, 0 or 1 N m at the elbow.
    Reward: -1 per step, 0 for the last. Terminated when the tip is one link above the shoulder.
    """

    action_names = ("clockwise", "nothing", "anticlockwise")

    def __init__(self, *, max_steps: int = 500) -> None:
        self._default_params = as_arrays(Params(max_steps=whole("max_steps", max_steps)))

    @property
    def default_params(self) -> Params:
        return self._default_params

    def observation_space(self, params: Params | None = None) -> Box:
        high = np.array([1.0, 1.0, 1.0, 1.0, *_MAX_VELOCITY], np.float32)
        return Box(-high, high, (6,))

    def action_space(self, params: Params | None = None) -> Discrete:
        return Discrete(3)

    def reset_env(self, key: jax.Array, params: Params) -> tuple[jax.Array, State]:
        start = jax.random.uniform(key, (4,), jnp.float32, -0.1, 0.1)
        state = State(start[:2], start[2:], jnp.zeros((), jnp.int32))
        return _observe(state), state

    def step_env(self, key: jax.Array, state: State, action: jax.Array, params: Params) -> Step:
        torque = (self.action_space().clip(action).astype(jnp.float32) - 1.0) * params.torque
        moved = _runge_kutta(jnp.concatenate([state.angles, state.velocities]), torque, params)
        angles = jnp.mod(moved[:2] + math.pi, 2 * math.pi) - math.pi
        limit = np.array(_MAX_VELOCITY, np.float32)
        after = State(angles, jnp.clip(moved[2:], -limit, limit), state.step + 1)
        terminated = -jnp.cos(angles[0]) - jnp.cos(angles[0] + angles[1]) > 1.0
        truncated = (after.step >= params.max_steps) & ~terminated
        reward = jnp.where(terminated, 0.0, -1.0).astype(jnp.float32)
        return _observe(after), after, reward, terminated, truncated, {}

    def draw(self, states: State, params: Params | None = None) -> Scene:
        return draw_acrobot(states, self._params(params))


def _runge_kutta(y: jax.Array, torque: jax.Array, params: Params) -> jax.Array:
    """The arm `[4]` (angles, velocities) one time step later, by the classical fourth-order method."""
    h = params.time_step
    k1 = _derivative(y, torque, params)
    k2 = _derivative(y + 0.5 * h * k1, torque, params)
    k3 = _derivative(y + 0.5 * h * k2, torque, params)
    k4 = _derivative(y + h * k3, torque, params)
    return y + h / 6.0 * (k1 + 2.0 * k2 + 2.0 * k3 + k4)


def _derivative(y: jax.Array, torque: jax.Array, params: Params) -> jax.Array:
    """Velocities and accelerations `[4]` of the arm; `M` is its mass matrix, the rest is gravity and spin."""
    shoulder, elbow, spin_1, spin_2 = y
    lever = params.mass_2 * params.length_1 * params.centre_2
    own_2 = params.mass_2 * params.centre_2**2 + params.inertia
    own_1 = params.mass_1 * params.centre_1**2 + params.mass_2 * params.length_1**2 + params.inertia
    m11 = own_1 + own_2 + 2.0 * lever * jnp.cos(elbow)
    m12 = own_2 + lever * jnp.cos(elbow)

    weight_2 = params.mass_2 * params.centre_2 * params.gravity * jnp.sin(shoulder + elbow)
    heaviness_1 = params.mass_1 * params.centre_1 + params.mass_2 * params.length_1
    weight_1 = heaviness_1 * params.gravity * jnp.sin(shoulder) + weight_2
    swing = lever * jnp.sin(elbow)
    load_1 = weight_1 - swing * spin_2 * (spin_2 + 2.0 * spin_1)
    load_2 = weight_2 + swing * spin_1**2
    acceleration_2 = (torque + m12 / m11 * load_1 - load_2) / (own_2 - m12**2 / m11)
    acceleration_1 = -(m12 * acceleration_2 + load_1) / m11
    return jnp.stack([spin_1, spin_2, acceleration_1, acceleration_2])


def _observe(state: State) -> jax.Array:
    cos, sin = jnp.cos(state.angles), jnp.sin(state.angles)
    return jnp.concatenate([jnp.stack([cos[0], sin[0], cos[1], sin[1]]), state.velocities])
