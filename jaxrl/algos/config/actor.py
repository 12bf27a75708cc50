"""The layer of configurations for policies that draw their actions from a distribution."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, ClassVar

from jaxrl.algos.config.run import RunLayer
from jaxrl.checked import Effect
from jaxrl.environment import Environment
from jaxrl.nn.heads import policy_head
from jaxrl.spaces import Box

__all__ = ["ActorLayer"]


def _is_continuous(_: Any, env: Callable[[], Environment]) -> bool:
    return isinstance(env().action_space(), Box)


@dataclasses.dataclass(frozen=True, kw_only=True)
class ActorLayer(RunLayer):
    """Fields of every algorithm whose policy may be a distribution over continuous actions."""

    squash: bool = False
    """Keep continuous actions within bounds by tanh, instead of letting the environment clip them."""

    effects: ClassVar[tuple[Effect, ...]] = (
        Effect("squash", ("env",), _is_continuous, "choose an environment with continuous actions"),
    )

    def make_env(self) -> Environment:
        """The environment that `env` names.

        Raises:
            ValueError: There is none, or a field has no effect or makes no sense in it; the message says which.
        """
        env = super().make_env()
        policy_head(env.action_space(), squash=self.squash)  # refuses what it cannot make
        return env
