"""The scenarios in which agents only help each other: simple, spread, reference, speaker and listener.

All are from Lowe et al. (2017).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxrl.entities import Group
from jaxrl.envs.mpe.env import ActionType, ParticleEnv
from jaxrl.envs.mpe.features import identities, join, nearest, others, teams_of, touches
from jaxrl.envs.mpe.physics import distance
from jaxrl.envs.mpe.world import Agent, Landmark, Params, State, World
from jaxrl.envs.options import part, whole

__all__ = ["Simple", "SimpleReference", "SimpleSpeakerListener", "SimpleSpread"]


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


class Rules(NamedTuple):
    local_ratio: Any
    """The share of the reward for the agent itself, or for the one that it instructs; the rest is the team's."""


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
        collisions = touches(agents, size, agents, size) - (size > 0)  # every agent with a size touches itself
        return -ratio * collisions - (1 - ratio) * nearest(landmarks, agents).sum()


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


class SimpleSpeakerListener(ParticleEnv):
    """The speaker, who cannot move, tells the listener which landmark to go to.

    Args:
        num_landmarks: Landmarks; each is known by a colour of as many numbers.
        num_words: Words of the language.
        action_type: `"discrete"` or `"continuous"`.
        max_steps: Steps per episode.

    The speaker sees: the colour of the goal. The listener: its velocity, the landmarks from where it is, what the
    speaker said.
    Reward of both: minus the squared distance of the listener to the goal.

    `state.goal`: the index of the goal among the landmarks.
    """

    def __init__(
        self,
        *,
        num_landmarks: int = 3,
        num_words: int = 3,
        action_type: ActionType = "discrete",
        max_steps: int = 25,
    ) -> None:
        count = whole("num_landmarks", num_landmarks)
        speaker = Agent("speaker_0", size=0.075, collides=False, moves=False, words=whole("num_words", num_words))
        listener = Agent("listener_0", size=0.075, collides=False)
        self._colors = identities(count, 0.15, 0.65)
        world = World([speaker, listener], landmarks=[Landmark(size=0.04)] * count)
        super().__init__(world, action_type=action_type, max_steps=max_steps, choices=(count,))

    @property
    def teams(self) -> tuple[int, ...]:
        """Both agents share their reward."""
        return teams_of(self.num_agents)

    def observe(self, state: State, params: Params) -> list[jax.Array]:
        listener, landmarks = state.position[1], state.position[2:]
        color = jnp.asarray(self._colors)[state.goal[0]]
        return [join(color), join(state.velocity[1], landmarks - listener, state.message)]

    def reward(self, state: State, params: Params) -> jax.Array:
        off = jnp.square(state.position[1] - state.position[2:][state.goal[0]]).sum()
        return jnp.broadcast_to(-off, (2,))

    def targets(self, states: State) -> list[tuple[int, np.ndarray]]:
        return [(1, np.asarray(states.goal)[:, 0])]
