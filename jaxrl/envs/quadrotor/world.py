"""What a quadrotor is and where it is: parameters and state.

The numbers of a drone are those of a Crazyflie in "Learning to Fly in Seconds" (Eschmann, Albani and Loianno 2024,
https://arxiv.org/abs/2311.13081), and so are the task's; https://github.com/rl-tools/rl-tools has their own simulator.
"""

from __future__ import annotations

import dataclasses
import math
from dataclasses import field
from typing import Any

import jax
import numpy as np

__all__ = ["HoverParams", "Motion", "State", "TrackParams", "TrackState"]

_ARM = np.float32(0.028)  # metres along x and along y
_YAW = np.float32(0.005964552)  # metres
_WEIGHT = 0.027 * 9.81  # newtons


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class HoverParams:
    """Drone, noise, start and task in SI units; only rotor speeds are in revolutions per minute.

    The drone's own axes are x forwards, y to the left and z up, along its thrust; x, y and z of the world have z up.
    """

    gravity: Any = 9.81
    mass: Any = 0.027
    inertia: Any = field(default_factory=lambda: np.array([3.85e-6, 3.85e-6, 5.9675e-6], np.float32))
    """Around the drone's own axes, `[3]`."""
    rotors: Any = field(
        default_factory=lambda: _ARM * np.array([[1, -1, 0], [-1, -1, 0], [-1, 1, 0], [1, 1, 0]], np.float32)
    )
    """Where rotors are in the drone's axes, `[4, 3]`: front right, back right, back left, front left."""
    yaw_torque: Any = field(default_factory=lambda: _YAW * np.array([-1, 1, -1, 1], np.float32))
    """Torque of each rotor around the drone's z axis per newton of its thrust, `[4]`, metres; neighbours turn opposite
    ways."""
    thrust_curve: Any = field(default_factory=lambda: np.array([0.0, 0.0, 3.16e-10], np.float32))
    """c of the thrust c0 + c1 rpm + c2 rpm^2 of one rotor, `[3]`."""
    rpm_min: Any = 0.0
    rpm_max: Any = 21702.0
    motor_time: Any = 0.15
    """Time in which a motor makes 63 % of a change of its speed."""
    time_step: Any = 0.01
    force_std: Any = _WEIGHT / 20
    """Deviation of the constant force on the drone in an episode, for each axis of the world."""
    torque_std: Any = _WEIGHT / 10_000
    """Deviation of the constant torque, for each axis of the drone."""

    position_noise: Any = 0.001
    """Deviation of the noise in each number of the observed position, and so on."""
    rotation_noise: Any = 0.001
    velocity_noise: Any = 0.002
    angular_velocity_noise: Any = 0.002

    start_position: Any = 0.2
    """Episodes begin up to this far from the target along each axis, and so on."""
    start_angle: Any = math.pi / 2
    """The most that the drone is turned at the start, at most pi."""
    start_velocity: Any = 1.0
    start_angular_velocity: Any = 1.0
    start_rpm: Any = 21702.0 / 2
    start_at_target: Any = 0.1
    """Share of the episodes that begin at the target and level."""

    position_limit: Any = 0.6
    """An episode ends once the drone is farther than this from the target along an axis."""
    velocity_limit: Any = 1000.0
    """Likewise, beyond this velocity along an axis; a guard for the arithmetic, not part of the task."""
    angular_velocity_limit: Any = 1000.0
    reward_alive: Any = 2.0
    """The reward of a perfect step."""
    reward_scale: Any = 0.5
    """What the costs are multiplied with."""
    position_cost: Any = 5.0
    """Cost of a squared metre from the target, and so on."""
    tilt_cost: Any = 5.0
    velocity_cost: Any = 0.01
    action_cost: Any = 0.01
    """Cost of a squared difference from the action that hovers, summed over the rotors."""
    max_steps: Any = 500


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class TrackParams(HoverParams):
    """As for hovering; the target moves along each axis as a sine."""

    amplitude: Any = field(default_factory=lambda: np.array([0.5, 0.25, 0.1], np.float32))
    """`[3]`, metres"""
    period: Any = field(default_factory=lambda: np.array([5.0, 2.5, 5.0], np.float32))
    """`[3]`, seconds"""


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Motion:
    """What the laws of motion change."""

    position: jax.Array
    """`[3]`"""
    quaternion: jax.Array
    """The rotation from the drone's axes to the world's, `[4]`: w, x, y, z, of length 1."""
    velocity: jax.Array
    """`[3]`, along the world's axes"""
    angular_velocity: jax.Array
    """`[3]`, around the drone's own axes"""
    rpm: jax.Array
    """`[4]`"""


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class State:
    """The drone, and what an episode keeps."""

    motion: Motion
    force: jax.Array
    """Constant in an episode, `[3]`, along the world's axes."""
    torque: jax.Array
    """Likewise, `[3]`, around the drone's axes."""
    history: jax.Array
    """The last H actions, `[H, 4]`, the newest last; zeros before the first."""
    noise: jax.Array
    """That of the observation in deviations, `[18]`; drawn anew in every step."""
    step: jax.Array


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class TrackState(State):
    """The drone and its target."""

    phase: jax.Array
    """Where the sine of each axis begins, `[3]`, radians."""
