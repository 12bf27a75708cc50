"""The configuration of algorithms that learn continuous actions, and their values, from a replay buffer."""

from __future__ import annotations

import dataclasses
from typing import ClassVar, Literal

import jax
import numpy as np

from jaxrl.algos.layers import ActivationName, SharingLayer
from jaxrl.algos.replay_config import ReplayLayer
from jaxrl.checked import COUNT, SIZES, Allowed
from jaxrl.environment import Environment
from jaxrl.nn.heads import bounds_of
from jaxrl.rl.value import ScalarValue
from jaxrl.spaces import Box

__all__ = ["BoxLayer"]

_NO_MEMORY = Allowed(lambda memory: memory == "none", "be none: actor and critics see single steps; dqn has a memory")


@dataclasses.dataclass(frozen=True, kw_only=True)
class BoxLayer(SharingLayer, ReplayLayer):
    """An actor that chooses points of a box, and critics that value them."""

    activation: ActivationName = "relu"
    max_grad_norm: float = 10.0
    tau: float = 0.01
    num_critics: int = 2
    """K, the critics, which differ only in their initial weights."""
    critic_hidden: tuple[int, ...] = ()
    """Layers of the critics; () means those of hidden."""
    pessimism: Literal["min", "mean"] = "min"
    """What the critics' values of an action amount to: the smallest, or their mean."""
    policy_delay: int = 1
    """Optimiser steps of the critics for each one of the actor."""

    allowed: ClassVar[dict[str, Allowed]] = {
        **dict.fromkeys(("num_critics", "policy_delay"), COUNT),
        "critic_hidden": SIZES,
        "memory": _NO_MEMORY,
    }

    def __post_init__(self) -> None:
        super().__post_init__()
        self.check_divisible("gradient_steps", "policy_delay")

    @property
    def value(self) -> ScalarValue:
        """What the critics predict."""
        return ScalarValue()

    def joint(self, q: jax.Array) -> jax.Array:
        """What the values `q[..., K]` of all critics amount to, `[...]`."""
        return q.min(axis=-1) if self.pessimism == "min" else q.mean(axis=-1)

    def make_env(self) -> Environment:
        """The environment that `env` names.

        Raises:
            ValueError: There is none, its box is not finite, or a field makes no sense in it.
            TypeError: Its actions are in no box.
        """
        env = super().make_env()
        space, name = env.action_space(), type(self).__module__.rpartition(".")[2]
        if not isinstance(space, Box):
            raise TypeError(
                f"{self.env} has actions in {space}, and {name} needs those of a Box; use dqn, ppo or ippo."
            )
        low, high = bounds_of(space)
        if not np.all(np.isfinite(low) & np.isfinite(high) & (low < high)):
            raise ValueError(
                f"{self.env} has actions in {space}, and {name} needs finite bounds that differ; use ppo or ippo."
            )
        return env
