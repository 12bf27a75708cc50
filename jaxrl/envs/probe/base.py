"""The common part of all probe tasks: the state, the solution, and the step around each task's one rule."""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar

import jax
import jax.numpy as jnp

from jaxrl.environment import Environment, MultiAgentEnvironment, Step
from jaxrl.spaces import Box, Discrete, Space

__all__ = ["GAMMA", "Case", "Probe", "Solution", "State", "TeamProbe", "coin", "outcome"]

GAMMA = 0.9  # the discount for which solutions hold, unless they name another


@dataclasses.dataclass(frozen=True)
class Case:
    """The right answer in one situation."""

    observation: tuple[float, ...]
    """The agent's observation."""
    value: float | None = None
    """Expected discounted return under the best policy; `None` if it is not informative."""
    action: int | tuple[float, ...] | None = None
    """The best action; `None` if any will do."""
    agent: int | None = None
    """The agent concerned; `None` for every agent."""
    global_state: tuple[float, ...] | None = None
    """If given, `value` is for a critic that sees this instead of the observation: the environment's global state or,
    without one, all agents' observations side by side."""


@dataclasses.dataclass(frozen=True)
class Solution:
    """The answer to a probe task, against which tests of algorithms compare."""

    cases: tuple[Case, ...]
    gamma: float = GAMMA
    """The discount for which the values hold; train with it."""
    score: float | None = None
    """Undiscounted return per episode under the best policy (mean over agents), if cases alone do not determine it."""
    score_without_memory: float | None = None
    """The score of the best policy without memory."""
    score_if_leaking: float | None = None
    """The score of the best policy whose memory is never cleared."""
    never: tuple[int, ...] = ()
    """Masked actions, which must never be chosen."""


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class State:
    """A probe task's state."""

    step: jax.Array
    """int32, steps since the episode began."""
    cue: jax.Array
    """float32 scalar (or `[N]` in teams): the number drawn at the start, or zero if nothing is drawn."""


class _Rules:
    """A task's own rules, for one agent or a team; tasks override those that differ from the simplest."""

    solution: ClassVar[Solution]
    observation_size: ClassVar[int] = 1
    observation_bounds: ClassVar[tuple[float, float]] = (-1.0, 1.0)

    def new_cue(self, key: jax.Array) -> jax.Array:
        """The cue of a new episode. Consumes `key`."""
        raise NotImplementedError

    def see(self, state: State) -> jax.Array:
        """The observation of `state`."""
        raise NotImplementedError

    def advance(self, key: jax.Array, state: State, action: jax.Array) -> Step:
        """One step with a legal action."""
        raise NotImplementedError

    def observation_space(self, params: Any = None) -> Box:
        return Box(*self.observation_bounds, (self.observation_size,))

    def action_space(self, params: Any = None) -> Space:
        return Discrete(2)

    def reset_env(self, key: jax.Array, params: Any) -> tuple[jax.Array, State]:
        state = State(jnp.zeros((), jnp.int32), jnp.asarray(self.new_cue(key), jnp.float32))
        return self.see(state), state

    def step_env(self, key: jax.Array, state: State, action: jax.Array, params: Any) -> Step:
        return self.advance(key, state, self.action_space(params).clip(action))


class Probe(_Rules, Environment):
    """A task for one agent that takes seconds to learn and fails for one reason; `solution` is its answer."""

    def new_cue(self, key: jax.Array) -> jax.Array:
        return jnp.zeros((), jnp.float32)

    def see(self, state: State) -> jax.Array:
        return jnp.zeros(self.observation_size, jnp.float32)


class TeamProbe(_Rules, MultiAgentEnvironment):
    """A probe task for two agents."""

    agents = ("agent_0", "agent_1")

    def new_cue(self, key: jax.Array) -> jax.Array:
        return jnp.zeros(self.num_agents, jnp.float32)

    def see(self, state: State) -> jax.Array:
        return jnp.zeros((self.num_agents, self.observation_size), jnp.float32)


def coin(key: jax.Array, shape: tuple[int, ...] = ()) -> jax.Array:
    """-1 or 1 with equal probability: float32 of `shape`. Consumes `key`."""
    return jnp.where(jax.random.bernoulli(key, jnp.float32(0.5), shape), jnp.float32(1), jnp.float32(-1))


def outcome(
    env: Probe | TeamProbe,
    state: State,
    *,
    reward: jax.Array | float,
    terminated: jax.Array | bool,
    truncated: jax.Array | bool = False,
) -> Step:
    """The six values of a step that only advances the clock."""
    after = dataclasses.replace(state, step=state.step + 1)
    flags = jnp.asarray(terminated, jnp.bool_), jnp.asarray(truncated, jnp.bool_)
    return env.see(after), after, jnp.asarray(reward, jnp.float32), *flags, {}
