"""The motion of bodies, and the actions that cause it.

Bodies are pushed by their own force and by contact, slowed by damping, never faster than their limit. The formulas are
those of the particle world of Mordatch and Abbeel (2018) and Lowe et al. (2017), in the order of operations of mpe2:
positions change by the old velocities. Agents move in four directions, and speak.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from jaxrl.envs.mpe.world import Agent, Params, World
from jaxrl.spaces import Box, Discrete, Space

__all__ = [
    "MOVES",
    "action_names",
    "decode_continuous",
    "decode_discrete",
    "distance",
    "move",
    "softplus",
    "space_of",
    "widest",
]

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


MOVES = 5  # stay, -x, +x, -y, +y


def space_of(agent: Agent, action_type: str) -> Space:
    """The agent's own actions.

    Discrete: move + 5 word, or only the word for agents that cannot move. Continuous: the strengths of stay (without
    effect), -x, +x, -y and +y, then of each word, all in 0 … 1.
    """
    if action_type == "continuous":
        return Box(0.0, 1.0, (MOVES * agent.moves + agent.words,))
    return Discrete((MOVES if agent.moves else 1) * max(agent.words, 1))


def action_names(world: World) -> tuple[str, ...]:
    """The names of the discrete actions, if all agents move: where to, and which word is said besides the first."""
    if not all(agent.moves for agent in world.agents):
        return ()
    ways, words = ("stay", "left", "right", "down", "up"), max(1, *(agent.words for agent in world.agents))
    return tuple(f"{way} {word}" if word else way for word in range(words) for way in ways)


def widest(world: World, action_type: str) -> Space:
    """The space that contains all agents' own spaces."""
    spaces = [space_of(agent, action_type) for agent in world.agents]
    return max(spaces, key=lambda space: space.n if isinstance(space, Discrete) else space.shape)


def decode_discrete(world: World, action: jax.Array) -> tuple[jax.Array, jax.Array]:
    """`(direction[N, 2], message[S, W])` of `action[N]`. Numbers beyond an agent's own actions mean its last one."""
    num_actions = np.array([space_of(agent, "discrete").n for agent in world.agents], np.int32)  # pyright: ignore
    moves = np.array([agent.moves for agent in world.agents])
    action = jnp.minimum(action, num_actions - 1)
    step = jnp.where(moves, action % MOVES, 0)
    direction = jnp.stack([_sign(step, 1, 2), _sign(step, 3, 4)], axis=-1)
    word = jnp.where(moves, action // MOVES, action)[np.array(world.speakers, np.int32)]
    return direction, jax.nn.one_hot(word, world.words, dtype=jnp.float32)


def decode_continuous(world: World, action: jax.Array) -> tuple[jax.Array, jax.Array]:
    """`(direction[N, 2], message[S, W])` of `action[N, A]`."""
    moves = np.array([agent.moves for agent in world.agents])
    if not moves.any():
        direction = jnp.zeros((len(moves), 2), jnp.float32)
    else:
        going = jnp.stack([action[:, 2] - action[:, 1], action[:, 4] - action[:, 3]], axis=-1)
        direction = jnp.where(moves[:, None], going, 0.0)
    said = []
    for speaker in world.speakers:
        first = MOVES if world.agents[speaker].moves else 0
        said.append(action[speaker, first : first + world.words])
    return direction, jnp.stack(said) if said else jnp.zeros((0, 0), jnp.float32)


def _sign(step: jax.Array, back: int, forth: int) -> jax.Array:
    return (step == forth).astype(jnp.float32) - (step == back).astype(jnp.float32)
