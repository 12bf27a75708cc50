"""Overcooked's second version: recipes that not everybody can see.

What a cook sees: a picture with a channel for each kind of thing, of the kitchen or of the cells around it.
"""

from __future__ import annotations

import dataclasses
from typing import Literal

import jax
import jax.numpy as jnp
import numpy as np

from jaxrl.environment import MultiAgentEnvironment, Step, as_arrays
from jaxrl.envs.batching import same_key, uniform_rows
from jaxrl.envs.options import TextMap, flag, one_of, whole
from jaxrl.envs.overcooked.rules import Shaping, pick
from jaxrl.envs.overcooked_v2.draw import board, draw
from jaxrl.envs.overcooked_v2.layout import INGREDIENTS, KITCHENS, PLATE, TILES, Kitchen, find_kitchen
from jaxrl.envs.overcooked_v2.rules import INTERACT, Params, Start, State, begin, draw_recipe, move, tick, work
from jaxrl.render.scene import Scene
from jaxrl.spaces import Box, Discrete

__all__ = ["OvercookedV2", "channels", "grid", "highest"]


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
        start: `"fixed"`, `"positions"` or `"random"`, see `rules.begin`.
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
    agent_info = ("shaped_reward", "served")

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
        """The names of the picture's channels."""
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
        """One state in letters, see `draw.board`."""
        return board(self.kitchen, state)


_FACING = ("up", "down", "right", "left")
_STATIC = ("W", "X", "P", "R", "L", "B")


def channels(num_ingredients: int, shows_delivery: bool) -> tuple[str, ...]:
    """The names of the channels: 25 + 5 I names, and one more if deliveries are shown."""
    kinds = ("plate", "cooked", *(f"ingredient {number}" for number in range(num_ingredients)))
    cooks = [
        [who, *(f"{who} looking {where}" for where in _FACING), *(f"{kind} of {who}" for kind in kinds)]
        for who in ("self", "others")
    ]
    piles = [f"pile of {kind}" for kind in kinds[2:]]
    recipe = [f"{kind} in recipe" for kind in kinds]
    last = ["time to cook", *(["right soup served"] if shows_delivery else [])]
    return (*cooks[0], *cooks[1], *(TILES[tile] for tile in _STATIC), *piles, *kinds, *recipe, *last)


def highest(names: tuple[str, ...], longest: int) -> np.ndarray:
    """The largest number in each channel, uint8."""
    counts = [3 if "ingredient" in name and "pile" not in name else 1 for name in names]
    counts[names.index("time to cook")] = longest
    return np.array(counts, np.uint8)


def grid(kitchen: Kitchen, longest: int, view: int | None, shows_delivery: bool, state: State) -> jax.Array:
    """Each cook's picture: uint8 `[N, height, width, K]`, or `[N, 2 view + 1, 2 view + 1, K]`, zero outside."""
    n, c, tiles = len(kitchen.starts), len(kitchen.tiles), kitchen.tiles
    there = np.arange(c, dtype=np.int32)[:, None] == state.position  # [C, N]
    held, facing = pick(there, state.held), pick(there, 1 << state.direction)
    shows = (tiles == "R") | ((tiles == "L") & (state.timer > 0))
    shift = jnp.concatenate([jnp.broadcast_to(np.arange(2, dtype=np.int32), (n, 2)), 2 + 2 * state.order], -1)
    mask = np.array([1, 1, *[3] * kitchen.num_ingredients], np.int32)

    def kinds(items: jax.Array) -> jax.Array:
        """The bits of `[N or 1, C]` things, with each cook's order of the ingredients: `[N, C, 2 + I]`."""
        return (items[..., None] >> shift[:, None]) & mask

    def cooks(where: jax.Array) -> list[jax.Array]:
        """The cooks who stand in the cells `where[N, C]`: `[N, C, 5]` and `[N, C, 2 + I]`."""
        looks = where[..., None] & ((facing[:, None] >> np.arange(4)) & 1 != 0)
        return [where[..., None], looks, kinds(jnp.where(where, held, 0))]

    own = there.T
    piles = (kitchen.sources[:, None] >> shift[:, None, 2:]) & (tiles != "B")[:, None] & 1
    time = jnp.where(tiles == "P", jnp.minimum(state.timer, longest), 0)
    last = [time[None, :, None]]
    if shows_delivery:
        last.append(((tiles == "X") & state.correct)[None, :, None])
    static = jnp.asarray(tiles[:, None] == np.array(_STATIC))[None]
    recipe = jnp.where(shows, state.recipe, 0)[None]
    layers = [*cooks(own), *cooks(jnp.any(there, -1) & ~own), static, piles, kinds(state.items[None]), kinds(recipe)]
    layers = [jnp.broadcast_to(layer, (n, c, layer.shape[-1])).astype(jnp.uint8) for layer in (*layers, *last)]
    seen = jnp.concatenate(layers, -1).reshape(n, kitchen.height, kitchen.width, -1)
    return seen if view is None else _around(kitchen, view, seen, state.position)


def _around(kitchen: Kitchen, view: int, seen: jax.Array, position: jax.Array) -> jax.Array:
    """The cells around each cook, itself in the middle."""
    size = 2 * view + 1
    padded = jnp.pad(seen, ((0, 0), (view, view), (view, view), (0, 0)))

    def cut(picture: jax.Array, cell: jax.Array) -> jax.Array:
        corner = (cell // kitchen.width, cell % kitchen.width, np.int32(0))
        return jax.lax.dynamic_slice(picture, corner, (size, size, picture.shape[-1]))

    return jax.vmap(cut)(padded, position)
