"""Random states of STORM, crowded enough that players meet and block each other; and the same in jaxmarl's form."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from jaxrl.envs.social import storm_rules as rules
from jaxrl.envs.social.storm_rules import COIN_CELLS, SIZE, State


def random_state(key: jax.Array, n: int, kinds: int = 2, together: bool = False) -> State:
    """Players in a few cells, some of them frozen (all or none if `together`), coins and beams here and there."""
    side = min(n, 4)
    keys = jax.random.split(key, 9)
    corner = jax.random.randint(keys[0], (2,), 0, SIZE + 1 - side)
    spots = jax.random.permutation(keys[1], side**2)[:n]
    position = corner + jnp.stack([spots // side, spots % side], -1)
    cells = rules.place(position)
    there = jax.random.bernoulli(keys[2], 0.5, (len(COIN_CELLS),))
    there &= ~jnp.any(cells[:, None] == COIN_CELLS, 0)
    beams = jax.random.bernoulli(keys[3], 0.1, (SIZE * SIZE,)) & ~jnp.any(cells[:, None] == np.arange(64), 0)
    beams = beams.at[COIN_CELLS].min(~there)
    frozen = jax.random.randint(keys[4], (n,), -20, 6).clip(0)
    return State(
        position=position.astype(jnp.int32),
        direction=jax.random.randint(keys[5], (n,), 0, 4),
        inventory=jax.random.randint(keys[6], (n, kinds), -2, 4).clip(0),
        frozen=jnp.where(together, frozen[0], frozen),
        kind=jax.random.permutation(keys[7], np.arange(len(COIN_CELLS)) % kinds).astype(jnp.int32),
        there=there,
        timer=jax.random.randint(keys[8], (len(COIN_CELLS),), 1, 4),
        beams=rules.board_of(np.arange(64), beams),
        step=jnp.int32(7),
    )


def grid_of(state: State, coin: int, beam: int) -> jax.Array:
    """int8 `[8, 8]`: players from 1 on, coins of the first and the second kind from `coin` on, and beams."""
    grid = jnp.zeros(SIZE * SIZE, jnp.int8)
    grid = jnp.where(rules.holds(state.beams, np.arange(SIZE * SIZE)), jnp.int8(beam), grid)
    grid = grid.at[COIN_CELLS].set(jnp.where(state.there, (coin + state.kind).astype(jnp.int8), grid[COIN_CELLS]))
    numbers = jnp.arange(1, len(state.direction) + 1, dtype=jnp.int8)
    return grid.at[rules.place(state.position)].set(numbers).reshape(SIZE, SIZE)


def to_theirs(state: State, blank):
    """The state of jaxmarl's `storm`, two kinds of coins."""
    places = jnp.asarray(np.stack([COIN_CELLS // SIZE, COIN_CELLS % SIZE], -1)).astype(jnp.int8)
    first, second = (jnp.nonzero(state.kind == kind, size=6)[0] for kind in (0, 1))
    return blank.replace(
        agent_positions=jnp.concatenate([state.position, state.direction[:, None]], 1).astype(jnp.int8),
        grid=grid_of(state, 9, 12),
        agent_inventories=state.inventory.astype(jnp.float32),
        coin_coop=places[first],
        coin_defect=places[second],
        agent_freezes=jnp.where(state.frozen > 0, state.frozen, -1).astype(jnp.int16),
        coin_timer_coop=state.timer[first],
        coin_timer_defect=state.timer[second],
        step=state.step,
    )


def to_two_players(state: State, blank):
    """The state of jaxmarl's `storm_2p`, whose two players are frozen together."""
    players = jnp.concatenate([state.position, state.direction[:, None]], 1).astype(jnp.int8)
    return blank.replace(
        red_pos=players[0],
        blue_pos=players[1],
        grid=grid_of(state, 3, 6),
        red_inventory=state.inventory[0].astype(jnp.float32),
        blue_inventory=state.inventory[1].astype(jnp.float32),
        freeze=jnp.where(state.frozen[0] > 0, state.frozen[0], -1).astype(jnp.int16),
    )
