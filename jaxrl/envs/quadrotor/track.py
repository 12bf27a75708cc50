"""`quadrotor/track`: follow a target along a Lissajous figure."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxrl.envs.quadrotor.hover import Hover
from jaxrl.envs.quadrotor.lissajous import lissajous
from jaxrl.envs.quadrotor.observe import MOTION_SIZE
from jaxrl.envs.quadrotor.world import TrackParams, TrackState

__all__ = ["Track"]


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
