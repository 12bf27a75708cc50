"""Who acts for the other agents: the policy of a run, for all of them or for those it was trained for, or rules."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import jax
import numpy as np

from jaxrl.deploy.policy import Policy
from jaxrl.environment import Script

__all__ = ["ByRules", "ForSome", "Partner"]


class Partner(Protocol):
    """Chooses the actions of all N agents; the person's is not taken."""

    def reset(self, seed: int = 0) -> Any:
        """Forget the last game."""

    def predict(self, obs: Any, *, action_mask: Any = None, greedy: bool = True) -> Any:
        """Actions `[N]` for observations `[N, D]` and masks bool `[N, A]`."""


class ForSome:
    """The policy of a run that was trained for some of the agents.

    Args:
        policy: It acts for n agents.
        agents: Their indices, `[n]`.
    """

    def __init__(self, policy: Policy, agents: Sequence[int]) -> None:
        self._policy, self._agents = policy, np.array(agents)

    def reset(self, seed: int = 0) -> None:
        """Forget the last game."""
        self._policy.reset(seed)

    def predict(self, obs: Any, *, action_mask: Any = None, greedy: bool = True) -> np.ndarray:
        """Actions `[N]`; those of other agents are 0."""
        mask = None if action_mask is None else action_mask[self._agents]
        actions = np.zeros(len(obs), np.int32)
        actions[self._agents] = self._policy.predict(obs[self._agents], action_mask=mask, greedy=greedy)
        return actions


class ByRules:
    """An environment's `scripted_policy`."""

    def __init__(self, script: Script) -> None:
        self._script = jax.jit(script)
        self.reset()

    def reset(self, seed: int = 0) -> None:
        """Begin the draws of another game."""
        self._key = jax.random.key(seed)

    def predict(self, obs: Any, *, action_mask: Any = None, greedy: bool = True) -> np.ndarray:
        """Actions `[N]`; rules draw where they do not decide, whether greedy or not."""
        self._key, key = jax.random.split(self._key)
        return np.asarray(self._script(obs, action_mask, key))
