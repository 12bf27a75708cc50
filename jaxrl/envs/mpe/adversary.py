"""Adversary: a team knows where to go; its opponent has to infer it from their behaviour. Lowe et al. (2017)."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from jaxrl.envs.mpe.env import ActionType, ParticleEnv
from jaxrl.envs.mpe.features import join, others, rows, teams_of
from jaxrl.envs.mpe.physics import distance
from jaxrl.envs.mpe.world import Agent, Landmark, Params, State, World
from jaxrl.envs.options import whole

__all__ = ["SimpleAdversary"]


class SimpleAdversary(ParticleEnv):
    """The good agents want one of them at the goal, one of the landmarks, and the adversary away from it.

    Args:
        num_good: Good agents.
        num_landmarks: Landmarks (default: as many as good agents).
        num_adversaries: Adversaries, who do not know which landmark is the goal.
        action_type: `"discrete"` or `"continuous"`.
        max_steps: Steps per episode.

    A good agent sees: the goal, the landmarks and the other agents from where it is. An adversary: the same without
    the goal.
    Reward of an adversary: minus its distance to the goal. Reward of the good agents: the sum of these distances,
    minus the distance of the nearest good agent to the goal.

    `state.goal`: the index of the goal among the landmarks.
    """

    def __init__(
        self,
        *,
        num_good: int = 2,
        num_landmarks: int | None = None,
        num_adversaries: int = 1,
        action_type: ActionType = "discrete",
        max_steps: int = 25,
    ) -> None:
        good, self.num_adversaries = whole("num_good", num_good), whole("num_adversaries", num_adversaries)
        landmarks = good if num_landmarks is None else whole("num_landmarks", num_landmarks)
        agents = [Agent(f"adversary_{i}", size=0.15, collides=False) for i in range(num_adversaries)]
        agents += [Agent(f"agent_{i}", size=0.15, collides=False, team=1) for i in range(good)]
        world = World(agents, landmarks=[Landmark(size=0.08)] * landmarks)
        super().__init__(world, action_type=action_type, max_steps=max_steps, choices=(landmarks,))

    @property
    def teams(self) -> tuple[int, ...]:
        """The good agents share their reward, and each adversary has its own."""
        return teams_of(*[1] * self.num_adversaries, self.num_agents - self.num_adversaries)

    def observe(self, state: State, params: Params) -> list[jax.Array]:
        agents, landmarks = state.position[: self.num_agents], state.position[self.num_agents :]
        goal = landmarks[state.goal[0]]
        seen = []
        for i in range(self.num_agents):
            around = landmarks - agents[i], others(agents, i) - agents[i]
            seen.append(join(*around) if i < self.num_adversaries else join(goal - agents[i], *around))
        return seen

    def reward(self, state: State, params: Params) -> jax.Array:
        adversaries, count = self.num_adversaries, self.num_agents
        to_goal = distance(state.position[:count], state.position[count:][state.goal[0]])
        good = to_goal[:adversaries].sum() - to_goal[adversaries:].min()
        return rows(-to_goal[:adversaries], jnp.broadcast_to(good, (count - adversaries,)))

    def targets(self, states: State) -> list[tuple[int, np.ndarray]]:
        return [(i, np.asarray(states.goal)[:, 0]) for i in range(self.num_adversaries, self.num_agents)]
