"""What a cook sees: a picture with a channel for each kind of thing, of the kitchen or of the cells around it."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from jaxrl.envs.overcooked.rules import pick
from jaxrl.envs.overcooked_v2.layout import TILES, Kitchen
from jaxrl.envs.overcooked_v2.rules import State

__all__ = ["channels", "grid", "highest"]

_FACING = ("up", "down", "right", "left")
_STATIC = ("W", "X", "P", "R", "L", "B")


def channels(num_ingredients: int, shows_delivery: bool) -> tuple[str, ...]:
    """What each channel shows: 25 + 5 I names, and one more if deliveries are shown."""
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
