"""The scenarios with an opponent: adversary, crypto, push. All are from Lowe et al. (2017)."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from jaxrl.envs.mpe.env import ActionType, ParticleEnv
from jaxrl.envs.mpe.features import identities, join, others, rows, teams_of
from jaxrl.envs.mpe.physics import distance
from jaxrl.envs.mpe.world import Agent, Landmark, Params, State, World
from jaxrl.envs.options import whole

__all__ = ["SimpleAdversary", "SimpleCrypto", "SimplePush"]


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
