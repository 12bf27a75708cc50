"""The switch riddle: prisoners who talk through a light bulb (Foerster et al. 2016, https://arxiv.org/abs/1602.02672)."""

from __future__ import annotations

import dataclasses
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np

from jaxrl.config import typed
from jaxrl.environment import MultiAgentEnvironment, Step, as_arrays
from jaxrl.envs.batching import same_key, uniform_rows
from jaxrl.envs.options import flag, one_of, whole
from jaxrl.envs.social.draw import draw_switch_riddle
from jaxrl.render.scene import Scene
from jaxrl.spaces import Box, Discrete

__all__ = ["NOTHING", "SWITCH", "TELL", "Params", "State", "SwitchRiddle"]

NOTHING, SWITCH, TELL = range(3)


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Params:
    """The numbers that may vary."""

    reward_all_live: Any
    """For telling when everybody has been in the room."""
    reward_all_die: Any
    """For telling too early."""
    initial_bulb: Any
    """True if the light is on at first."""
    max_steps: Any


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class State:
    """A day in the prison of N."""

    bulb: jax.Array
    in_room: jax.Array
    """The number of the prisoner who is in the room."""
    has_been: jax.Array
    """Bool `[N]`: who was in the room before today."""
    step: jax.Array
    history: jax.Array
    """Bool `[D, N, 2]`: what everybody saw on the days before today, yesterday first; D is 0 unless that is part of the
    observation.
    """


class SwitchRiddle(MultiAgentEnvironment):
    """Every day, one of N prisoners, drawn anew, is in a room with a light, which only they see and can switch.

    The prisoner in the room may announce that everybody has been there. If that is true all live, otherwise all die.

    Observation of each agent bool `[2]`: whether I am in the room, and if so, whether the light is on. With
    `observe="history"` bool `[3 D + N]`: this for today and the days before, the newest first and nothing for those
    before the first, D days in all; then which day it is and who I am, one-hot.
    Action Discrete(3): nothing, switch the light, tell. Outside of the room only nothing is allowed.
    Reward: to all, 1 for a true and -1 for a wrong telling. Terminated when somebody tells.
    `info["won"]` says that it was true.

    Args:
        num_agents: N.
        max_steps: Days; None for 4 N - 6, as in the paper.
        deadline: What the last day means. `"truncates"`: only the clock stops the riddle, and whoever learns counts on
            the days after. `"terminates"`: it is the riddle's end, as in the paper, and on the last day a guess that
            is more likely right than wrong pays.
        observe: `"today"`, or the `"history"`: all that a prisoner has seen, so nobody needs a memory.
        initial_bulb: Whether the light is on at first.
        reward_all_live: See `Params`.
        reward_all_die: See `Params`.

    Raises:
        ValueError: An option is out of its range.
    """

    action_names = ("nothing", "switch", "tell")

    def __init__(
        self,
        *,
        num_agents: int = 3,
        max_steps: int | None = None,
        deadline: Literal["truncates", "terminates"] = "truncates",
        observe: Literal["today", "history"] = "today",
        initial_bulb: bool = False,
        reward_all_live: float = 1.0,
        reward_all_die: float = -1.0,
    ) -> None:
        count = whole("num_agents", num_agents, 2)
        self.agents = tuple(f"agent_{i}" for i in range(count))
        self._ends = one_of("deadline", deadline, ("truncates", "terminates")) == "terminates"
        days = 4 * count - 6 if max_steps is None else whole("max_steps", max_steps)
        self._days = days if one_of("observe", observe, ("today", "history")) == "history" else 0
        live, die = typed("reward_all_live", float, reward_all_live), typed("reward_all_die", float, reward_all_die)
        self._default_params = as_arrays(Params(live, die, flag("initial_bulb", initial_bulb), days))

    @property
    def default_params(self) -> Params:
        return self._default_params

    @property
    def teams(self) -> tuple[int, ...]:
        return (0,) * self.num_agents

    def observation_space(self, params: Params | None = None) -> Box:
        return Box(0, 1, (3 * self._days + self.num_agents if self._days else 2,), bool)

    def action_space(self, params: Params | None = None) -> Discrete:
        return Discrete(3)

    split_key = same_key  # steps and starts draw different rows of a key

    def reset_env(self, key: jax.Array, params: Params) -> tuple[jax.Array, State]:
        state = State(
            bulb=jnp.asarray(params.initial_bulb, bool),
            in_room=self._drawn(key, 1),
            has_been=jnp.zeros(self.num_agents, bool),
            step=jnp.zeros((), jnp.int32),
            history=jnp.zeros((self._days, self.num_agents, 2), bool),
        )
        return self.observation(state), state

    def step_env(self, key: jax.Array, state: State, action: jax.Array, params: Params) -> Step:
        inside = self._inside(state)
        chosen = jnp.where(inside, self.action_space().clip(action), NOTHING).max()
        has_been = state.has_been | inside
        tells = chosen == TELL
        won = tells & jnp.all(has_been)
        earned = jnp.where(won, params.reward_all_live, jnp.where(tells, params.reward_all_die, 0.0))

        step = state.step + 1
        over = step >= params.max_steps
        after = State(state.bulb ^ (chosen == SWITCH), self._drawn(key, 0), has_been, step, self._history(state))
        terminated = tells | over if self._ends else tells
        reward = jnp.broadcast_to(earned.astype(jnp.float32), (self.num_agents,))
        return self.observation(after), after, reward, terminated, over & ~terminated, {"won": won}

    def observation(self, state: State, params: Params | None = None) -> jax.Array:
        """Bool `[N, 2]`, or `[N, 3 D + N]` with the history."""
        if not self._days:
            return self._seen(state)
        seen = jnp.moveaxis(self._history(state), 1, 0).reshape(self.num_agents, -1)
        day = jnp.broadcast_to(np.arange(self._days) == state.step, (self.num_agents, self._days))
        return jnp.concatenate([seen, day, np.eye(self.num_agents, dtype=bool)], -1)

    def action_mask(self, state: State, params: Params | None = None) -> jax.Array:
        """Bool `[N, 3]`: outside of the room there is nothing to do."""
        return self._inside(state)[:, None] | (np.arange(3) == NOTHING)

    def global_state(self, state: State, params: Params | None = None) -> jax.Array:
        """float32 `[2 N + 2]`: who is in the room, who has been, the light, and the share of the days that is over."""
        over = state.step / self._params(params).max_steps
        parts = self._inside(state), state.has_been, state.bulb[None], over[None]
        return jnp.concatenate([part.astype(jnp.float32) for part in parts])

    def draw(self, states: State, params: Params | None = None) -> Scene:
        return draw_switch_riddle(states, self._day(states.step, params))

    def text(self, state: State, viewer: int, params: Params | None = None) -> str:
        """One state as text, as the prisoner `viewer` knows it."""
        inside, light = viewer == int(state.in_room), "on" if state.bulb else "off"
        seen = f"you are in the room, the light is {light}" if inside else "you wait"
        return f"day {self._day(state.step, params)}: {seen}"

    def _day(self, steps: Any, params: Params | None) -> np.ndarray:
        """The day after so many steps, which ends with the last one: `[…]` from `[…]`."""
        return np.minimum(np.asarray(steps) + 1, np.asarray(self._params(params).max_steps))

    def _drawn(self, key: jax.Array, row: int) -> jax.Array:
        """A prisoner, each as likely as another. Consumes one row of `key`."""
        return (uniform_rows(key, 1, row)[0] * self.num_agents).astype(jnp.int32)

    def _seen(self, state: State) -> jax.Array:
        """Bool `[N, 2]`: what everybody sees today."""
        inside = self._inside(state)
        return jnp.stack([inside, inside & state.bulb], -1)

    def _history(self, state: State) -> jax.Array:
        """Bool `[D, N, 2]`: what everybody has seen today and on the days before."""
        return jnp.concatenate([self._seen(state)[None], state.history])[: self._days]

    def _inside(self, state: State) -> jax.Array:
        """Bool `[N]`: who is in the room."""
        return np.arange(self.num_agents) == state.in_room
