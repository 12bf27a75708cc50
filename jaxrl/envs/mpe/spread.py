"""Spread: a team covers all landmarks without running into each other. Lowe et al. (2017)."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import numpy as np

from jaxrl.entities import Group
from jaxrl.envs.mpe.env import ActionType, ParticleEnv
from jaxrl.envs.mpe.features import join, nearest, others, touches
from jaxrl.envs.mpe.world import Agent, Landmark, Params, State, World
from jaxrl.envs.options import part, whole

__all__ = ["SimpleSpread"]


class Rules(NamedTuple):
    local_ratio: Any
    """The agent's own share of the reward; the rest is the team's."""


class SimpleSpread(ParticleEnv):
    """Agents cover all landmarks together, and keep out of each other's way.

    Args:
        num_agents: Agents, N.
        num_landmarks: Landmarks, L (default: as many as agents).
        local_ratio: The share of the reward for the agent's own collisions.
        action_type: `"discrete"` or `"continuous"`.
        max_steps: Steps per episode.

    Each agent sees: its velocity and position; the landmarks, then the other agents, from where it is; 2 (N - 1)
    zeros, where the original has room for messages that nobody sends.
    Reward: local_ratio times minus the number of agents it touches, plus (1 - local_ratio) times minus the sum over
    landmarks of the distance to the nearest agent.
    """

    def __init__(
        self,
        *,
        num_agents: int = 3,
        num_landmarks: int | None = None,
        local_ratio: float = 0.5,
        action_type: ActionType = "discrete",
        max_steps: int = 25,
    ) -> None:
        count = whole("num_agents", num_agents)
        landmarks = count if num_landmarks is None else whole("num_landmarks", num_landmarks)
        world = World([Agent(f"agent_{i}", size=0.15) for i in range(count)], landmarks=[Landmark()] * landmarks)
        rules = Rules(part("local_ratio", local_ratio))
        super().__init__(world, action_type=action_type, max_steps=max_steps, rules=rules)

    def observe(self, state: State, params: Params) -> list[jax.Array]:
        count = self.num_agents
        agents, landmarks = state.position[:count], state.position[count:]
        unsaid = np.zeros(2 * (count - 1), np.float32)
        return [
            join(state.velocity[i], agents[i], landmarks - agents[i], others(agents, i) - agents[i], unsaid)
            for i in range(count)
        ]

    def groups(self) -> tuple[Group, ...]:
        landmarks, others = len(self.world.landmarks), self.num_agents - 1
        first = 4 + 2 * landmarks
        # Places, and what they do not say.
        said = Group("agent", others, ((first, 2), (first + 2 * others, 2)), place=(0, 1))
        return Group("landmark", landmarks, ((4, 2),), place=(0, 1)), said

    def reward(self, state: State, params: Params) -> jax.Array:
        count, ratio = self.num_agents, params.rules.local_ratio
        agents, landmarks, size = state.position[:count], state.position[count:], params.size[:count]
        collisions = touches(agents, size, agents, size) - 1  # every agent touches itself
        return -ratio * collisions - (1 - ratio) * nearest(landmarks, agents).sum()
