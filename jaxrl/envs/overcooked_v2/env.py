"""Overcooked's second version: recipes that not everybody can see."""

from __future__ import annotations

import dataclasses
from typing import Literal

import jax
import jax.numpy as jnp
import numpy as np

from jaxrl.environment import MultiAgentEnvironment, Step, as_arrays
from jaxrl.envs.draws import same_key, uniform_rows
from jaxrl.envs.options import flag, one_of, whole
from jaxrl.envs.overcooked.shaping import Shaping
from jaxrl.envs.overcooked_v2.board import board
from jaxrl.envs.overcooked_v2.draw import draw
from jaxrl.envs.overcooked_v2.items import PLATE
from jaxrl.envs.overcooked_v2.kitchens import KITCHENS
from jaxrl.envs.overcooked_v2.layout import INGREDIENTS, TILES, find_kitchen
from jaxrl.envs.overcooked_v2.observe import channels, grid, highest
from jaxrl.envs.overcooked_v2.rules import INTERACT, Params, State, move, tick, work
from jaxrl.envs.overcooked_v2.start import Start, begin, draw_recipe
from jaxrl.render.scene import Scene
from jaxrl.spaces import Box, Discrete
from jaxrl.text_map import TextMap

__all__ = ["OvercookedV2"]


class OvercookedV2(MultiAgentEnvironment):
    """Soups by a recipe that changes, and that may be shown only to some. Equal to JaxMARL's, but for its mistakes.

    Observation uint8 `[N, height, width, 25 + 5 I]` for I ingredients, see `channels`.
    Action Discrete(6): right, down, left, up, stay, and interact, which uses what is in front.
    Reward: 20 for every cook when the right soup is served, -5 when a cook presses a button, and `params.shaping` times
    the cook's own `info["shaped_reward"]`. Only the clock ends an episode.

    Args:
        layout: A name of `KITCHENS`, or a text, see `layout.parse_kitchen`.
        recipes: Those that may be asked for, three digits each, separated by commas; None for the layout's own.
        view: Cells that a cook sees in each direction; None for the whole kitchen.
        cooking: `"auto"`: a pot starts with its third ingredient; `"by_hand"`: when an empty hand interacts with it.
        start: `"fixed"`, `"positions"` or `"random"`, see `start.begin`.
        negative_rewards: Whether a wrong soup costs 20, and a wrong ingredient 3 of the shaped reward.
        new_recipe: Whether a recipe is drawn for each `"episode"`, or also after each `"delivery"`.
        shows_delivery: Whether a channel shows that the right soup has just been served.
        mixed: Ingredients, separated by commas, whose channels are permuted, for each cook and episode (other-play).
        shaping: `params_at`, and so training, begins with this weight of the shaped reward …
        shaping_until: … and lets it fall to 0 until this share of the training. Evaluation is without it.
        max_steps: Steps after which an episode is truncated.

    Raises:
        ValueError: An option is out of its range, or something in the layout means nothing.
    """

    intended = ("same_start", "unused_params")  # a kitchen may have one recipe, and no button

    action_names = ("right", "down", "left", "up", "stay", "interact")

    def __init__(
        self,
        *,
        layout: str = "cramped_room",
        recipes: str | int | None = None,
        view: int | None = None,
        cooking: Literal["auto", "by_hand"] = "auto",
        start: Start = "fixed",
        negative_rewards: bool = False,
        new_recipe: Literal["episode", "delivery"] = "episode",
        shows_delivery: bool = False,
        mixed: str | int = "",
        shaping: float = 1.0,
        shaping_until: float = 0.5,
        max_steps: int = 400,
    ) -> None:
        choices = (
            ("cooking", cooking, ("auto", "by_hand")),
            ("start", start, ("fixed", "positions", "random")),
            ("new_recipe", new_recipe, ("episode", "delivery")),
        )
        for name, given, allowed in choices:
            one_of(name, given, allowed)
        self.view = None if view is None else whole("view", view)
        self.kitchen, self.by_hand = find_kitchen(layout, recipes), cooking == "by_hand"
        self._recipes = KITCHENS[layout][1] if recipes is None and layout in KITCHENS else recipes
        self.start: Start = start
        self.renews, self.shows_delivery = new_recipe == "delivery", flag("shows_delivery", shows_delivery)
        numbers = str(mixed).split(",") if mixed != "" else []
        if set(numbers) - set(map(str, range(self.kitchen.num_ingredients))):
            raise ValueError(f"mixed must be some of the {self.kitchen.num_ingredients} ingredients, got {mixed!r}.")
        self.mixed = tuple(sorted(map(int, set(numbers))))
        self.agents = tuple(f"agent_{i}" for i in range(len(self.kitchen.starts)))
        self.shaping = Shaping(shaping, shaping_until)
        punishes = flag("negative_rewards", negative_rewards)
        wrong = {"wrong_delivery_reward": -20.0, "wrong_ingredient_reward": -3.0} if punishes else {}
        params = dataclasses.replace(Params(), max_steps=whole("max_steps", max_steps), **wrong)
        self._longest, self._default_params = int(params.cook_time), as_arrays(params)

    @property
    def teams(self) -> tuple[int, ...]:
        """One team: all get the same for a soup, and in training, each adds its own shaped reward."""
        return (0,) * self.num_agents

    @property
    def text_map(self) -> TextMap:
        """The kitchen as text."""
        ingredients = {digit: f"ingredient {digit}" for digit in INGREDIENTS}
        others = {} if self._recipes is None else {"recipes": self._recipes}
        rows = self.kitchen.rows("A" * self.num_agents)
        return TextMap("overcooked_v2", "layout", rows, TILES | ingredients, "W", "A", others)

    @property
    def channels(self) -> tuple[str, ...]:
        """What each channel of the picture shows."""
        return channels(self.kitchen.num_ingredients, self.shows_delivery)

    @property
    def default_params(self) -> Params:
        return self._default_params

    def params_at(self, progress: jax.Array) -> Params:
        """The default parameters with shaped rewards, whose weight falls to 0 as the training goes on."""
        return self.shaping.params_at(self._default_params, progress)

    def observation_space(self, params: Params | None = None) -> Box:
        sizes = (self.kitchen.height, self.kitchen.width) if self.view is None else (2 * self.view + 1,) * 2
        return Box(0, highest(self.channels, self._longest), (*sizes, len(self.channels)), np.uint8)

    def action_space(self, params: Params | None = None) -> Discrete:
        return Discrete(6)

    split_key = same_key  # steps and starts draw different rows of a key

    def reset_env(self, key: jax.Array, params: Params) -> tuple[jax.Array, State]:
        state = begin(self.kitchen, self.start, self.by_hand, self.mixed, key, params)
        return self.observation(state, params), state

    def step_env(self, key: jax.Array, state: State, action: jax.Array, params: Params) -> Step:
        action = self.action_space().clip(action)
        state, plates, done = move(self.kitchen, state, action), jnp.sum(state.held == PLATE), []
        for i in range(self.num_agents):
            state, own = work(self.kitchen, self.by_hand, state, i, action[i] == INTERACT, plates, params)
            done.append(own)
        served = jnp.stack([own.correct for own in done])
        correct, recipe = jnp.any(served), state.recipe
        if self.renews:
            recipe = jnp.where(correct, draw_recipe(self.kitchen, uniform_rows(key, 1)[0]), recipe)
        state = dataclasses.replace(
            tick(self.kitchen, state),
            recipe=recipe,
            correct=correct,
            delivered=state.delivered + jnp.sum(served, dtype=jnp.int32),
            step=state.step + 1,
        )
        shaped = jnp.stack([own.shaped for own in done])
        reward = sum(own.reward for own in done) + params.shaping * shaped
        truncated = state.step >= params.max_steps
        info = {"shaped_reward": shaped, "served": served.astype(jnp.int32)}
        return self.observation(state, params), state, reward, jnp.zeros_like(truncated), truncated, info

    def observation(self, state: State, params: Params | None = None) -> jax.Array:
        """Each cook's picture, uint8 `[N, …]`."""
        return grid(self.kitchen, self._longest, self.view, self.shows_delivery, state)

    def batch_observation(self, state: State, params: Params | None = None, *, own_params: bool = False) -> jax.Array:
        """`[B, N, …]`; that it is written here saves a step from making two of them."""
        return jax.vmap(self.observation)(state)

    def global_state(self, state: State, params: Params | None = None) -> jax.Array:
        """The first cook's picture of the whole kitchen, with the recipe at the end: float32 `[G]`."""
        plain = dataclasses.replace(state, order=jnp.sort(state.order, -1))
        whole = grid(self.kitchen, self._longest, None, self.shows_delivery, plain)[0].reshape(-1)
        wanted = (state.recipe >> 2 + 2 * np.arange(self.kitchen.num_ingredients)) & 3
        return jnp.concatenate([whole, wanted]).astype(jnp.float32)

    def draw(self, states: State, params: Params | None = None) -> Scene:
        return draw(self.kitchen, states)

    def board(self, state: State) -> str:
        """One state in letters, see `board.board`."""
        return board(self.kitchen, state)
