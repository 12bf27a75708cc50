"""Windows of replayed steps with every history of ends, and what slow NumPy makes of them."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np

from jaxrl.acting.rollout import Observation
from jaxrl.algos.off_policy import Batch, Steps

SMALL: dict[str, Any] = {
    "num_envs": 4,
    "num_steps": 4,
    "total_timesteps": 16 * 10,
    "buffer_size": 16 * 4,
    "learning_starts": 32,
    "batch_size": 8,
    "gradient_steps": 4,
    "hidden": (8,),
}
"""A short run with a replay buffer, which learns from the second update on."""


@dataclasses.dataclass(frozen=True)
class Windows:
    """R windows of n + 1 steps of N agents, which may be dead."""

    obs: np.ndarray  # [n + 1, R, N, D]
    action: np.ndarray  # [n + 1, R, N, A]
    reward: np.ndarray  # [n + 1, R, N]
    alive: np.ndarray  # [n + 1, R, N]
    ends: np.ndarray  # [n + 1, R]: "", "terminated" or "truncated"

    @property
    def batch(self) -> Batch:
        """What the buffer would give."""
        observation = Observation(jnp.float32(self.obs), None, None, jnp.asarray(self.alive))
        flags = (jnp.asarray(self.ends == "terminated"), jnp.asarray(self.ends == "truncated"))
        no_reset = jnp.zeros(self.ends.shape, bool)
        return Batch(Steps(observation, no_reset, jnp.float32(self.action), jnp.float32(self.reward), *flags), ())

    @property
    def learned(self) -> list[tuple[int, int]]:
        """The windows and agents whose first step is learned from: unless the clock cut it, or the agent is dead."""
        rows, agents = self.alive.shape[1:]
        every = itertools.product(range(rows), range(agents))
        return [(row, i) for row, i in every if self.alive[0, row, i] and self.ends[0, row] != "truncated"]

    def returns(self, value: np.ndarray, gamma: float) -> list[float]:
        """What the values of `learned` are to become, given `value[t, row, i]` of what is seen in step t.

        All agents are of one team: the dead have their living mates' mean value.
        """
        found = []
        for row, i in self.learned:
            total, factor = 0.0, 1.0
            for t in range(len(self.ends)):
                if t == len(self.ends) - 1 or (t and self.ends[t, row] == "truncated"):
                    living = [value[t, row, j] for j in range(self.alive.shape[2]) if self.alive[t, row, j]]
                    own = value[t, row, i] if self.alive[t, row, i] else np.mean(living) if living else 0.0
                    total += factor * own
                    break
                total += factor * self.reward[t, row, i]
                if self.ends[t, row] == "terminated":
                    break
                factor *= gamma
            found.append(total)
        return found


def windows(n: int, agents: int, obs_size: int, low: np.ndarray, high: np.ndarray) -> Windows:
    """One window for each history of terminated and truncated steps."""
    rng = np.random.default_rng(n)
    histories = list(itertools.product(("", "terminated", "truncated"), repeat=n + 1))
    shape = (n + 1, len(histories), agents)
    action = rng.uniform(low, high, size=(*shape, *low.shape))
    alive = rng.random(shape) < 0.8
    return Windows(
        rng.normal(size=(*shape, obs_size)), action, rng.normal(size=shape), alive, np.array(histories, object).T
    )


def slope(function: Callable[[np.ndarray], Any], at: np.ndarray, step: float = 1e-5) -> np.ndarray:
    """The gradient of a function of an array, by central differences."""
    gradient = np.zeros_like(at)
    for index in np.ndindex(at.shape):
        beyond = np.zeros_like(at)
        beyond[index] = step
        gradient[index] = (function(at + beyond) - function(at - beyond)) / (2 * step)
    return gradient


def first_step(params: Any, gradient: Any, lr: float) -> np.ndarray:
    """Parameters after Adam's first step, whose moments are the gradient and its square."""
    return params - lr * gradient / (np.abs(gradient) + 1e-5)
