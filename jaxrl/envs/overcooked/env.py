"""Overcooked: cooks who share a kitchen make onion soup."""

from __future__ import annotations

import dataclasses
from typing import Literal

import jax
import jax.numpy as jnp
import numpy as np

from jaxrl.environment import MultiAgentEnvironment, Step, as_arrays
from jaxrl.envs.batching import same_key
from jaxrl.envs.options import TextMap, one_of, whole
from jaxrl.envs.overcooked.draw import board, draw
from jaxrl.envs.overcooked.layout import COOKS, ORDERS, TILES, find_layout, value_of
from jaxrl.envs.overcooked.observe import channels, grid, highest, vector, vector_size
from jaxrl.envs.overcooked.rules import INTERACT, Params, Shaping, Start, State, begin, cook, move, work, worth_a_dish
from jaxrl.render.scene import Scene
from jaxrl.spaces import Box, Discrete

__all__ = ["Overcooked"]

_CHOICES = {"cooking": ("auto", "by_hand"), "observe": ("grid", "vector"), "start": ("fixed", "facing", "random")}


class Overcooked(MultiAgentEnvironment):
    """Three onions in a pot, twenty steps, a dish, and off to the serving hatch. Equal to overcooked-ai.

    Observation uint8 `[N, height, width, 5 N + 16]`, see `channels`, or float32 `[N, D]`.
    Action Discrete(6): up, down, right, left, stay, and interact, which uses what is in front.
    Reward: 20 for every cook when a soup is served, and `params.shaping` times the cook's own
    `info["shaped_reward"]`. Only the clock ends an episode.

    Args:
        layout: A name of `LAYOUTS`, or a text with a line per row (or rows separated by `|`): X counter, P pot,
            O onions, T tomatoes, D dishes, S serving hatch, a space for the floor and 1, 2 … for the cooks.
        cooking: `"auto"`: a pot starts with its third ingredient; `"by_hand"`: interact with an empty hand starts it,
            however little is in it.
        observe: `"grid"` or `"vector"`.
        start: `"fixed"`, `"facing"` or `"random"`, see `rules.begin`.
        orders: The soups that are worth a reward, `o` for an onion and `t` for a tomato, separated by commas.
        shaping: `params_at`, and so training, begins with this weight of the shaped reward …
        shaping_until: … and lets it fall to 0 until this share of the training. Evaluation is without it.
        cook_time: Steps that a soup takes.
        max_steps: Steps after which an episode is truncated.

    Raises:
        ValueError: An option is out of its range, or something in the layout means nothing.
    """

    intended = ("same_start",)  # as in the original; start="facing" and start="random" differ
    agent_info = ("shaped_reward", "served")

    action_names = ("up", "down", "right", "left", "stay", "interact")

    def __init__(
        self,
        *,
        layout: str = "cramped_room",
        cooking: Literal["auto", "by_hand"] = "auto",
        observe: Literal["grid", "vector"] = "grid",
        start: Start = "fixed",
        orders: str = ORDERS,
        shaping: float = 1.0,
        shaping_until: float = 0.5,
        cook_time: int = 20,
        max_steps: int = 400,
    ) -> None:
        for name, given in (("cooking", cooking), ("observe", observe), ("start", start)):
            one_of(name, given, _CHOICES[name])
        cook_time, max_steps = whole("cook_time", cook_time, most=255), whole("max_steps", max_steps)
        self.layout, self.by_hand, self.observes = find_layout(layout), cooking == "by_hand", observe
        self.start: Start = start
        self.agents = tuple(f"agent_{i}" for i in range(len(self.layout.starts)))
        self.shaping, self._longest = Shaping(shaping, shaping_until), cook_time
        self._default_params = as_arrays(Params(value_of(orders, 20.0), cook_time, max_steps))
        there = {letter for letter, tile in (("o", "O"), ("t", "T")) if self.layout.cells(tile).size}
        possible = [soup for soup in orders.split(",") if set(soup) <= there]
        if not possible:
            has = " and ".join(name for letter, name in (("o", "onions"), ("t", "tomatoes")) if letter in there)
            raise ValueError(f"no soup in orders={orders!r} can be made: the layout has {has or 'nothing to cook'}.")
        if not self.by_hand and all(len(soup) < 3 for soup in possible):
            raise ValueError(f"orders={orders!r} needs cooking='by_hand': otherwise a pot waits for three ingredients.")

    @property
    def teams(self) -> tuple[int, ...]:
        """One team: all get the same for a soup, and in training, each adds its own shaped reward."""
        return (0,) * self.num_agents

    @property
    def text_map(self) -> TextMap:
        """The kitchen as text."""
        cooks = {cook: f"cook {cook}" for cook in COOKS}
        rows = self.layout.rows(COOKS[: self.num_agents])
        return TextMap("overcooked", "layout", rows, TILES | cooks, "X", COOKS)

    @property
    def channels(self) -> tuple[str, ...]:
        """The names of the picture's channels."""
        return channels(self.num_agents)

    @property
    def default_params(self) -> Params:
        return self._default_params

    def params_at(self, progress: jax.Array) -> Params:
        """The default parameters with shaped rewards, whose weight falls to 0 as the training goes on."""
        return self.shaping.params_at(self._default_params, progress)

    def observation_space(self, params: Params | None = None) -> Box:
        layout, n = self.layout, self.num_agents
        if self.observes == "vector":
            return Box(0, 1, (vector_size(layout),))
        most = highest(n, self._longest)
        return Box(0, most, (layout.height, layout.width, len(most)), np.uint8)

    def action_space(self, params: Params | None = None) -> Discrete:
        return Discrete(6)

    split_key = same_key  # a step draws nothing

    def reset_env(self, key: jax.Array, params: Params) -> tuple[jax.Array, State]:
        state = begin(self.layout, self.start, key, params)
        return self.observation(state, params), state

    def step_env(self, key: jax.Array, state: State, action: jax.Array, params: Params) -> Step:
        action = self.action_space().clip(action)
        filled, done = worth_a_dish(state), []
        for i in range(self.num_agents):
            state, own = work(self.layout, self.by_hand, state, i, action[i] == INTERACT, filled, params)
            done.append(own)
        state = cook(self.by_hand, move(self.layout, state, action), params)
        state = dataclasses.replace(state, step=state.step + 1)
        shaped = jnp.stack([own.shaped for own in done])
        reward = sum(own.reward for own in done) + params.shaping * shaped
        info = {"shaped_reward": shaped, "served": jnp.stack([own.served for own in done]).astype(jnp.int32)}
        truncated = state.step >= params.max_steps
        return self.observation(state, params), state, reward, jnp.zeros_like(truncated), truncated, info

    def observation(self, state: State, params: Params | None = None) -> jax.Array:
        """Each cook's picture or vector, `[N, …]`."""
        if self.observes == "vector":
            return vector(self.layout, state, self._params(params))
        return grid(self.layout, self._longest, state, self._params(params))

    def batch_observation(self, state: State, params: Params | None = None, *, own_params: bool = False) -> jax.Array:
        """`[B, N, …]`; that it is written here saves a step from making two of them."""
        return jax.vmap(self.observation, in_axes=(0, 0 if own_params else None))(state, self._params(params))

    def global_state(self, state: State, params: Params | None = None) -> jax.Array:
        """The first cook's vector, which has all there is: float32 `[D]`."""
        return vector(self.layout, state, self._params(params))[0]

    def draw(self, states: State, params: Params | None = None) -> Scene:
        return draw(self.layout, states)

    def board(self, state: State) -> str:
        """One state in letters, see `draw.board`."""
        return board(self.layout, state)
