"""A many-armed bandit that is new in each episode."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp

from jaxrl.environment import Environment, Step, as_arrays
from jaxrl.envs.batching import same_key, uniform_rows
from jaxrl.envs.memory.cards import one_hot
from jaxrl.envs.memory.draw import draw_bandit
from jaxrl.envs.options import flag, whole
from jaxrl.render.scene import Scene
from jaxrl.spaces import Box, Discrete

__all__ = ["MultiarmedBandit", "Params", "State"]


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Params:
    """The numbers that may vary."""

    max_steps: Any
    lowest: Any = 0.0
    """The least likely that an arm can pay."""
    highest: Any = 1.0
    """The most likely that an arm can pay."""


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class State:
    """A bandit with A arms."""

    chance: jax.Array
    """float32 `[A]`: the probability that each arm pays."""
    paid: jax.Array
    """True if the last pull paid."""
    pulled: jax.Array
    """int32: the arm that was pulled last, -1 before the first pull."""
    step: jax.Array


class MultiarmedBandit(Environment):
    """Find out which arm pays most, and pull it. Equal to POPGym's MultiarmedBandit.

    Observation bool `[1]`: whether the last pull paid; with `observe_action`, also which arm it was, one-hot `[A]`.
    Action Discrete(A): the arm to pull.
    Reward: 1 / T if it pays and -1 / T if not, in episodes of T steps. Never terminated.

    Args:
        num_arms: A.
        max_steps: T.
        observe_action: Whether the observation tells the last pull. Without it, as in POPGym, only a memory that is
            given the last action can learn which arm paid.

    Raises:
        ValueError: An option is out of its range.
    """

    def __init__(self, *, num_arms: int = 10, max_steps: int = 200, observe_action: bool = True) -> None:
        self.num_arms = whole("num_arms", num_arms, 2)
        self._observes_action = flag("observe_action", observe_action)
        self._default_params = as_arrays(Params(whole("max_steps", max_steps)))

    @property
    def default_params(self) -> Params:
        return self._default_params

    def observation_space(self, params: Params | None = None) -> Box:
        return Box(0, 1, (1 + self.num_arms * self._observes_action,), bool)

    def action_space(self, params: Params | None = None) -> Discrete:
        return Discrete(self.num_arms)

    split_key = same_key  # steps and starts draw different rows of a key

    def reset_env(self, key: jax.Array, params: Params) -> tuple[jax.Array, State]:
        draws = uniform_rows(key, self.num_arms, 1)
        chance = params.lowest + (params.highest - params.lowest) * draws
        state = State(chance, jnp.zeros((), bool), jnp.full((), -1, jnp.int32), jnp.zeros((), jnp.int32))
        return self.observation(state), state

    def step_env(self, key: jax.Array, state: State, action: jax.Array, params: Params) -> Step:
        arm = self.action_space().clip(action)
        paid = uniform_rows(key, 1, 0)[0] < jnp.sum(jnp.where(one_hot(arm, self.num_arms), state.chance, 0.0))
        after = State(state.chance, paid, arm, state.step + 1)
        reward = jnp.where(paid, 1.0, -1.0) / params.max_steps
        truncated = after.step >= params.max_steps
        return self.observation(after), after, reward.astype(jnp.float32), jnp.zeros((), bool), truncated, {}

    def observation(self, state: State, params: Params | None = None) -> jax.Array:
        """Bool `[1]`, or `[1 + A]` with the last pull."""
        pulled = one_hot(state.pulled, self.num_arms) if self._observes_action else jnp.zeros(0, bool)
        return jnp.concatenate([state.paid[None], pulled])

    def text(self, state: State, viewer: int = 0, params: Params | None = None) -> str:
        """One state as text, as the player knows it: without the chances, which pictures show."""
        if state.pulled < 0:
            return "No arm was pulled yet."
        return f"Arm {int(state.pulled)} {'paid' if state.paid else 'did not pay'}."

    def draw(self, states: State, params: Params | None = None) -> Scene:
        return draw_bandit(self.name, states)
