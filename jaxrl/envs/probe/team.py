"""Probe tasks with two agents: credit, roles, the central critic, agents that die, and agents that decide in turn."""

from __future__ import annotations

from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from jaxrl.environment import Step, Symmetries
from jaxrl.envs.probe.base import GAMMA, Case, Solution, State, TeamProbe, coin, outcome
from jaxrl.spaces import Box, Discrete

__all__ = [
    "Credit",
    "Death",
    "Follow",
    "HiddenState",
    "Levers",
    "Lift",
    "Overhear",
    "OverheardBefore",
    "Roles",
    "TwoStep",
]


class Credit(TeamProbe):
    """One step; each agent is rewarded for its own action on its own observation. If agents are mixed up, none learns.

    The first agent should follow its cue, the second oppose its own. The cues are drawn independently; the second
    number identifies the agent, so that agents may share parameters.

    Observation: `[cue, agent]`, the cue -1 or 1, the agent -1 or 1. Action: Discrete(2). Reward `[2]`: 1 if right,
    else -1.
    """

    observation_size = 2
    solution = Solution(
        (
            Case((-1.0, -1.0), value=1.0, action=0, agent=0, global_state=(-1.0, -1.0, 1.0, 1.0)),
            Case((1.0, -1.0), value=1.0, action=1, agent=0, global_state=(1.0, -1.0, -1.0, 1.0)),
            Case((-1.0, 1.0), value=1.0, action=1, agent=1, global_state=(1.0, -1.0, -1.0, 1.0)),
            Case((1.0, 1.0), value=1.0, action=0, agent=1, global_state=(-1.0, -1.0, 1.0, 1.0)),
        )
    )

    def new_cue(self, key: jax.Array) -> jax.Array:
        return coin(key, (2,))

    def see(self, state: State) -> jax.Array:
        return jnp.stack([state.cue, jnp.asarray(np.array([-1.0, 1.0], np.float32))], axis=1)

    def advance(self, key: jax.Array, state: State, action: jax.Array) -> Step:
        wanted = (state.cue > 0) ^ np.asarray([False, True])
        return outcome(self, state, reward=jnp.where((action == 1) == wanted, 1.0, -1.0), terminated=True)


class Roles(TeamProbe):
    """One step; both agents see the same and should do opposite things, so they need separate parameters.

    With all parameters shared (and no agent index added to the observation), the best mean reward is 0.

    Observation: `[0]`. Action: Discrete(2). Reward `[2]`: the first agent gets 1 for action 0, the second for action
    1, else -1.
    """

    intended = ("same_start",)
    solution = Solution((Case((0.0,), value=1.0, action=0, agent=0), Case((0.0,), value=1.0, action=1, agent=1)))

    def advance(self, key: jax.Array, state: State, action: jax.Array) -> Step:
        return outcome(self, state, reward=jnp.where(action == np.arange(2), 1.0, -1.0), terminated=True)


class HiddenState(TeamProbe):
    """One step; the reward is a coin that only the global state shows. Only a central critic can predict it.

    Observation: `[0]`. Global state: `[coin]`, -1 or 1, drawn. Action: Discrete(2), without effect. Reward `[2]`: the
    coin for both. A critic of the observation learns 0, with a squared error of 1; one of the global state has none.
    """

    solution = Solution(
        (
            Case((0.0,), value=-1.0, global_state=(-1.0,)),
            Case((0.0,), value=1.0, global_state=(1.0,)),
        )
    )

    def new_cue(self, key: jax.Array) -> jax.Array:
        return jnp.broadcast_to(coin(key), (2,))

    def global_state(self, state: State, params: None = None) -> jax.Array:
        """float32 `[1]`: the coin."""
        return state.cue[:1]

    def advance(self, key: jax.Array, state: State, action: jax.Array) -> Step:
        return outcome(self, state, reward=state.cue, terminated=True)


class Death(TeamProbe):
    """Four steps for a team reward; the second agent dies after two, and its later actions have no effect.

    Dead agents see the same as all agents at the start, so learning from them spoils the value of the start: about 2.4
    instead of 3.4.

    Observation: `[t / 4]`, 0 when dead. Action: Discrete(2). Reward `[2]`: the mean over the living of 1 for action 1
    and -1 for action 0, the same for both agents, dead or alive. `agent_mask`: who is alive.
    """

    intended = ("same_start",)
    observation_bounds = (0.0, 1.0)
    length, death = 4, 2
    solution = Solution(
        tuple(
            Case((t / 4,), value=sum(GAMMA**k for k in range(4 - t)), action=1, agent=agent)
            for agent, end in ((0, 4), (1, 2))
            for t in range(end)
        ),
        score=4.0,
    )

    @property
    def teams(self) -> tuple[int, ...]:
        return (0, 0)

    def agent_mask(self, state: State, params: None = None) -> jax.Array:
        """Bool `[2]`: the second agent lives for two steps."""
        return (state.step < self.death) | np.asarray([True, False])

    def see(self, state: State) -> jax.Array:
        time = jnp.minimum(state.step, self.length).astype(jnp.float32) / self.length
        return jnp.where(self.agent_mask(state), time, 0.0)[:, None]

    def advance(self, key: jax.Array, state: State, action: jax.Array) -> Step:
        alive = self.agent_mask(state).astype(jnp.float32)
        reward = (alive * jnp.where(action == 1, 1.0, -1.0)).sum() / alive.sum()
        return outcome(self, state, reward=jnp.broadcast_to(reward, (2,)), terminated=state.step + 1 >= self.length)


class TwoStep(TeamProbe):
    """Two steps of a team: the first agent's action chooses a safe game or a risky one, which both play in the second.

    In the safe game, both get 7 whatever they do. The risky one pays 8 if both choose action 1, 1 if one of them does
    and 0 otherwise, which no sum of two values expresses: with exploration at random, VDN expects 6.5 of its best and
    plays safe; QMIX gets 8 (Rashid et al. 2018, https://arxiv.org/abs/1803.11485, section 5).

    Observation: one-hot of first step, safe game, risky game; the global state is the same. Action: Discrete(2).
    Reward `[2]`: 0, then the game's for both.
    """

    intended = ("same_start",)
    observation_size = 3
    observation_bounds = (0.0, 1.0)
    first, safe, risky = (tuple(row) for row in np.eye(3).tolist())
    solution = Solution(
        (
            Case(first, value=8 * GAMMA, action=1, agent=0, global_state=first),
            Case(risky, value=8.0, action=1, global_state=risky),
        ),
        score=8.0,
    )

    @property
    def teams(self) -> tuple[int, ...]:
        return (0, 0)

    def where(self, state: State) -> jax.Array:
        """int32 0 in the first step, then 1 in the safe game and 2 in the risky one."""
        return jnp.where(state.step == 0, 0, jnp.where(state.cue[0] > 0, 2, 1))

    def see(self, state: State) -> jax.Array:
        return jnp.broadcast_to(jax.nn.one_hot(self.where(state), 3, dtype=jnp.float32), (2, 3))

    def global_state(self, state: State, params: None = None) -> jax.Array:
        """float32 `[3]`: what both agents see."""
        return self.see(state)[0]

    def advance(self, key: jax.Array, state: State, action: jax.Array) -> Step:
        payoff = jnp.asarray(np.array([[0.0, 1.0], [1.0, 8.0]], np.float32))[action[0], action[1]]
        place = self.where(state)
        reward = jnp.where(place == 0, 0.0, jnp.where(place == 1, 7.0, payoff))
        chosen = jnp.where(place == 0, action[0].astype(jnp.float32), state.cue[0])
        state = State(state.step, jnp.broadcast_to(chosen, (2,)))
        return outcome(self, state, reward=jnp.broadcast_to(reward, (2,)), terminated=place > 0)


class Levers(TeamProbe):
    """Two agents choose one of ten levers without seeing the other: nine pay 1 if both choose it, the last one 0.9.

    Nothing tells the nine apart, so agents that trained together choose one of them, and fail with others: only the
    last one can be agreed upon without having met (Hu et al. 2020, https://arxiv.org/abs/2003.02979). The symmetries
    rotate the nine.

    Observation: 0. Action: Discrete(10). Reward `[2]`: the lever's for both, or 0.
    """

    intended = ("same_start",)
    equal, least = 9, 0.9
    solution = Solution((Case((0.0,), value=1.0),), score=1.0)

    @property
    def teams(self) -> tuple[int, ...]:
        return (0, 0)

    @property
    def symmetries(self) -> Symmetries:
        """The nine levers' names, rotated."""
        levers = np.arange(self.equal)
        rotated = [[*np.roll(levers, -shift), self.equal] for shift in levers]
        return Symmetries(np.zeros((self.equal, 1), np.int32), np.array(rotated, np.int32))

    def action_space(self, params: Any = None) -> Discrete:
        return Discrete(self.equal + 1)

    def advance(self, key: jax.Array, state: State, action: jax.Array) -> Step:
        paid = jnp.where(action[0] < self.equal, 1.0, self.least)
        reward = jnp.where(action[0] == action[1], paid, 0.0)
        return outcome(self, state, reward=jnp.broadcast_to(reward, (2,)), terminated=True)


class Lift(TeamProbe):
    """One step; two agents lift a weight that both see, and their forces should add up to it.

    A critic of an agent's own action takes the mate for what it was in the buffer. If that was random, on average 0,
    both do all the work, and the reward is 0; one that sees both actions knows what the mate adds now. Half of the work
    each is the answer of agents that share parameters; without them, any division is as good.

    Observation: `[-1]` or `[1]`, drawn, the same for both. Action: Box(-1, 1, [1]). Reward `[2]`: 1 - (the sum of the
    actions - observation)^2 for both.
    """

    solution = Solution((Case((-1.0,), value=1.0, action=(-0.5,)), Case((1.0,), value=1.0, action=(0.5,))), score=1.0)

    @property
    def teams(self) -> tuple[int, ...]:
        return (0, 0)

    def action_space(self, params: None = None) -> Box:
        return Box(-1.0, 1.0, (1,))

    def new_cue(self, key: jax.Array) -> jax.Array:
        return jnp.broadcast_to(coin(key), (2,))

    def see(self, state: State) -> jax.Array:
        return state.cue[:, None]

    def advance(self, key: jax.Array, state: State, action: jax.Array) -> Step:
        miss = action[:, 0].sum() - state.cue
        return outcome(self, state, reward=1.0 - miss * miss, terminated=True)


class Follow(TeamProbe):
    """One step; the mask leaves the first agent one action of four, drawn, and the second one should do the same.

    Nobody observes the mask, so only an agent that knows what the first one does can follow: the best score is 1 for
    agents that decide in turn, and a quarter for all others, whatever they and their critic see.

    Observation: 1. Action: Discrete(4). Reward `[2]`: 1 for both if they do the same, else 0.
    """

    intended = ("forbidden_actions",)
    solution = Solution((Case((1.0,), value=1.0),), score=1.0)

    @property
    def teams(self) -> tuple[int, ...]:
        return (0, 0)

    def action_space(self, params: Any = None) -> Discrete:
        return Discrete(4)

    def action_mask(self, state: State, params: None = None) -> jax.Array:
        """Bool `[2, 4]`: the drawn action for the first agent, all for the second."""
        drawn = np.arange(4) == state.cue[0]
        return jnp.stack([drawn, jnp.ones(4, bool)])

    def new_cue(self, key: jax.Array) -> jax.Array:
        return jnp.broadcast_to(jax.random.randint(key, (), 0, 4), (2,))

    def see(self, state: State) -> jax.Array:
        return jnp.ones((2, 1), jnp.float32)

    def advance(self, key: jax.Array, state: State, action: jax.Array) -> Step:
        reward = jnp.broadcast_to(action[0] == action[1], (2,)).astype(jnp.float32)
        return outcome(self, state, reward=reward, terminated=True)


class Overhear(TeamProbe):
    """The first agent sees a coin, and the second one should name it: only a policy that sees for the whole team can.

    Observation: the coin, -1 or 1, for the first agent, 0 for the second. Action: Discrete(2), the second agent's
    counts. Reward `[2]`: 1 for both if it is right, -1 if not.
    """

    length: ClassVar[int] = 1
    solution = Solution((Case((1.0,), value=1.0, agent=0),), score=1.0)

    @property
    def teams(self) -> tuple[int, ...]:
        return (0, 0)

    def new_cue(self, key: jax.Array) -> jax.Array:
        return jnp.broadcast_to(coin(key), (2,))

    def see(self, state: State) -> jax.Array:
        return jnp.where((state.step == 0) & np.asarray([True, False]), state.cue, 0.0)[:, None]

    def advance(self, key: jax.Array, state: State, action: jax.Array) -> Step:
        paid = jnp.where((action[1] == 1) == (state.cue[1] > 0), 1.0, -1.0)
        last = state.step + 1 >= self.length
        return outcome(self, state, reward=jnp.broadcast_to(jnp.where(last, paid, 0.0), (2,)), terminated=last)


class OverheardBefore(Overhear):
    """Two steps: the second agent should name in the second one what the first agent saw in the first.

    Somebody must remember the coin, and somebody must see for both.

    Observation: `[coin, t]`: the coin, -1 or 1, for the first agent in the first step, else 0; the number of the step,
    so that nobody is taken for dead in the second one. Action: Discrete(2), the second agent's in the last step counts.
    Reward `[2]`: 0, then 1 for both if it is right, -1 if not.
    """

    length = 2
    observation_size = 2
    solution = Solution((Case((1.0, 0.0), value=GAMMA, agent=0),), score=1.0, score_without_memory=0.0)

    def see(self, state: State) -> jax.Array:
        step = jnp.minimum(state.step, 1).astype(jnp.float32)
        return jnp.concatenate([super().see(state), jnp.full((2, 1), step)], axis=1)
