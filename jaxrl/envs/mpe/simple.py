"""Simple: one agent goes to one landmark. Lowe et al. (2017)."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from jaxrl.envs.mpe.env import ActionType, ParticleEnv
from jaxrl.envs.mpe.features import join
from jaxrl.envs.mpe.world import Agent, Landmark, Params, State, World
from jaxrl.envs.options import whole

__all__ = ["Simple"]


class Simple(ParticleEnv):
    """Agents that do not touch each other go to a landmark.

    Args:
        num_agents: Agents, which are independent of each other.
        num_landmarks: Landmarks; with several, rewards are summed over them.
        action_type: `"discrete"` or `"continuous"`.
        max_steps: Steps per episode.

    Each agent sees: its velocity; the landmarks from where it is.
    Reward: minus the squared distance to the landmark.
    """

    def __init__(
        self,
        *,
        num_agents: int = 1,
        num_landmarks: int = 1,
        action_type: ActionType = "discrete",
        max_steps: int = 25,
    ) -> None:
        agents = [Agent(f"agent_{i}", collides=False, team=i) for i in range(whole("num_agents", num_agents))]
        landmarks = [Landmark()] * whole("num_landmarks", num_landmarks)
        super().__init__(World(agents, landmarks=landmarks), action_type=action_type, max_steps=max_steps)

    def observe(self, state: State, params: Params) -> list[jax.Array]:
        count = self.num_agents
        me, landmarks = state.position[:count], state.position[count:]
        return [join(state.velocity[i], landmarks - me[i]) for i in range(count)]

    def reward(self, state: State, params: Params) -> jax.Array:
        count = self.num_agents
        return -jnp.square(state.position[:count, None] - state.position[count:]).sum((1, 2))
