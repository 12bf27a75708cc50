"""Reference: each agent knows where another agent should go, and has to tell it. Lowe et al. (2017)."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxrl.envs.mpe.env import ActionType, ParticleEnv
from jaxrl.envs.mpe.features import identities, join, others
from jaxrl.envs.mpe.physics import distance
from jaxrl.envs.mpe.world import Agent, Landmark, Params, State, World
from jaxrl.envs.options import part, whole

__all__ = ["SimpleReference"]


class Rules(NamedTuple):
    local_ratio: Any
    """The share of the reward for the agent that one instructs; the rest is for all agents."""


class SimpleReference(ParticleEnv):
    """Agent i knows the landmark that agent i + 1 (the last: agent 0) should go to. All go and speak at once.

    Args:
        num_agents: Agents, N, at least 2.
        num_landmarks: Landmarks; each is known by a colour of as many numbers.
        num_words: Words of the language.
        local_ratio: The part of the reward that is for the agent one knows the goal of.
        action_type: `"discrete"` (move + 5 word) or `"continuous"`.
        max_steps: Steps per episode.

    Each agent sees: its velocity; the landmarks from where it is; the colour of the other's goal; what the others said.
    Reward: minus the distance of agent i + 1 to its goal, times local_ratio, plus the mean over all agents of the same,
    times (1 - local_ratio).

    `state.goal[i]`: the index of the landmark that agent i + 1 should go to.
    """

    def __init__(
        self,
        *,
        num_agents: int = 2,
        num_landmarks: int = 3,
        num_words: int = 10,
        local_ratio: float = 0.5,
        action_type: ActionType = "discrete",
        max_steps: int = 25,
    ) -> None:
        words, count = whole("num_words", num_words), whole("num_landmarks", num_landmarks)
        agents = [Agent(f"agent_{i}", collides=False, words=words) for i in range(whole("num_agents", num_agents, 2))]
        self._colors = identities(count, 0.25, 0.75)
        world, rules = World(agents, landmarks=[Landmark()] * count), Rules(part("local_ratio", local_ratio))
        choices = (count,) * num_agents
        super().__init__(world, action_type=action_type, max_steps=max_steps, rules=rules, choices=choices)

    def observe(self, state: State, params: Params) -> list[jax.Array]:
        agents, landmarks = state.position[: self.num_agents], state.position[self.num_agents :]
        colors = jnp.asarray(self._colors)[state.goal]
        return [
            join(state.velocity[i], landmarks - agents[i], colors[i], others(state.message, i))
            for i in range(self.num_agents)
        ]

    def reward(self, state: State, params: Params) -> jax.Array:
        agents, landmarks = state.position[: self.num_agents], state.position[self.num_agents :]
        ratio = params.rules.local_ratio
        own = -distance(jnp.roll(agents, -1, axis=0), landmarks[state.goal])
        return ratio * own + (1 - ratio) * own.mean()

    def targets(self, states: State) -> list[tuple[int, np.ndarray]]:
        return [((i + 1) % self.num_agents, np.asarray(states.goal)[:, i]) for i in range(self.num_agents)]
