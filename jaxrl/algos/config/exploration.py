"""Epsilon-greedy exploration: the greedy action, and a falling share of random ones."""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar

import jax
import jax.numpy as jnp

from jaxrl.algos.config.hyperparams import HyperparamsLayer
from jaxrl.algos.config.run import instead
from jaxrl.checked import SHARE, Allowed
from jaxrl.environment import Environment
from jaxrl.rl.annealing import ramp
from jaxrl.rl.value import GreedyValue
from jaxrl.source_file import algorithm_name
from jaxrl.spaces import Box, Discrete

__all__ = ["ExplorationLayer"]

_NEGLIGIBLE = 0.005
"""A change in the share of random actions that is too small to mention."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class ExplorationLayer(HyperparamsLayer):
    """How an algorithm that learns the values of actions explores."""

    eps_start: float = 1.0
    """Share of random actions at the beginning of the run."""
    eps_finish: float = 0.05
    """Share of random actions once it has decreased."""
    eps_decay: float = 0.2
    """Share of the run in which it decreases, linearly."""

    allowed: ClassVar[dict[str, Allowed]] = dict.fromkeys(("eps_start", "eps_finish", "eps_decay"), SHARE)

    @property
    def value(self) -> GreedyValue:
        """What the network predicts."""
        return GreedyValue()

    def epsilon(self, h: Any, update: jax.Array) -> jax.Array:
        """The share of random actions in an update, given the number of updates before."""
        return ramp(h.eps_start, h.eps_finish, h.eps_decay, update, self.num_updates)

    def lengthened(self, shorter: ExplorationLayer, update: int) -> list[str]:
        """What the user should know when a run is made longer, one sentence each.

        Args:
            shorter: The configuration that the run had before.
            update: Updates done before.
        """
        then, now = (float(c.epsilon(c.annealed(c.hyperparams, update), jnp.int32(update))) for c in (shorter, self))
        if abs(now - then) < _NEGLIGIBLE:
            return []
        return [f"Exploration goes back from {then:.2g} to {now:.2g}, since it is spread over the longer run."]

    def make_env(self) -> Environment:
        """The environment that `env` names.

        Raises:
            ValueError: There is none, or a field makes no sense in it.
            TypeError: Its actions are not discrete.
        """
        env = super().make_env()
        space, name = env.action_space(), algorithm_name(type(self))
        if not isinstance(space, Discrete):
            others = instead(env, *(("sac", "td3") if isinstance(space, Box) else ()))
            raise TypeError(f"{self.env} has actions in {space}, and {name} needs Discrete ones; use {others}.")
        return env
