"""A quadrotor's parameters and state, and its laws of motion.

It is a rigid body with four rotors whose motors take time to follow, moved in steps of Runge-Kutta. The numbers of the
drone are those of a Crazyflie in "Learning to Fly in Seconds" (Eschmann, Albani and Loianno 2024,
https://arxiv.org/abs/2311.13081), and so are the task's; https://github.com/rl-tools/rl-tools has their own simulator.
"""

from __future__ import annotations

import dataclasses
import math
from dataclasses import field
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

__all__ = [
    "HoverParams",
    "Motion",
    "State",
    "TrackParams",
    "TrackState",
    "advance",
    "hover_action",
    "rotation_matrix",
    "thrusts",
]

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
    """The factor of the costs."""
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
    """The part of the state that the laws of motion change."""

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


def advance(motion: Motion, action: jax.Array, force: jax.Array, torque: jax.Array, params: HoverParams) -> Motion:
    """The motion one `time_step` later, by one classical Runge-Kutta step of fourth order.

    Args:
        motion: Now.
        action: The rotor speeds to head for, `[4]`, from -1 (`rpm_min`) to 1 (`rpm_max`).
        force: On the drone besides gravity and rotors, `[3]`, along the world's axes.
        torque: Likewise, `[3]`, around the drone's axes.
        params: The drone.
    """
    wanted = params.rpm_min + (action + 1) / 2 * (params.rpm_max - params.rpm_min)
    span = params.time_step

    def slope(at: Motion) -> Motion:
        return _slope(at, wanted, force, torque, params)

    k1 = slope(motion)
    k2 = slope(_along(motion, k1, span / 2))
    k3 = slope(_along(motion, k2, span / 2))
    k4 = slope(_along(motion, k3, span))
    mean = jax.tree.map(lambda a, b, c, d: (a + 2 * b + 2 * c + d) / 6, k1, k2, k3, k4)
    after = _along(motion, mean, span)
    length = jnp.sqrt(jnp.sum(after.quaternion**2))
    return Motion(
        after.position,
        after.quaternion / length,
        after.velocity,
        after.angular_velocity,
        jnp.clip(after.rpm, params.rpm_min, params.rpm_max),
    )


def _along(motion: Motion, slope: Motion, span: jax.Array) -> Motion:
    return jax.tree.map(lambda value, rate: value + span * rate, motion, slope)


def _slope(at: Motion, wanted: jax.Array, force: jax.Array, torque: jax.Array, params: HoverParams) -> Motion:
    """The derivatives with respect to time of all that moves."""
    thrust = thrusts(at.rpm, params)
    up = rotation_matrix(at.quaternion)[:, 2]
    fall = jnp.array([0.0, 0.0, -1.0], jnp.float32) * params.gravity
    acceleration = (up * thrust.sum() + force) / params.mass + fall

    x, y = params.rotors[:, 0], params.rotors[:, 1]
    # Sums, because an accelerator may round products of matrices.
    turning = jnp.stack([jnp.sum(y * thrust), -jnp.sum(x * thrust), jnp.sum(params.yaw_torque * thrust)])
    spin, inertia = at.angular_velocity, params.inertia
    spin_up = (turning + torque - _cross(spin, inertia * spin)) / inertia
    return Motion(
        at.velocity, _turn(at.quaternion, spin) / 2, acceleration, spin_up, (wanted - at.rpm) / params.motor_time
    )


def thrusts(rpm: jax.Array, params: HoverParams) -> jax.Array:
    """The thrust of each rotor, `[4]`, newtons."""
    c = params.thrust_curve
    return c[0] + rpm * (c[1] + rpm * c[2])


def hover_action(params: HoverParams) -> jax.Array:
    """The action whose thrusts carry the drone, a scalar, the same for all rotors."""
    c = params.thrust_curve
    lift = params.mass * params.gravity / 4 - c[0]
    rpm = 2 * lift / (c[1] + jnp.sqrt(c[1] ** 2 + 4 * c[2] * lift))  # also right for a straight line
    return 2 * (rpm - params.rpm_min) / (params.rpm_max - params.rpm_min) - 1


def rotation_matrix(quaternion: jax.Array) -> jax.Array:
    """The matrix `[3, 3]` that maps vectors in the drone's axes to the world's."""
    w, x, y, z = quaternion
    return jnp.stack(
        [
            jnp.stack([1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)]),
            jnp.stack([2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)]),
            jnp.stack([2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)]),
        ]
    )


def _turn(quaternion: jax.Array, spin: jax.Array) -> jax.Array:
    """The quaternion times (0, spin), `[4]`."""
    w, x, y, z = quaternion
    p, q, r = spin
    return jnp.stack([-x * p - y * q - z * r, w * p + y * r - z * q, w * q + z * p - x * r, w * r + x * q - y * p])


def _cross(a: jax.Array, b: jax.Array) -> jax.Array:
    return jnp.stack([a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]])
