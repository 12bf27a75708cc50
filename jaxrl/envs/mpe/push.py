"""Push: an agent goes to its landmark, another keeps it away by force. Lowe et al. (2017)."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from jaxrl.envs.mpe.env import ActionType, ParticleEnv
from jaxrl.envs.mpe.features import identities, join, others, rows
from jaxrl.envs.mpe.physics import distance
from jaxrl.envs.mpe.world import Agent, Landmark, Params, State, World
from jaxrl.envs.options import whole

__all__ = ["SimplePush"]


class SimplePush(ParticleEnv):
    """The good agents go to the goal, one of the landmarks; adversaries, who do not know which it is, push them away.

    Args:
        num_good: Good agents.
        num_adversaries: Adversaries.
        num_landmarks: Landmarks, L; each is known by a colour of L + 1 numbers.
        action_type: `"discrete"` or `"continuous"`.
        max_steps: Steps per episode.

    A good agent sees: its velocity; the goal from where it is; its own colour, which is the goal's, only darker; the
    landmarks from where it is; their colours; the other agents from where it is. An adversary: its velocity, the
    landmarks and the other agents from where it is.
    Reward of a good agent: minus its distance to the goal. Reward of an adversary: the distance of the nearest good
    agent to the goal, minus its own.

    `state.goal`: the index of the goal among the landmarks.
    """

    def __init__(
        self,
        *,
        num_good: int = 1,
        num_adversaries: int = 1,
        num_landmarks: int = 2,
        action_type: ActionType = "discrete",
        max_steps: int = 25,
    ) -> None:
        self.num_adversaries, count = whole("num_adversaries", num_adversaries), whole("num_landmarks", num_landmarks)
        agents = [Agent(f"adversary_{i}") for i in range(num_adversaries)]
        agents += [Agent(f"agent_{i}", team=1) for i in range(whole("num_good", num_good))]
        self._landmark_colors = identities(count, 0.1, 0.9, count + 1, first=1)
        self._agent_colors = identities(count, 0.25, 0.75, count + 1, first=1)
        world = World(agents, landmarks=[Landmark()] * count)
        super().__init__(world, action_type=action_type, max_steps=max_steps, choices=(count,))

    def observe(self, state: State, params: Params) -> list[jax.Array]:
        agents, landmarks = state.position[: self.num_agents], state.position[self.num_agents :]
        goal, color = landmarks[state.goal[0]], jnp.asarray(self._agent_colors)[state.goal[0]]
        seen = []
        for i in range(self.num_agents):
            to_landmarks, to_others = landmarks - agents[i], others(agents, i) - agents[i]
            if i < self.num_adversaries:
                seen.append(join(state.velocity[i], to_landmarks, to_others))
            else:
                aim = goal - agents[i], color
                seen.append(join(state.velocity[i], *aim, to_landmarks, self._landmark_colors, to_others))
        return seen

    def reward(self, state: State, params: Params) -> jax.Array:
        adversaries, count = self.num_adversaries, self.num_agents
        to_goal = distance(state.position[:count], state.position[count:][state.goal[0]])
        return rows(to_goal[adversaries:].min() - to_goal[:adversaries], -to_goal[adversaries:])

    def targets(self, states: State) -> list[tuple[int, np.ndarray]]:
        return [(i, np.asarray(states.goal)[:, 0]) for i in range(self.num_adversaries, self.num_agents)]
