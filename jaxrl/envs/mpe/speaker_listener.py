"""Speaker and listener: one knows where to go and can only speak, the other can only go. Lowe et al. (2017)."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from jaxrl.envs.mpe.env import ActionType, ParticleEnv
from jaxrl.envs.mpe.features import identities, join, teams_of
from jaxrl.envs.mpe.world import Agent, Landmark, Params, State, World
from jaxrl.envs.options import whole

__all__ = ["SimpleSpeakerListener"]


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
