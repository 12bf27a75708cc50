"""How bodies move: pushed by their own force and by contact, slowed by damping, never faster than their limit.

The formulas are those of the particle world of Mordatch and Abbeel (2018) and Lowe et al. (2017), in the order of
operations of mpe2: positions change by the old velocities.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from jaxrl.envs.mpe.world import Params, World

__all__ = ["distance", "move", "softplus"]

_TINY = 1e-12  # keeps directions and gradients finite where two bodies coincide


def distance(a: jax.Array, b: jax.Array) -> jax.Array:
    """Euclidean distance between vectors `[…, 2]`: `[…]`, at least 1e-12, and differentiable everywhere."""
    square = jnp.square(a - b)
    return jnp.sqrt(jnp.maximum(square[..., 0] + square[..., 1], _TINY**2))


def move(
    world: World, position: jax.Array, velocity: jax.Array, force: jax.Array, params: Params
) -> tuple[jax.Array, jax.Array]:
    """One time step: the new `position[E, 2]` and `velocity[P, 2]` under the agents' own `force[P, 2]`."""
    num_agents = len(world.movers)
    if world.num_colliders > 1:
        force = force + _contact(world, position, params)
    elsewhere = position[:num_agents] + velocity * params.time_step
    velocity = velocity * (1 - params.damping) + force / params.mass[:, None] * params.time_step
    speed = distance(velocity, jnp.zeros_like(velocity))[:, None]
    velocity = velocity / jnp.maximum(1.0, speed / params.max_speed[:, None])
    return jnp.concatenate([elsewhere, position[num_agents:]]), velocity


def _contact(world: World, position: jax.Array, params: Params) -> jax.Array:
    """The sum of the contact forces on each agent, `[P, 2]`.

    An overlap counts softly: margin log(1 + exp((r1 + r2 - distance) / margin)). Bodies in exactly the same place do
    not push each other, since no direction is away (and so no body pushes itself).
    """
    num_agents, colliders = len(world.movers), world.num_colliders
    x, y, size = position[:colliders, 0], position[:colliders, 1], params.size[:colliders]
    pushes = []
    for i in range(min(num_agents, colliders)):  # one agent at a time: 5 times faster than all pairs in one array
        dx, dy = x[i] - x, y[i] - y
        apart = jnp.sqrt(jnp.maximum(jnp.square(dx) + jnp.square(dy), _TINY**2))
        depth = (size[i] + size - apart) / params.contact_margin
        push = params.contact_force * params.contact_margin * softplus(depth) / apart
        pushes.append(jnp.stack([(push * dx).sum(), (push * dy).sum()]))
    return jnp.pad(jnp.stack(pushes), ((0, num_agents - len(pushes)), (0, 0)))


def softplus(x: jax.Array) -> jax.Array:
    """Log(1 + exp(x)) without overflow. The version in jax.nn also handles infinities, which costs more."""
    return jnp.maximum(x, 0) + jnp.log1p(jnp.exp(-jnp.abs(x)))
