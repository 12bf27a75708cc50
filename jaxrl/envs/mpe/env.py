"""The environment around every scenario of the particle world."""

from __future__ import annotations

import dataclasses
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np

from jaxrl.entities import Entities, Group
from jaxrl.environment import MultiAgentEnvironment, Step
from jaxrl.envs.mpe import physics
from jaxrl.envs.mpe.draw import draw
from jaxrl.envs.mpe.features import join
from jaxrl.envs.mpe.world import Params, State, World, default_params
from jaxrl.envs.options import one_of, whole
from jaxrl.keys import abstract_key
from jaxrl.render.scene import Scene
from jaxrl.spaces import Box, Discrete, Space

__all__ = ["ActionType", "ParticleEnv"]

ActionType = Literal["discrete", "continuous"]

_REACHES = (0.3, 1.0)  # two agents of the usual size touch; half the width of the square in which they begin


class ParticleEnv(MultiAgentEnvironment):
    """A particle world. A scenario gives its `World` and writes `observe` and `reward`, and `script` if it has one.

    Args:
        world: The bodies.
        action_type: `"discrete"` or `"continuous"`, see `physics.space_of`.
        max_steps: Steps after which an episode is truncated; it never ends otherwise.
        rules: The default of `params.rules`, the numbers of the scenario's own rules.
        choices: The number of possible values of each number drawn into `state.goal`.
    """

    intended = ("unused_params",)  # all worlds have the same physics: contact forces are unused if nothing collides

    def __init__(
        self,
        world: World,
        *,
        action_type: ActionType,
        max_steps: int,
        rules: Any = None,
        choices: tuple[int, ...] = (),
    ) -> None:
        self.world = world
        self.choices = choices
        self.action_type = one_of("action_type", action_type, ("discrete", "continuous"))
        self.agents = tuple(agent.name for agent in world.agents)
        self.action_names = physics.action_names(world)
        self._default_params = default_params(world, rules, whole("max_steps", max_steps))
        state = jax.eval_shape(self._start, abstract_key(), self._default_params)
        self._sizes = [vector.shape[0] for vector in jax.eval_shape(self.observe, state, self._default_params)]

    # What a scenario writes.

    def observe(self, state: State, params: Params) -> list[jax.Array]:
        """The observations of the N agents: float32 vectors, which may differ in length."""
        raise NotImplementedError

    def reward(self, state: State, params: Params) -> jax.Array:
        """The rewards for the state after a step, float32 `[N]`."""
        raise NotImplementedError

    def script(self, key: jax.Array, state: State, params: Params) -> jax.Array:
        """The force of each scripted agent, float32 `[P - N, 2]`. Consumes `key`."""
        return jnp.zeros((len(self.world.scripted), 2), jnp.float32)

    def groups(self) -> tuple[Group, ...]:
        """The entities that every agent sees at the same place of its observation; the rest counts as its own."""
        return ()

    def targets(self, states: State) -> list[tuple[int, np.ndarray]]:
        """For pictures: (agent, the landmark it should go to in each frame `[F]`), from NumPy leaves `[F, …]`."""
        return []

    def facts(self, states: State) -> np.ndarray | str:
        """For pictures: additional text for each frame, one text or `[F]` of them, from NumPy leaves `[F, …]`."""
        return ""

    # The contract.

    @property
    def default_params(self) -> Params:
        return self._default_params

    def observation_space(self, params: Params | None = None) -> Box:
        return Box(-np.inf, np.inf, (max(self._sizes),))

    @property
    def agent_observation_spaces(self) -> dict[str, Space]:
        return {agent: Box(-np.inf, np.inf, (size,)) for agent, size in zip(self.agents, self._sizes, strict=True)}

    @property
    def entities(self) -> Entities | None:
        groups = tuple(group for group in self.groups() if group.count)
        return Entities(max(self._sizes), groups, reaches=_REACHES) if groups else None

    def action_space(self, params: Params | None = None) -> Space:
        return physics.widest(self.world, self.action_type)

    @property
    def agent_action_spaces(self) -> dict[str, Space]:
        return {agent.name: physics.space_of(agent, self.action_type) for agent in self.world.agents}

    def reset_env(self, key: jax.Array, params: Params) -> tuple[jax.Array, State]:
        state = self._start(key, params)
        return self._observe(state, params), state

    def step_env(self, key: jax.Array, state: State, action: jax.Array, params: Params) -> Step:
        force = self.script(key, state, params)
        state = self.advance(state, action, force, params)
        truncated = state.step >= params.max_steps
        obs, reward = self._observe(state, params), self.reward(state, params)
        return obs, state, reward, jnp.zeros_like(truncated), truncated, {}

    @property
    def has_action_mask(self) -> bool:
        """True if actions are discrete."""
        return self.action_type == "discrete"

    def action_mask(self, state: State, params: Params | None = None) -> jax.Array:
        """Bool `[N, A]`: each agent's own actions, in any state."""
        if self.action_type == "continuous":
            raise TypeError("Continuous actions have no mask; make the environment with action_type='discrete'.")
        own = [space.n for space in self.agent_action_spaces.values() if isinstance(space, Discrete)]
        return jnp.asarray(np.arange(max(own)) < np.array(own)[:, None])

    def global_state(self, state: State, params: Params | None = None) -> jax.Array:
        """float32 `[2 E + 2 P + S W + sum of choices]`: positions, velocities, messages, and the goals one-hot."""
        goals = [jax.nn.one_hot(state.goal[i], n, dtype=jnp.float32) for i, n in enumerate(self.choices)]
        return join(state.position, state.velocity, state.message, *goals)

    def draw(self, states: State, params: Params | None = None) -> Scene:
        return draw(self, states, self._params(params))

    # What happens in a step.

    def advance(self, state: State, action: jax.Array, scripted: jax.Array, params: Params) -> State:
        """The world one step later, given the agents' `action[N]` (or `[N, A]`) and the scripted agents' force."""
        decode = physics.decode_discrete if self.action_type == "discrete" else physics.decode_continuous
        direction, message = decode(self.world, self.action_space(params).clip(action))
        own = direction * params.accel[: len(self.agents), None]
        force = jnp.concatenate([own, scripted]) if self.world.scripted else own
        position, velocity = physics.move(self.world, state.position, state.velocity, force, params)
        return dataclasses.replace(state, position=position, velocity=velocity, message=message, step=state.step + 1)

    def _start(self, key: jax.Array, params: Params) -> State:
        """A new episode: bodies at rest anywhere in their area, goals drawn. Consumes `key`."""
        world, bodies = self.world, len(self.world.bodies)
        draws = jax.random.uniform(key, (2 * bodies + len(self.choices),), jnp.float32)
        choices = np.array(self.choices, np.float32)
        goal = jnp.minimum(draws[2 * bodies :] * choices, choices - 1).astype(jnp.int32)
        return State(
            position=(2 * draws[: 2 * bodies].reshape(bodies, 2) - 1) * params.start[:, None],
            velocity=jnp.zeros((len(world.movers), 2), jnp.float32),
            message=jnp.zeros((len(world.speakers), world.words), jnp.float32),
            goal=goal,
            step=jnp.zeros((), jnp.int32),
        )

    def _observe(self, state: State, params: Params) -> jax.Array:
        """All agents' observations, padded with zeros to the longest: `[N, D]`."""
        longest = max(self._sizes)
        seen = zip(self.observe(state, params), self._sizes, strict=True)
        return jnp.stack([jnp.pad(vector, (0, longest - size)) for vector, size in seen])
