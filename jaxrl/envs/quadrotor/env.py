"""The drone's tasks: `quadrotor/hover`, stay where you are, and `quadrotor/track`, follow a Lissajous figure."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxrl.environment import Environment, Step, as_arrays
from jaxrl.envs.options import whole
from jaxrl.envs.quadrotor.draw import draw
from jaxrl.envs.quadrotor.physics import HoverParams, Motion, State, TrackParams, TrackState, advance
from jaxrl.envs.quadrotor.task import (
    MOTION_SIZE,
    is_lost,
    lissajous,
    privileged,
    reward,
    sensed,
    start_disturbance,
    start_motion,
)
from jaxrl.render.scene import Scene
from jaxrl.spaces import Box

__all__ = ["Hover", "Track"]


class Hover(Environment):
    """A Crazyflie flies to the origin and hovers there (Eschmann et al. 2024, https://arxiv.org/abs/2311.13081).

    Args:
        max_steps: Steps after which an episode is truncated.
        history: H, the number of last actions in the observation; 0 leaves them out.

    Raises:
        ValueError: An option is out of its range.

    Observation `[18 + 4 H]`: position (m), rotation matrix row by row, velocity (m/s), angular velocity (rad/s), all
    with noise, then the last H actions, the oldest first.
    Action Box(-1, 1, [4]): the speeds that the rotors head for, from the lowest to the highest.
    Reward: 2 - (5 distance^2 + 5 tilt + 0.01 speed^2 + 0.01 |action - hover|^2) / 2 before the step, where tilt is the
    squared sine of half the angle; 0 if the step ends the episode. Terminated beyond 0.6 m along an axis.
    """

    _target_size = 0  # numbers of the observation that tell about the target

    def __init__(self, *, max_steps: int = 500, history: int = 32) -> None:
        self.history = whole("history", history, 0)
        self._default_params = as_arrays(self._new_params(whole("max_steps", max_steps)))

    def _new_params(self, max_steps: int) -> Any:
        return HoverParams(max_steps=max_steps)

    @property
    def default_params(self) -> Any:
        return self._default_params

    def observation_space(self, params: Any = None) -> Box:
        return Box(-np.inf, np.inf, (MOTION_SIZE + self._target_size + 4 * self.history,))

    def action_space(self, params: Any = None) -> Box:
        return Box(-1.0, 1.0, (4,))

    def reset_env(self, key: jax.Array, params: Any) -> tuple[jax.Array, Any]:
        state = self._start(key, params)
        return self.observation(state, params), state

    def step_env(self, key: jax.Array, state: Any, action: jax.Array, params: Any) -> Step:
        action = self.action_space().clip(action)
        earned = reward(self._error(state, params), action, params)
        after = dataclasses.replace(
            state,
            motion=advance(state.motion, action, state.force, state.torque, params),
            history=jnp.concatenate([state.history, action[None]])[1:],
            noise=jax.random.normal(key, (MOTION_SIZE,), jnp.float32),
            step=state.step + 1,
        )
        error = self._error(after, params)
        terminated = is_lost(error, params)
        truncated = (after.step >= params.max_steps) & ~terminated
        info = {"distance": jnp.sqrt(jnp.sum(error.position**2))}
        return self.observation(after, params), after, jnp.where(terminated, 0.0, earned), terminated, truncated, info

    def observation(self, state: Any, params: Any = None) -> jax.Array:
        own = sensed(state, self._params(params))
        return jnp.concatenate([own, state.history.reshape(-1)])

    def global_state(self, state: Any, params: Any = None) -> jax.Array:
        """For a critic that knows more than the policy, `[28]`, see `privileged`."""
        return privileged(state, self._params(params))

    def draw(self, states: Any, params: Any = None) -> Scene:
        params = self._params(params)
        targets, _ = jax.vmap(self._target, in_axes=(0, None))(states, params)
        return draw(self.name, states, np.asarray(targets, np.float64), self._reach(params), params)

    def _start(self, key: jax.Array, params: Any) -> Any:
        key_motion, key_disturbance, key_noise = jax.random.split(key, 3)
        return State(
            start_motion(key_motion, params),
            *start_disturbance(key_disturbance, params),
            history=jnp.zeros((self.history, 4), jnp.float32),
            noise=jax.random.normal(key_noise, (MOTION_SIZE,), jnp.float32),
            step=jnp.zeros((), jnp.int32),
        )

    def _target(self, state: Any, params: Any) -> tuple[jax.Array, jax.Array]:
        """Position and velocity of the target, `[3]` each."""
        return jnp.zeros(3, jnp.float32), jnp.zeros(3, jnp.float32)

    def _reach(self, params: Any) -> float:
        """For pictures: how far the target gets along any axis, metres."""
        return 0.0

    def _error(self, state: Any, params: Any) -> Motion:
        """The motion relative to the target's."""
        position, velocity = self._target(state, params)
        own = state.motion
        return dataclasses.replace(own, position=own.position - position, velocity=own.velocity - velocity)


class Track(Hover):
    """The Crazyflie of `Hover` follows a target along a Lissajous figure, whose phases are drawn for each episode.

    Args:
        max_steps: Steps after which an episode is truncated.
        history: H, the number of last actions in the observation; 0 leaves them out.

    Raises:
        ValueError: An option is out of its range.

    Observation `[24 + 4 H]`: as in `Hover`, with the target's position and velocity relative to the drone's before the
    last actions. Actions, rewards and ends: as in `Hover`, with position and velocity relative to the target's.
    """

    _target_size = 6

    def _new_params(self, max_steps: int) -> TrackParams:
        return TrackParams(max_steps=max_steps)

    def observation(self, state: TrackState, params: Any = None) -> jax.Array:
        """The drone senses itself alone, and where the target is relative to that with the same noise."""
        params = self._params(params)
        obs = super().observation(state, params)
        position, velocity = self._target(state, params)
        return jnp.concatenate([obs[:MOTION_SIZE], position - obs[:3], velocity - obs[12:15], obs[MOTION_SIZE:]])

    def global_state(self, state: TrackState, params: Any = None) -> jax.Array:
        """As in `Hover`, then the target's position and velocity relative to the drone's, `[34]`."""
        params = self._params(params)
        error = self._error(state, params)
        return jnp.concatenate([super().global_state(state, params), -error.position, -error.velocity])

    def _start(self, key: jax.Array, params: TrackParams) -> TrackState:
        """As in `Hover`, relative to a target that is anywhere on its figure."""
        key_own, key_phase = jax.random.split(key)
        state = super()._start(key_own, params)
        phase = jax.random.uniform(key_phase, (3,), jnp.float32, 0.0, 2 * math.pi)
        position, velocity = lissajous(jnp.zeros((), jnp.float32), phase, params)
        own = state.motion
        motion = dataclasses.replace(own, position=own.position + position, velocity=own.velocity + velocity)
        return TrackState(motion, state.force, state.torque, state.history, state.noise, state.step, phase)

    def _target(self, state: TrackState, params: TrackParams) -> tuple[jax.Array, jax.Array]:
        return lissajous(state.step * params.time_step, state.phase, params)

    def _reach(self, params: TrackParams) -> float:
        return float(np.max(params.amplitude))
