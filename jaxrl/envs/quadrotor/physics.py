"""The laws of motion: a rigid body with four rotors whose motors take time to follow, in steps of Runge-Kutta."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from jaxrl.envs.quadrotor.world import HoverParams, Motion

__all__ = ["advance", "hover_action", "rotation_matrix", "thrusts"]


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
