"""Crypto: Alice sends a public message; Bob, who shares a key with her, should read it, Eve not. Lowe et al. (2017)."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from jaxrl.envs.mpe.env import ActionType, ParticleEnv
from jaxrl.envs.mpe.features import identities, join, rows, teams_of
from jaxrl.envs.mpe.world import Agent, Landmark, Params, State, World
from jaxrl.envs.options import whole

__all__ = ["SimpleCrypto"]


class SimpleCrypto(ParticleEnv):
    """All agents speak and none moves. Bob and Eve say their guesses of Alice's message.

    Args:
        num_messages: How many messages, and keys, there are.
        num_words: Words of the language, W; at least `num_messages`.
        action_type: `"discrete"` or `"continuous"`.
        max_steps: Steps per episode.

    Messages and keys are one-hot vectors of W numbers. Eve sees: what Alice said. Bob: the key, what Alice said.
    Alice: the message, the key.
    Reward of Eve: minus the squared error of her guess, a vector of W numbers. Reward of Alice and Bob: the squared
    error of Eve's guess minus that of Bob's. Saying nothing (all zero, continuous actions only) counts as no error.

    `state.goal`: the message, the key.
    """

    def __init__(
        self,
        *,
        num_messages: int = 2,
        num_words: int = 4,
        action_type: ActionType = "discrete",
        max_steps: int = 25,
    ) -> None:
        count, words = whole("num_messages", num_messages), whole("num_words", num_words)
        if words < count:
            raise ValueError(f"num_words must be at least num_messages, {count}, got {words}.")
        names = ("eve", 0), ("bob", 1), ("alice", 1)
        agents = [Agent(f"{name}_0", collides=False, moves=False, words=words, team=team) for name, team in names]
        self._codes = identities(count, 0.0, 1.0, words)
        world = World(agents, landmarks=[Landmark()] * count)
        super().__init__(world, action_type=action_type, max_steps=max_steps, choices=(count, count))

    @property
    def teams(self) -> tuple[int, ...]:
        """Bob and Alice share their reward."""
        return teams_of(1, 2)

    def observe(self, state: State, params: Params) -> list[jax.Array]:
        message, key = jnp.asarray(self._codes)[state.goal]
        said = state.message[2]
        return [join(said), join(key, said), join(message, key)]

    def reward(self, state: State, params: Params) -> jax.Array:
        guess, message = state.message[:2], jnp.asarray(self._codes)[state.goal[0]]
        eve, bob = jnp.where((guess != 0).any(1), jnp.square(guess - message).sum(1), 0.0)
        return rows(-eve, eve - bob, eve - bob)

    def facts(self, states: State) -> np.ndarray:
        return np.array([f"message {message}, key {key}" for message, key in np.asarray(states.goal)])
