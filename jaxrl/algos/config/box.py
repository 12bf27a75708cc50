"""The configuration of algorithms that learn continuous actions, and their values, from a replay buffer."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, ClassVar, Literal

import jax
import jax.numpy as jnp

from jaxrl.algos.config.learning import BinsLayer
from jaxrl.algos.config.network import ActivationName, beside_own_critics
from jaxrl.algos.config.replay import ReplayLayer
from jaxrl.algos.config.run import SharingLayer, instead
from jaxrl.checked import COUNT, SIZES, Allowed, Effect
from jaxrl.environment import Environment
from jaxrl.nn.heads import spanned
from jaxrl.rl.value import C51, HLGauss, ScalarValue
from jaxrl.source_file import algorithm_name
from jaxrl.spaces import Box, Discrete
from jaxrl.wrappers import as_multi_agent

__all__ = ["BoxLayer"]

_NO_MEMORY = Allowed(lambda memory: memory == "none", "be none: actor and critics see single steps; dqn has a memory")


_BINS: dict[str, type[HLGauss | C51]] = {"hlgauss": HLGauss, "c51": C51}


def _has_global_state(_: Any, env: Callable[[], Environment]) -> bool:
    return as_multi_agent(env()).has_global_state


@dataclasses.dataclass(frozen=True, kw_only=True)
class BoxLayer(SharingLayer, BinsLayer, ReplayLayer):
    """An actor that chooses points of a box, and critics that value them."""

    activation: ActivationName = "relu"
    max_grad_norm: float = 10.0
    tau: float = 0.01
    num_critics: int = 2
    """K, the critics, which differ only in their initial weights."""
    critic_hidden: tuple[int, ...] = ()
    """Layers of the critics; () means those of hidden."""
    central_critic: bool = False
    """Let the critics see the global state besides the agent's own observation."""
    value_loss: Literal["mse", "hlgauss", "c51"] = "mse"
    """Loss of a value: half the square of its error (mse), or a cross-entropy, where a value is a distribution over 51
    bins: hlgauss spreads the return around its mean, c51 learns the distribution of returns."""
    pessimism: Literal["min", "mean"] = "min"
    """How the critics' values of an action are combined: the smallest, or their mean; of distributions, the one with
    the smallest mean, or their mixture."""
    policy_delay: int = 1
    """Optimiser steps of the critics for each step of the actor."""

    allowed: ClassVar[dict[str, Allowed]] = {
        **dict.fromkeys(("num_critics", "policy_delay"), COUNT),
        "critic_hidden": SIZES,
        "memory": _NO_MEMORY,
    }
    effects: ClassVar[tuple[Effect, ...]] = (
        Effect("central_critic", ("env",), _has_global_state, "choose an environment with a global state"),
        Effect("pessimism", ("num_critics",), lambda c, _: c.num_critics > 1, "choose num_critics=2"),
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        self.check_divisible("gradient_steps", "policy_delay")

    @property
    def beside_network(self) -> tuple[str, ...]:
        """See `NetworkLayer.beside_network`; critics keep their own torsos."""
        return beside_own_critics(self.critic_hidden)

    @property
    def value(self) -> ScalarValue | HLGauss | C51:
        """What the critics predict."""
        return _BINS[self.value_loss](*self.value_range) if self.value_loss in _BINS else ScalarValue()

    def joint(self, q: jax.Array) -> jax.Array:
        """The values `q[..., K]` of all critics, combined: `[...]`."""
        return q.min(axis=-1) if self.pessimism == "min" else q.mean(axis=-1)

    def joint_distribution(self, logits: jax.Array) -> jax.Array:
        """The distributions `logits[..., K, num_bins]` of all critics, combined: probabilities `[..., num_bins]`."""
        probabilities = jax.nn.softmax(logits)
        if self.pessimism == "mean":
            return probabilities.mean(axis=-2)
        least = self.value.decode(logits).argmin(axis=-1)[..., None, None]
        return jnp.take_along_axis(probabilities, least, axis=-2)[..., 0, :]

    def make_env(self) -> Environment:
        """The environment that `env` names.

        Raises:
            ValueError: There is none, its box is not finite, or a field makes no sense in it.
            TypeError: Its actions are not in a `Box`.
        """
        env = super().make_env()
        space, name = env.action_space(), algorithm_name(type(self))
        if not isinstance(space, Box):
            others = instead(env, *(("dqn",) if isinstance(space, Discrete) else ()))
            raise TypeError(f"{self.env} has actions in {space}, and {name} needs those of a Box; use {others}.")
        if not spanned(space).all():
            raise ValueError(
                f"{self.env} has actions in {space}, and {name} needs finite bounds that differ; use {instead(env)}."
            )
        return env
