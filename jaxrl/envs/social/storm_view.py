"""What a player of STORM sees: the 5 x 5 cells ahead, turned with the player, and which players are ready to meet."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from jaxrl.envs.social.storm_rules import COIN_CELLS, SIZE, STEPS, State, board_of, holds, place

__all__ = ["VIEW", "facts", "planes"]

VIEW = 5
_SIDE, _AHEAD = (grid.reshape(-1) for grid in np.meshgrid(np.arange(VIEW) - VIEW // 2, np.arange(VIEW), indexing="ij"))


def _others(n: int) -> np.ndarray:
    """Int `[N, N]`: for each player itself first, then the others in their order."""
    return np.array([[i, *(j for j in range(n) if j != i)] for i in range(n)])


def planes(state: State, kinds: int) -> jax.Array:
    """Bool `[N, 5, 5, N + K + 6]`: cells by how far to the side and how far ahead, and what is in them.

    That is: myself, each of the others, a coin of each kind, a wall, a beam, and if another player is there, the
    quarter turns from my direction to its own, 0 to 3, one-hot.
    """
    n = len(state.direction)
    ahead, side = (jnp.asarray(STEPS)[(state.direction + turn) % 4][:, None] for turn in (0, 1))
    seen = state.position[:, None] + _AHEAD[:, None] * ahead + _SIDE[:, None] * side  # [N, 25, 2]
    inside = jnp.all((seen >= 0) & (seen < SIZE), -1)
    cell = jnp.clip(place(seen), 0, SIZE * SIZE - 1)

    order = _others(n)
    player = inside[:, :, None] & (cell[:, :, None] == place(state.position)[order][:, None])  # [N, 25, N]
    turns = (state.direction[order] - state.direction[:, None]) % 4  # [N, N]
    looks = [jnp.any(player[:, :, 1:] & (turns[:, None, 1:] == turn), -1) for turn in range(4)]
    coins = [board_of(COIN_CELLS, state.there & (state.kind == kind)) for kind in range(kinds)]
    things = [inside & holds(board, cell) for board in (*coins, state.beams)]
    rest = jnp.stack([*things[:-1], ~inside, things[-1], *looks], -1)
    return jnp.concatenate([player, rest], -1).reshape(n, VIEW, VIEW, -1)


def facts(state: State) -> jax.Array:
    """float32 `[N, N (K + 1)]`: my coins by kind, whether I am ready; for each of the others whether it is ready, and
    while it is frozen its coins by kind.
    """
    n, kinds = state.inventory.shape
    held = state.inventory.astype(jnp.float32)
    ready = (held.sum(1, keepdims=True) > 0).astype(jnp.float32)
    shown = jnp.where(state.frozen[:, None] > 0, held, 0)
    own = jnp.concatenate([held, ready], 1)
    others = jnp.concatenate([ready, shown], 1)[_others(n)[:, 1:]]
    return jnp.concatenate([own, others.reshape(n, (n - 1) * (kinds + 1))], 1)
