"""The observation of a cook: the kitchen as a picture with a channel for each kind of thing, or as a vector.

The picture is that of overcooked-ai (https://arxiv.org/abs/1910.05789), with 26 channels for two cooks.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from jaxrl.envs.overcooked.layout import DISH, ONION, SOUP, TILES, TOMATO, Layout
from jaxrl.envs.overcooked.rules import Params, State, pick

__all__ = ["channels", "grid", "highest", "vector", "vector_size"]

_URGENT = 40  # steps before the end
# A cell's number: for each channel its lowest bit, and how many.
_THINGS = (
    ("onions in pot", 0, 2),
    ("tomatoes in pot", 2, 2),
    ("onions in soup", 4, 2),
    ("tomatoes in soup", 6, 2),
    ("time to cook", 8, 8),
    ("soup done", 16, 1),
    ("dish", 16 + DISH, 1),
    ("onion", 16 + ONION, 1),
    ("tomato", 16 + TOMATO, 1),
)
_URGENCY = 20  # the bit that says that time is short
_COOKS = 21  # the first of up to nine bits, one for each cook
_STATIC = tuple(tile for tile in TILES if tile != " ")


def channels(num_agents: int) -> tuple[str, ...]:
    """The names of the picture's channels: 5 N + 16 names."""
    cooks = ["self", *(f"cook {rank} after self" for rank in range(1, num_agents))]
    facing = [f"{cook} facing {where}" for cook in cooks for where in ("up", "down", "right", "left")]
    return (*cooks, *facing, *(TILES[tile] for tile in _STATIC), *(name for name, *_ in _THINGS), "urgent")


def highest(num_agents: int, longest: int) -> np.ndarray:
    """The largest number in each channel, uint8, given the longest time to cook that is shown."""
    things = {"time to cook": max(longest, 1), **{name: 3 for name, _, bits in _THINGS if bits == 2}}
    return np.array([things.get(name, 1) for name in channels(num_agents)], np.uint8)


def grid(layout: Layout, longest: int, state: State, params: Params) -> jax.Array:
    """Each cook's picture, uint8 `[N, height, width, 5 N + 16]`; `longest` bounds the times to cook.

    Each channel is some bits of a cell's number, together with the bit for its direction if the channel has one.
    """
    n, cells = len(layout.starts), np.arange(len(layout.tiles), dtype=np.int32)
    there = cells[:, None] == state.position  # [C, N]
    rank = (np.arange(n, dtype=np.int32) - np.arange(n, dtype=np.int32)[:, None]) % n  # of each cook for each: [N, N]
    cooks = jnp.sum(jnp.where(there, (1 << _COOKS + rank)[:, None], 0), -1, jnp.int32)
    urgent = (params.max_steps - state.step < _URGENT).astype(jnp.int32)
    numbers = cooks | _pack(layout, longest, state, there) | urgent << _URGENCY  # [N, C]
    facing = pick(there, 1 << state.direction) | ~15  # [C]; the bits from the fourth on are always set
    # Inverted twice: a loop keeps XLA from computing all that leads to a number anew for each of its channels.
    numbers, facing = jax.lax.fori_loop(0, 2, lambda _, x: (~x[0], ~x[1]), (numbers, facing))

    bits, directions, widths, fixed = _places(layout)
    shown = (numbers[..., None] >> bits) & (facing[:, None] >> directions) & ((1 << widths) - 1)
    return (shown | fixed).astype(jnp.uint8).reshape(n, layout.height, layout.width, len(bits))


def _places(layout: Layout) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """For each of K channels its lowest bit, its direction's bit, and the number of bits; and what never changes.

    The first three are int32 `[K]`, the last one is int32 `[C, K]`.
    """
    n = len(layout.starts)
    cooks = [(_COOKS + rank, 4, 1) for rank in range(n)]
    facing = [(_COOKS + rank, direction, 1) for rank in range(n) for direction in range(4)]
    static = [(0, 4, 0)] * len(_STATIC)
    things = [(bit, 4, width) for _, bit, width in _THINGS]
    places = np.array([*cooks, *facing, *static, *things, (_URGENCY, 4, 1)], np.int32)
    fixed = np.zeros((len(layout.tiles), len(places)), np.int32)
    fixed[:, 5 * n : 5 * n + len(_STATIC)] = layout.tiles[:, None] == np.array(_STATIC)
    return places[:, 0], places[:, 1], places[:, 2], fixed


def _pack(layout: Layout, longest: int, state: State, there: jax.Array) -> jax.Array:
    """The things in each cell as `_THINGS` says: int32 `[C]`; `there[C, N]` says where each cook is."""
    item = state.counters + pick(there, state.held)
    done = 1 << 16
    lying = jnp.where(item >= SOUP, (item & 15) << 4 | done, jnp.where(item > 0, done << item, 0))
    time = jnp.minimum(state.timer, longest)
    pot = jnp.where(state.timer < 0, state.contents, state.contents << 4 | time << 8 | jnp.where(time == 0, done, 0))
    return lying + pick(np.arange(len(layout.tiles))[:, None] == layout.cells("P"), pot)


def vector(layout: Layout, state: State, params: Params) -> jax.Array:
    """Each cook's vector of numbers from 0 to 1, float32 `[N, D]`: cooks, itself first, counters, pots, the clock."""
    n = len(layout.starts)
    own = jnp.concatenate(
        [
            state.position[:, None] == layout.cells(" "),
            state.direction[:, None] == np.arange(4),
            _features(state.held),
        ],
        -1,
    )
    order = (np.arange(n)[:, None] + np.arange(n)) % n
    counters = _features(state.counters[layout.cells("X")]).reshape(-1)
    time = jnp.clip(state.timer / jnp.maximum(params.cook_time, 1), 0, 1)
    pots = [(state.contents & 3) / 3, (state.contents >> 2) / 3, state.timer >= 0, state.timer == 0, time]
    clock = jnp.clip(state.step / params.max_steps, 0, 1)
    shared = jnp.concatenate([counters, *pots, clock[None]]).astype(jnp.float32)
    return jnp.concatenate([own[order].reshape(n, -1), jnp.broadcast_to(shared, (n, len(shared)))], -1)


def vector_size(layout: Layout) -> int:
    """D, the length of the vector."""
    n, floor, counters, pots = len(layout.starts), *(len(layout.cells(tile)) for tile in " XP")
    return n * (floor + 9) + 5 * counters + 5 * pots + 1


def _features(item: jax.Array) -> jax.Array:
    """Items `[K]` as float32 `[K, 5]`: a dish, an onion, a tomato, a soup's onions and tomatoes in thirds."""
    contents = jnp.where(item >= SOUP, item & 15, 0)
    kinds = item[:, None] == np.array([DISH, ONION, TOMATO])
    return jnp.concatenate([kinds, jnp.stack([contents & 3, contents >> 2], -1) / 3], -1)
