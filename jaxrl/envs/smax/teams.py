"""The observations and orders of each team, arranged so that a policy cannot tell which side it plays.

Team 0 is the allies. Team 1, the enemies, see and act mirrored: own units first, left and right swapped, opponents
numbered the way allies number theirs. So one policy can play both. JaxMARL 0.2 (`options.jaxmarl`) instead shows the
enemies the unmirrored map and the list of all units in reverse order.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from jaxrl.envs.smax import conic, observe, scripted
from jaxrl.envs.smax import orders as orders_of
from jaxrl.envs.smax.battle import Battle
from jaxrl.envs.smax.options import Options
from jaxrl.envs.smax.orders import TeamOrders
from jaxrl.envs.smax.state import Params, State, bodies_of

__all__ = ["acting", "decode", "enemies", "masks", "observe_team"]


def observe_team(battle: Battle, options: Options, team: int, state: State, params: Params) -> jax.Array:
    """The observations of the M units of a team, `[M, D, …]`."""
    size = (params.map_width, params.map_height)
    count = (battle.num_allies, battle.num_enemies)[team]
    surroundings = battle.surroundings(state, params)
    if team == 1 and not options.jaxmarl:
        surroundings = observe.mirror(surroundings, battle.num_allies, params.map_width)
    if options.observation_type == "conic":
        own = slice(battle.num_allies, None) if team == 1 and options.jaxmarl else slice(None, count)
        return conic.conic(surroundings, own, params.see_enemy_actions, size, jaxmarl=options.jaxmarl)
    if team == 1 and options.jaxmarl:
        return observe.unit_list(observe.flip(surroundings), count, params.see_enemy_actions, size)[::-1]
    return observe.unit_list(surroundings, count, params.see_enemy_actions, size)


def acting(battle: Battle, state: State) -> jax.Array:
    """Which units are alive, and not the script's where it plays some of the battles: bool `[N, …]`."""
    if not isinstance(state.memory, scripted.Sometimes):
        return state.alive
    return state.alive.at[battle.num_allies :].set(state.alive[battle.num_allies :] & ~state.memory.plays)


def masks(battle: Battle, options: Options, state: State, params: Params) -> tuple[jax.Array, jax.Array]:
    """Which discrete actions the allies and the enemies can choose: bool `[A, 5 + E, …]`, `[E, 5 + A, …]`."""
    reach = battle.stats(state.unit_type, params).range
    of_allies, of_enemies = observe.in_range(bodies_of(state), reach, battle.num_allies)
    acts = acting(battle, state)[:, None]

    def mask(acts: jax.Array, shootable: jax.Array) -> jax.Array:
        return jnp.concatenate([jnp.repeat(acts, 4, axis=1), jnp.ones_like(acts), shootable & acts], axis=1)

    of_enemies = of_enemies[:, ::-1] if options.jaxmarl else of_enemies
    return mask(acts[: battle.num_allies], of_allies), mask(acts[battle.num_allies :], of_enemies)


def decode(
    battle: Battle, options: Options, team: int, action: jax.Array, state: State, uniform: jax.Array, params: Params
) -> TeamOrders:
    """A team's orders from actions `[M, …]` (continuous `[M, 4, …]`); `uniform[2, N, …]` are draws in [0, 1)."""
    split = battle.num_allies
    own, other = (slice(None, split), slice(split, None))[:: -1 if team else 1]
    num_opponents = (battle.num_enemies, battle.num_allies)[team]
    if options.action_type == "continuous":
        bodies = bodies_of(state)
        us, them = (jax.tree.map(lambda v, rows=rows: v[rows], bodies) for rows in (own, other))
        last = orders_of.last_targets(state.attack, split)[team]
        if options.jaxmarl:
            return orders_of.continuous_jaxmarl(action, us, them, last, uniform[:, own])
        if team == 1:
            action = action.at[:, 3].set(0.5 - action[:, 3])
        reach = battle.stats(state.unit_type, params).range[own]
        return orders_of.continuous(action, us, them, reach, last)
    orders = orders_of.discrete(action, num_opponents)
    if team == 0:
        return orders
    if options.jaxmarl:
        return orders._replace(target=jnp.where(orders.target >= 0, num_opponents - 1 - orders.target, -1))
    return orders._replace(move_x=-orders.move_x)


def enemies(
    battle: Battle, options: Options, state: State, action: jax.Array, uniform: jax.Array, params: Params
) -> tuple[TeamOrders, scripted.Memory | scripted.Sometimes | None]:
    """The enemies' orders, from their `action[E, …]` or the script, and the script's memory; draws as in `decode`."""
    if state.memory is None:
        return decode(battle, options, 1, action, state, uniform, params), None
    if isinstance(state.memory, scripted.Memory):
        return _scripted_enemies(battle, options, state.memory, state, uniform, params)
    own, plays = state.memory
    by_script, own = _scripted_enemies(battle, options, own, state, uniform, params)
    chosen = decode(battle, options, 1, action, state, uniform, params)
    orders = jax.tree.map(lambda script, other: jnp.where(plays, script, other), by_script, chosen)
    return orders, scripted.Sometimes(own, plays)


def _scripted_enemies(
    battle: Battle, options: Options, memory: scripted.Memory, state: State, uniform: jax.Array, params: Params
) -> tuple[TeamOrders, scripted.Memory]:
    """The orders of the scripted enemies and their memory; `uniform[2, N, …]` are draws in [0, 1)."""
    allies, enemies = slice(None, battle.num_allies), slice(battle.num_allies, None)
    bodies, stats = bodies_of(state), battle.stats(state.unit_type, params)
    move, target, memory = scripted.decide(
        memory,
        jax.tree.map(lambda v: v[enemies], bodies),
        jax.tree.map(lambda v: v[allies], bodies),
        stats.range[enemies],
        stats.sight[enemies],
        uniform[:, enemies],
        shoots=options.enemy_shoots,
        attack_mode=options.attack_mode,
    )
    walk = orders_of.discrete(move, battle.num_allies)
    stays = target >= 0
    walk = walk._replace(move_x=jnp.where(stays, 0.0, walk.move_x), move_y=jnp.where(stays, 0.0, walk.move_y))
    return walk._replace(target=target), memory
