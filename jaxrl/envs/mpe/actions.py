"""The actions of agents: moving in four directions, and speaking."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from jaxrl.envs.mpe.world import Agent, World
from jaxrl.spaces import Box, Discrete, Space

__all__ = ["MOVES", "action_names", "decode_continuous", "decode_discrete", "space_of", "widest"]

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
    """What the discrete actions are called, if all agents move: where to, and which word is said besides the first."""
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
