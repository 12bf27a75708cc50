"""Probe tasks with one agent, after Andy Jones, "Debugging RL, Without the Agonizing Pain" (2021).

The last ones are for what learns values: returns over several steps, exploration, noise, old experience.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from jaxrl.environment import Step
from jaxrl.envs.probe.base import GAMMA, Case, Probe, Solution, State, coin, outcome
from jaxrl.spaces import Box, Discrete, MultiDiscrete

__all__ = [
    "ActionMask",
    "ActionReward",
    "Chain",
    "ConstantReward",
    "ContinuousAction",
    "Discounting",
    "MemoryLeak",
    "MemoryRecall",
    "MultiDiscreteAction",
    "ObservationAction",
    "ObservationReward",
    "OffPolicy",
    "Overestimation",
    "Stale",
    "Truncation",
]


class ConstantReward(Probe):
    """One step, reward 1 regardless of observation and action. If the value is not 1, the value loss is wrong.

    Observation: `[0]`. Action: Discrete(2), without effect. Reward: 1.
    """

    intended = ("same_start",)
    solution = Solution((Case((0.0,), value=1.0),))

    def advance(self, key: jax.Array, state: State, action: jax.Array) -> Step:
        return outcome(self, state, reward=1.0, terminated=True)


class ObservationReward(Probe):
    """One step, the reward is the observation. If only this fails, gradients do not reach the observation's encoder.

    Observation: `[-1]` or `[1]`, drawn. Action: Discrete(2), without effect. Reward: the observation.
    """

    solution = Solution((Case((-1.0,), value=-1.0), Case((1.0,), value=1.0)))

    def new_cue(self, key: jax.Array) -> jax.Array:
        return coin(key)

    def see(self, state: State) -> jax.Array:
        return state.cue[None]

    def advance(self, key: jax.Array, state: State, action: jax.Array) -> Step:
        return outcome(self, state, reward=state.cue, terminated=True)


class Discounting(Probe):
    """Two steps, reward 1 at the end of the second. If only this fails, returns are discounted wrongly.

    Observation: `[0]`, then `[1]`. Action: Discrete(2), without effect. Reward: 0, then 1.
    """

    intended = ("same_start",)
    observation_bounds = (0.0, 1.0)
    solution = Solution((Case((0.0,), value=GAMMA), Case((1.0,), value=1.0)))

    def see(self, state: State) -> jax.Array:
        return jnp.minimum(state.step, 1)[None].astype(jnp.float32)

    def advance(self, key: jax.Array, state: State, action: jax.Array) -> Step:
        last = state.step >= 1
        return outcome(self, state, reward=jnp.where(last, 1.0, 0.0), terminated=last)


class ActionReward(Probe):
    """One step, the action determines the reward. If only this fails, the policy's update is wrong.

    Observation: `[0]`. Action: Discrete(2). Reward: 1 for action 1, -1 for action 0.
    """

    intended = ("same_start",)
    solution = Solution((Case((0.0,), value=1.0, action=1),))

    def advance(self, key: jax.Array, state: State, action: jax.Array) -> Step:
        return outcome(self, state, reward=jnp.where(action == 1, 1.0, -1.0), terminated=True)


class ObservationAction(Probe):
    """One step, the right action depends on the observation. If only this fails, rows of a batch are mixed up.

    Observation: `[-1]` or `[1]`, drawn. Action: Discrete(2). Reward: 1 for action 0 on -1 and action 1 on 1, else -1.
    """

    solution = Solution((Case((-1.0,), value=1.0, action=0), Case((1.0,), value=1.0, action=1)))

    def new_cue(self, key: jax.Array) -> jax.Array:
        return coin(key)

    def see(self, state: State) -> jax.Array:
        return state.cue[None]

    def advance(self, key: jax.Array, state: State, action: jax.Array) -> Step:
        right = (action == 1) == (state.cue > 0)
        return outcome(self, state, reward=jnp.where(right, 1.0, -1.0), terminated=True)


class Truncation(Probe):
    """An endless task, reward 1 per step, cut by the clock every 5 steps. If only this fails, a cut counts as an end.

    Observation: `[0]`. Action: Discrete(2), without effect. Reward: 1. Value 1 / (1 - gamma) = 2 at gamma 0.5; an
    algorithm that treats the cut as an end learns 2 (1 - 0.5^k) with k steps to go, on average 1.61.
    """

    intended = ("same_start",)
    limit = 5
    solution = Solution((Case((0.0,), value=1.0 / (1.0 - 0.5)),), gamma=0.5)

    def advance(self, key: jax.Array, state: State, action: jax.Array) -> Step:
        return outcome(self, state, reward=1.0, terminated=False, truncated=state.step + 1 >= self.limit)


class MemoryRecall(Probe):
    """A cue is shown and must be named three steps later. Without memory, the best mean reward is 0.

    Observation: `[cue, t / 3]`, the cue -1 or 1 in the first step and 0 later. Action: Discrete(2); only the last one
    counts. Reward: 1 in the last step for action 1 after cue 1 or action 0 after cue -1, else -1; 0 before.
    """

    observation_size = 2
    delay = 3
    solution = Solution(
        (
            Case((-1.0, 0.0), value=GAMMA**3),
            Case((1.0, 0.0), value=GAMMA**3),
            Case((0.0, 1 / 3), value=GAMMA**2),
            Case((0.0, 2 / 3), value=GAMMA),
            Case((0.0, 1.0), value=1.0),
        ),
        score=1.0,
        score_without_memory=0.0,
    )

    def new_cue(self, key: jax.Array) -> jax.Array:
        return coin(key)

    def see(self, state: State) -> jax.Array:
        shown = jnp.where(state.step == 0, state.cue, 0.0)
        return jnp.stack([shown, jnp.minimum(state.step, self.delay).astype(jnp.float32) / self.delay])

    def advance(self, key: jax.Array, state: State, action: jax.Array) -> Step:
        last = state.step >= self.delay
        right = (action == 1) == (state.cue > 0)
        return outcome(self, state, reward=jnp.where(last, jnp.where(right, 1.0, -1.0), 0.0), terminated=last)


class MemoryLeak(Probe):
    """Name, at every step, the cue that *this* episode began with, or say that there was none.

    An episode continues with probability 1/2 after every step, and one without a cue looks just like a continuation of
    the previous one. So memory that survives a reset costs reward, and no amount of training can regain it.

    Observation: `[cue]` in the first step: -1, 0 (none) or 1, equally often; `[0]` later. Action: Discrete(3), cue + 1.
    Reward: 1 if right, else -1. Value 1 / (1 - gamma / 2) everywhere.
    """

    go_on = 0.5
    solution = Solution(
        tuple(Case((cue,), value=1.0 / (1.0 - GAMMA * 0.5)) for cue in (-1.0, 0.0, 1.0)),
        score=2.0,
        score_without_memory=2 / 3,
        score_if_leaking=2 * (2 * 43 / 54 - 1),
    )

    def action_space(self, params: None = None) -> Discrete:
        return Discrete(3)

    def new_cue(self, key: jax.Array) -> jax.Array:
        return jax.random.randint(key, (), -1, 2, jnp.int32).astype(jnp.float32)

    def see(self, state: State) -> jax.Array:
        return jnp.where(state.step == 0, state.cue, 0.0)[None]

    def advance(self, key: jax.Array, state: State, action: jax.Array) -> Step:
        right = action == state.cue.astype(jnp.int32) + 1
        ends = ~jax.random.bernoulli(key, jnp.float32(self.go_on))
        return outcome(self, state, reward=jnp.where(right, 1.0, -1.0), terminated=ends)


class ContinuousAction(Probe):
    """One step, the action must equal half the observation. If only this fails, the Gaussian policy is wrong.

    Observation: `[-1]` or `[1]`, drawn. Action: Box(-1, 1, [1]). Reward: 1 - (action - observation / 2)^2.
    """

    solution = Solution((Case((-1.0,), value=1.0, action=(-0.5,)), Case((1.0,), value=1.0, action=(0.5,))))

    def action_space(self, params: None = None) -> Box:
        return Box(-1.0, 1.0, (1,))

    def new_cue(self, key: jax.Array) -> jax.Array:
        return coin(key)

    def see(self, state: State) -> jax.Array:
        return state.cue[None]

    def advance(self, key: jax.Array, state: State, action: jax.Array) -> Step:
        miss = action[0] - 0.5 * state.cue
        return outcome(self, state, reward=1.0 - miss * miss, terminated=True)


class MultiDiscreteAction(Probe):
    """One step, two choices: the first follows the observation, the second is always 2.

    Observation: `[-1]` or `[1]`, drawn. Action: MultiDiscrete([2, 3]). Reward: 0.5 for each right choice.
    """

    solution = Solution((Case((-1.0,), value=1.0, action=(0, 2)), Case((1.0,), value=1.0, action=(1, 2))))

    def action_space(self, params: None = None) -> MultiDiscrete:
        return MultiDiscrete((2, 3))

    def new_cue(self, key: jax.Array) -> jax.Array:
        return coin(key)

    def see(self, state: State) -> jax.Array:
        return state.cue[None]

    def advance(self, key: jax.Array, state: State, action: jax.Array) -> Step:
        right = jnp.stack([(action[0] == 1) == (state.cue > 0), action[1] == 2])
        return outcome(self, state, reward=0.5 * right.astype(jnp.float32).sum(), terminated=True)


class ActionMask(Probe):
    """One step, the action with the highest reward is masked. If the value exceeds 1, the policy ignores the mask.

    Observation: `[0]`. Action: Discrete(3), of which 2 is masked. Reward: -1, 1 and, if chosen despite the mask, 10.
    """

    intended = ("same_start", "forbidden_actions")
    solution = Solution((Case((0.0,), value=1.0, action=1),), never=(2,))

    def action_space(self, params: None = None) -> Discrete:
        return Discrete(3)

    def action_mask(self, state: State, params: None = None) -> jax.Array:
        """Bool `[3]`: all but the last."""
        return jnp.asarray([True, True, False])

    def advance(self, key: jax.Array, state: State, action: jax.Array) -> Step:
        return outcome(
            self, state, reward=jnp.asarray(np.array([-1.0, 1.0, 10.0], np.float32))[action], terminated=True
        )


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
