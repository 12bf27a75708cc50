"""Probe tasks for what learns values: returns over several steps, exploration, noise, old experience."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from jaxrl.environment import Step
from jaxrl.envs.probe.base import GAMMA, Case, Probe, Solution, State, coin, outcome
from jaxrl.spaces import Discrete

__all__ = ["Chain", "OffPolicy", "Overestimation", "Stale"]


class Chain(Probe):
    """Six steps, reward 1 at the end. If `discounting` passes and this fails, returns over n steps are wrong.

    Observation: `[t / 6]`. Action: Discrete(2), without effect. Reward: 0, then 1. Value gamma^k with k steps to go:
    what discounts a value only once, however many steps lie before it, learns too much.
    """

    intended = ("same_start",)
    observation_bounds = (0.0, 1.0)
    length = 6
    solution = Solution(tuple(Case((t / 6,), value=GAMMA ** (5 - t)) for t in range(6)))

    def see(self, state: State) -> jax.Array:
        return jnp.minimum(state.step, self.length)[None].astype(jnp.float32) / self.length

    def advance(self, key: jax.Array, state: State, action: jax.Array) -> Step:
        last = state.step + 1 >= self.length
        return outcome(self, state, reward=jnp.where(last, 1.0, 0.0), terminated=last)


class OffPolicy(Probe):
    """A safe reward of 0.5 now, or a step further, where the right action brings 1 and the wrong one -1.

    Values of the best policy say to go on, and those of one that acts at random to stay. So what learns while it
    explores, and takes its values from what it did instead of what is best, stays.

    Observation: `[0]`, then `[1]`. Action: Discrete(2): 0 to stay, 1 to go on; then 1 is right.
    """

    intended = ("same_start",)
    observation_bounds = (0.0, 1.0)
    solution = Solution((Case((0.0,), value=GAMMA, action=1), Case((1.0,), value=1.0, action=1)), score=1.0)

    def see(self, state: State) -> jax.Array:
        return jnp.minimum(state.step, 1)[None].astype(jnp.float32)

    def advance(self, key: jax.Array, state: State, action: jax.Array) -> Step:
        goes_on = (state.step == 0) & (action == 1)
        reward = jnp.where(state.step == 0, jnp.where(action == 0, 0.5, 0.0), jnp.where(action == 1, 1.0, -1.0))
        return outcome(self, state, reward=reward, terminated=~goes_on)


class Overestimation(Probe):
    """Two steps, the second pays -1 or 1 at random whatever one of ten actions is chosen.

    All values are 0. The largest of ten noisy estimates is not, so what takes it for the value of the first step
    learns too much; double Q-learning learns less of it (van Hasselt 2010,
    https://papers.nips.cc/paper/3964-double-q-learning).

    Observation: `[0]`, then `[1]`. Action: Discrete(10), without effect. Reward: 0, then -1 or 1, drawn.
    """

    intended = ("same_start",)
    observation_bounds = (0.0, 1.0)
    solution = Solution((Case((0.0,), value=0.0), Case((1.0,), value=0.0)))

    def action_space(self, params: None = None) -> Discrete:
        return Discrete(10)

    def see(self, state: State) -> jax.Array:
        return jnp.minimum(state.step, 1)[None].astype(jnp.float32)

    def advance(self, key: jax.Array, state: State, action: jax.Array) -> Step:
        last = state.step >= 1
        return outcome(self, state, reward=jnp.where(last, coin(key), 0.0), terminated=last)


class Stale(Probe):
    """One step; halfway through the training, the reward changes its sign. What remembers too long learns the mean, 0.

    Observation: `[0]`. Action: Discrete(2). Reward: 1 for action 1 and -1 for action 0, times the parameter, which is 1
    in the first half of the training and -1 in the second, and by default.
    """

    intended = ("same_start",)
    solution = Solution((Case((0.0,), value=1.0, action=0),))

    @property
    def default_params(self) -> np.ndarray:
        """The sign of the reward, float32 `[]`."""
        return np.array(-1.0, np.float32)

    def params_at(self, progress: jax.Array) -> jax.Array:
        return jnp.where(progress < 0.5, jnp.float32(1.0), jnp.float32(-1.0))

    def step_env(self, key: jax.Array, state: State, action: jax.Array, params: jax.Array) -> Step:
        reward = params * jnp.where(self.action_space().clip(action) == 1, 1.0, -1.0)
        return outcome(self, state, reward=reward, terminated=True)
