"""The kernel: one battle, or B at once, from spawn to spawn; what each team sees and orders; what a step is worth.

All arrays have the units first and a batch axis, if there is one, last: `[N, …]`.

Team 0 is the allies. Team 1, the enemies, see and act mirrored: own units first, left and right swapped, opponents
numbered the way allies number theirs. So a policy cannot tell which side it plays, and one can play both. JaxMARL 0.2
(`options.jaxmarl`) instead shows the enemies the unmirrored map and the list of all units in reverse order.
"""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np

from jaxrl.envs.batching import uniform_rows
from jaxrl.envs.smax import dynamics, observe, orders
from jaxrl.envs.smax import orders as orders_of
from jaxrl.envs.smax.dynamics import Bodies, Orders, inside, run_ticks
from jaxrl.envs.smax.observe import Surroundings
from jaxrl.envs.smax.orders import Memory, Sometimes, TeamOrders
from jaxrl.envs.smax.state import Options, Params, State, bodies_of, field_of
from jaxrl.envs.smax.units import Scenario, UnitStats, stats_of

__all__ = ["TICKS", "Battle", "acting", "decode", "enemies", "masks", "observe_team", "outcome"]

TICKS = 8  # physics ticks per step
SPAWN_ROWS = 1 << 20  # where a spawn's draws begin in the stream of a key; a step's draws come before


@dataclasses.dataclass(frozen=True)
class Battle:
    """The part of a battle that is fixed at compilation."""

    scenario: Scenario
    num_types: int
    jaxmarl: bool = False
    """True to repeat JaxMARL 0.2's faults: spawns and pushes off the map, surplus enemies of the first type."""

    @property
    def num_allies(self) -> int:
        """A, the number of allies."""
        return len(self.scenario.allies)

    @property
    def num_enemies(self) -> int:
        """E, the number of enemies."""
        return len(self.scenario.enemies)

    @property
    def num_units(self) -> int:
        """N, the number of units."""
        return self.num_allies + self.num_enemies

    def spawn(self, key: jax.Array, params: Params) -> tuple[Bodies, jax.Array]:
        """New bodies and their types, `[N, …]`, for keys `[…]`. Consumes the rows of `key` from `SPAWN_ROWS` on."""
        num_units, field = self.num_units, field_of(params)
        types = jnp.asarray(self.scenario.unit_types, jnp.int32).reshape(-1, *(1,) * key.ndim)
        types = jnp.broadcast_to(types, (num_units, *key.shape))
        if self.scenario.spawn == "sides":
            uniform = uniform_rows(key, 3 * num_units, SPAWN_ROWS).reshape(3, num_units, *key.shape)
            x, y = dynamics.sides(uniform[:2], self.num_allies, field)
            kind = uniform[2]
        else:
            uniform = uniform_rows(key, 4 * num_units + dynamics.NUM_SMACV2_DRAWS, SPAWN_ROWS)
            rows, extra = uniform[: 4 * num_units].reshape(4, num_units, *key.shape), uniform[4 * num_units :]
            x, y = dynamics.smacv2(rows[:3], extra, self.num_allies, field, in_map=not self.jaxmarl)
            kind = rows[3]
        if self.scenario.random_types:
            types = dynamics.random_types(kind, self.num_allies, self.num_types, surplus=not self.jaxmarl)
        return dynamics.new_bodies(x, y, self.stats(types, params), field, in_map=not self.jaxmarl), types

    def fight(
        self,
        bodies: Bodies,
        orders: Orders,
        stats: UnitStats,
        params: Params,
        deviation: jax.Array,
        trace: bool = False,
    ) -> Bodies:
        """The bodies one step later; with `trace`, after each tick, leaves `[8, N, …]`.

        `deviation[8, N, …]` is added to the cooldown of a weapon fired in that tick, in seconds.
        """
        field = field_of(params)
        after = run_ticks(bodies, orders, stats, field, deviation, trace=trace)
        return after if self.jaxmarl else inside(after, field)

    def deviation(self, uniform: jax.Array, params: Params) -> jax.Array:
        """For `fight`: -1 to +2 ticks, from draws `[N, …]`. One per step suffices, since no unit shoots twice in it."""
        deviation = (3.0 * uniform - 1.0) * params.time_per_step
        return jnp.broadcast_to(deviation, (TICKS, *deviation.shape))

    def surroundings(self, state: State, params: Params) -> Surroundings:
        """Everything that observations are made from, `[N, …]`."""
        opponents = np.where(np.arange(self.num_units) < self.num_allies, self.num_enemies, self.num_allies)
        opponents = opponents.reshape(-1, *(1,) * (state.health.ndim - 1))
        attack = state.attack
        first = orders_of.FIRST_ATTACK
        most = (first + opponents - 1).astype(np.float32)
        mirrored = jnp.where(attack >= first, 2 * first + opponents - 1 - attack, 0)
        return Surroundings(
            bodies_of(state),
            self.stats(state.unit_type, params),
            self._one_hot(state.unit_type),
            state.move[:, 0],
            state.move[:, 1],
            attack.astype(jnp.float32) / most,
            mirrored.astype(jnp.float32) / most,
        )

    def stats(self, unit_type: jax.Array, params: Params) -> UnitStats:
        """Statistics of units of types `[N, …]`: leaves `[N, …]`, or `[N, 1 …]` if all copies have the same."""
        if self.scenario.random_types:
            return stats_of(params.units, unit_type)
        stats = stats_of(params.units, np.asarray(self.scenario.unit_types))
        return jax.tree.map(lambda v: v.reshape(v.shape + (1,) * (unit_type.ndim - v.ndim)), stats)

    def _one_hot(self, unit_type: jax.Array) -> jax.Array:
        """One-hot types `[N, K, …]`, or `[N, K, 1 …]` if all copies have the same types."""
        kinds = np.arange(self.num_types).reshape(1, -1, *(1,) * (unit_type.ndim - 1))
        if self.scenario.random_types:
            return (unit_type[:, None] == kinds).astype(jnp.float32)
        own = np.asarray(self.scenario.unit_types).reshape(-1, *(1,) * unit_type.ndim)
        return jnp.asarray((own == kinds).astype(np.float32))

    def pack(
        self,
        bodies: Bodies,
        unit_type: jax.Array,
        orders: Orders | None,
        memory: Memory | Sometimes | None,
        step: jax.Array,
    ) -> State:
        """The kernel's arrays as a state; without orders, no unit has moved or attacked yet."""
        still = jnp.zeros_like(bodies.x)
        move = (still, still) if orders is None else (orders.move_x, orders.move_y)
        return State(
            position=jnp.stack([bodies.x, bodies.y], axis=1),
            health=bodies.health,
            cooldown=bodies.cooldown,
            unit_type=unit_type,
            move=jnp.stack(move, axis=1),
            attack=jnp.zeros_like(unit_type) if orders is None else orders_of.attack_action(orders),
            memory=memory,
            step=step,
        )


def observe_team(battle: Battle, options: Options, team: int, state: State, params: Params) -> jax.Array:
    """The observations of the M units of a team, `[M, D, …]`."""
    size = (params.map_width, params.map_height)
    count = (battle.num_allies, battle.num_enemies)[team]
    surroundings = battle.surroundings(state, params)
    if team == 1 and not options.jaxmarl:
        surroundings = observe.mirror(surroundings, battle.num_allies, params.map_width)
    if options.observation_type == "conic":
        own = slice(battle.num_allies, None) if team == 1 and options.jaxmarl else slice(None, count)
        return observe.conic(surroundings, own, params.see_enemy_actions, size, jaxmarl=options.jaxmarl)
    if team == 1 and options.jaxmarl:
        return observe.unit_list(observe.flip(surroundings), count, params.see_enemy_actions, size)[::-1]
    return observe.unit_list(surroundings, count, params.see_enemy_actions, size)


def acting(battle: Battle, state: State) -> jax.Array:
    """Which units are alive, and not the script's where it plays some of the battles: bool `[N, …]`."""
    if not isinstance(state.memory, orders_of.Sometimes):
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
) -> tuple[TeamOrders, orders_of.Memory | orders.Sometimes | None]:
    """The enemies' orders, from their `action[E, …]` or the script, and the script's memory; draws as in `decode`."""
    if state.memory is None:
        return decode(battle, options, 1, action, state, uniform, params), None
    if isinstance(state.memory, orders_of.Memory):
        return _scripted_enemies(battle, options, state.memory, state, uniform, params)
    own, plays = state.memory
    by_script, own = _scripted_enemies(battle, options, own, state, uniform, params)
    chosen = decode(battle, options, 1, action, state, uniform, params)
    orders = jax.tree.map(lambda script, other: jnp.where(plays, script, other), by_script, chosen)
    return orders, orders_of.Sometimes(own, plays)


def _scripted_enemies(
    battle: Battle, options: Options, memory: orders_of.Memory, state: State, uniform: jax.Array, params: Params
) -> tuple[TeamOrders, orders_of.Memory]:
    """The orders of the scripted enemies and their memory; `uniform[2, N, …]` are draws in [0, 1)."""
    allies, enemies = slice(None, battle.num_allies), slice(battle.num_allies, None)
    bodies, stats = bodies_of(state), battle.stats(state.unit_type, params)
    move, target, memory = orders_of.decide(
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


def outcome(
    battle: Battle, options: Options, before: Bodies, after: Bodies, stats: UnitStats, step: jax.Array, params: Params
) -> tuple[jax.Array, jax.Array, jax.Array, dict[str, jax.Array]]:
    """`(reward[N, …], terminated, truncated, info)` of a step; `step` already includes it."""
    selfplay = options.mode == "selfplay"
    allies, enemies = slice(None, battle.num_allies), slice(battle.num_allies, None)
    dead = after.health <= 0
    allies_dead, enemies_dead = dead[allies].all(0), dead[enemies].all(0)
    won, lost = enemies_dead & ~allies_dead, allies_dead & ~enemies_dead
    hurt = (before.health - after.health) / stats.health
    dealt, taken = hurt[enemies].mean(0), hurt[allies].mean(0)
    gain = dealt * params.damage_reward + jnp.where(won, params.won_battle_bonus, 0.0)
    reward = jnp.broadcast_to(gain - taken * params.damage_cost, (battle.num_allies, *gain.shape))
    if selfplay:
        loss = taken * params.damage_reward + jnp.where(lost, params.won_battle_bonus, 0.0)
        theirs = loss - params.own_losses * gain - dealt * params.damage_cost
        theirs = jnp.broadcast_to(theirs, (battle.num_enemies, *gain.shape))
        reward = jnp.concatenate([reward - params.own_losses * loss, theirs])
    decided = allies_dead | enemies_dead
    if options.jaxmarl:  # one more step, and the clock ends an episode as if it were decided
        return reward, decided | (step > params.max_steps), jnp.zeros_like(decided), {"won": won}
    return reward, decided, (step >= params.max_steps) & ~decided, {"won": won}
