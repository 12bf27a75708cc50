"""The kernel: one battle, or B at once, from spawn to spawn; what each team sees and orders; what a step is worth.

All arrays have the units first and a batch axis, if there is one, last: `[N, …]`.

Team 0 is the allies. Team 1, the enemies, see and act mirrored: own units first, left and right swapped, opponents
numbered the way allies number theirs. So a policy cannot tell which side it plays, and one can play both. JaxMARL 0.2
(`options.jaxmarl`) instead shows the enemies the unmirrored map and the list of all units in reverse order.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxrl.envs.batching import uniform_rows
from jaxrl.envs.smax import abilities, dynamics, observe, orders, terrain
from jaxrl.envs.smax import orders as orders_of
from jaxrl.envs.smax.dynamics import Bodies, Orders, inside, run_ticks
from jaxrl.envs.smax.observe import Surroundings
from jaxrl.envs.smax.orders import Memory, Sometimes, TeamOrders
from jaxrl.envs.smax.state import Options, Params, State, bodies_of, field_of
from jaxrl.envs.smax.units import Scenario, UnitStats, stats_of

__all__ = ["TICKS", "Battle", "acting", "decode", "enemies", "masks", "observe_team", "outcome", "scripted"]

TICKS = 8  # physics ticks per step
SPAWN_ROWS = 1 << 20  # where a spawn's draws begin in the stream of a key; a step's draws come before


@dataclasses.dataclass(frozen=True)
class Battle:
    """The part of a battle that is fixed at compilation."""

    scenario: Scenario
    num_types: int
    heals: bool = False
    """True if there are healers, so that the last actions are to heal a mate."""
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

    def num_targets(self, team: int) -> int:
        """The units at which an action of this team can point: its opponents, and where there are healers its mates."""
        return self.num_units - 1 if self.heals else (self.num_enemies, self.num_allies)[team]

    def spawn(self, key: jax.Array, params: Params) -> tuple[Bodies, jax.Array]:
        """New bodies and their types, `[N, …]`, for keys `[…]`. Consumes the rows of `key` from `SPAWN_ROWS` on."""
        num_units, field = self.num_units, field_of(params)
        types = jnp.asarray(self.scenario.unit_types, jnp.int32).reshape(-1, *(1,) * key.ndim)
        types = jnp.broadcast_to(types, (num_units, *key.shape))
        if params.lineup is not None:
            lineup = params.lineup
            jitter = (2.0 * uniform_rows(key, 2 * num_units, SPAWN_ROWS) - 1.0).reshape(2, num_units, *key.shape)
            x = _beside(lineup.x, 1, key.ndim) + lineup.jitter * jitter[0]
            y = _beside(lineup.y, 1, key.ndim) + lineup.jitter * jitter[1]
            if self.scenario.variable:
                types = jnp.broadcast_to(_beside(lineup.unit_type, 1, key.ndim), x.shape)
            there = types >= 0 if self.scenario.variable else None
            return dynamics.new_bodies(x, y, self.stats(types, params), field, there=there), types
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
        unit_type: jax.Array,
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
        bonus = None if params.bonus is None else self.bonus(unit_type, params.bonus)
        strikes = abilities.strikes_of(stats, bonus)
        after = run_ticks(bodies, orders, stats, field, deviation, strikes, trace=trace)
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
        if self.heals:
            most = np.float32(first + self.num_targets(0) - 1)
            mirrored = jnp.where(attack < first + opponents, mirrored, attack)  # mates have the same numbers
        return Surroundings(
            bodies_of(state),
            self.stats(state.unit_type, params),
            self._one_hot(state.unit_type),
            state.move[:, 0],
            state.move[:, 1],
            attack.astype(jnp.float32) / most,
            mirrored.astype(jnp.float32) / most,
            state.heading,
        )

    def stats(self, unit_type: jax.Array, params: Params) -> UnitStats:
        """Statistics of units of types `[N, …]`: leaves `[N, …]`, or `[N, 1 …]` if all copies have the same."""
        if self._varies:
            return stats_of(params.units, unit_type)
        stats = stats_of(params.units, np.asarray(self.scenario.unit_types))
        return jax.tree.map(lambda v: v.reshape(v.shape + (1,) * (unit_type.ndim - v.ndim)), stats)

    @property
    def _varies(self) -> bool:
        """True if episodes differ in the types of units."""
        return self.scenario.random_types or self.scenario.variable

    def bonus(self, unit_type: jax.Array, table: jax.Array) -> jax.Array:
        """What a hit of each unit on each other adds, `[N, N, …]`, from the `table[K, K]` of types."""
        kinds = np.arange(self.num_types).reshape(1, -1, *(1,) * (unit_type.ndim - 1))
        is_type = unit_type[:, None] == kinds
        rows = jnp.where(is_type[:, :, None], _beside(table, 2, unit_type.ndim - 1)[None], 0.0).sum(1)  # [N, K, …]
        return jnp.where(is_type[None], rows[:, None], 0.0).sum(2)

    def sees(self, team: int, state: State, params: Params) -> jax.Array | None:
        """Which units of a team see which opponents past zones, and look their way: bool `[M, J, …]`; None: all do."""
        if params.zones is None and state.heading is None:
            return None
        bodies, (own, other) = bodies_of(state), self.teams[:: -1 if team else 1]
        seer, seen = (bodies.x[own], bodies.y[own]), (bodies.x[other], bodies.y[other])
        in_view = None
        if state.heading is not None:
            angle = self.stats(state.unit_type, params).sight_angle
            in_view = observe.in_view(seer, seen, state.heading[own], angle[own])
        if params.zones is None:
            return in_view
        # Lines are the same from both ends, so the program has them once.
        behind = terrain.blocked_lines(params.zones, *((seen, seer) if team else (seer, seen)))
        behind = behind.swapaxes(0, 1) if team else behind
        covered = terrain.hidden(params.zones, seer, seen)
        if bodies.exposed is not None:
            covered &= (bodies.exposed[other] <= 0)[None]
        flies = self.stats(state.unit_type, params).flies
        if flies is not None:
            behind &= ~flies[own][:, None] & ~flies[other][None]
            covered &= ~flies[other][None]
        visible = ~(behind | covered)
        return visible if in_view is None else visible & in_view

    def all_see(self, team: int, state: State, params: Params) -> jax.Array | None:
        """The same for mates, who always see each other, and opponents: bool `[M, N, …]`, own units first."""
        sees = self.sees(team, state, params)
        if sees is None:
            return None
        return jnp.concatenate([jnp.ones((len(sees), *sees.shape[:1], *sees.shape[2:]), bool), sees], axis=1)

    def can_shoot(self, team: int, state: State, params: Params) -> jax.Array | None:
        """Which units of a team can shoot which opponents, were they in range: bool `[M, J, …]`; None: all can."""
        if params.zones is None and params.units.flies is None and state.heading is None:
            return None
        own, other = self.teams[:: -1 if team else 1]
        sees, hits = self.sees(team, state, params), abilities.can_hit(self.stats(state.unit_type, params), own, other)
        if sees is None or hits is None:
            return hits if sees is None else sees
        return sees & hits

    @property
    def teams(self) -> tuple[slice, slice]:
        """The rows of the allies, and of the enemies."""
        return slice(None, self.num_allies), slice(self.num_allies, None)

    def _one_hot(self, unit_type: jax.Array) -> jax.Array:
        """One-hot types `[N, K, …]`, or `[N, K, 1 …]` if all copies have the same types."""
        kinds = np.arange(self.num_types).reshape(1, -1, *(1,) * (unit_type.ndim - 1))
        if self._varies:
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
        heading: jax.Array | None = None,
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
            shield=bodies.shield,
            unhurt=bodies.unhurt,
            energy=bodies.energy,
            exposed=bodies.exposed,
            heading=heading,
        )

    def heading(self, state: State, orders: Orders) -> jax.Array | None:
        """Where units look after a step with these orders, `[N, 2, …]`: at their target, or the way they walk."""
        if state.heading is None:
            return None
        aims = dynamics.aims_of(orders)
        if orders.patient is not None:
            aims = jnp.maximum(aims, orders.patient)
        place = jnp.stack(
            [dynamics.gather(axis, aims) for axis in (state.position[:, 0], state.position[:, 1])], axis=1
        )
        move = jnp.stack([orders.move_x, orders.move_y], axis=1)
        way = jnp.where((aims >= 0)[:, None], place - state.position, move)
        length = jnp.sqrt((way * way).sum(1, keepdims=True))
        return jnp.where(length > 0, way / jnp.maximum(length, 1e-6), state.heading)

    def first_heading(self, unit_type: jax.Array, params: Params) -> jax.Array | None:
        """Where units look at the start of a battle, `[N, 2, …]`: to the other side."""
        if params.units.sight_angle is None:
            return None
        side = np.where(np.arange(self.num_units) < self.num_allies, 1.0, -1.0)
        x = jnp.broadcast_to(side.reshape(-1, *(1,) * (unit_type.ndim - 1)), unit_type.shape).astype(jnp.float32)
        return jnp.stack([x, jnp.zeros_like(x)], axis=1)


def _beside(leaf: Any, axes: int, batch_ndim: int) -> jax.Array:
    """A parameter with `axes` axes of its own, and batch axes or none, to stand beside arrays with `batch_ndim`."""
    leaf = jnp.asarray(leaf)
    return leaf if leaf.ndim == axes + batch_ndim else leaf.reshape(*leaf.shape, *(1,) * batch_ndim)


def observe_team(battle: Battle, options: Options, team: int, state: State, params: Params) -> jax.Array:
    """The observations of the M units of a team, `[M, D, …]`."""
    size = (params.map_width, params.map_height)
    count = (battle.num_allies, battle.num_enemies)[team]
    surroundings = battle.surroundings(state, params)
    zones, sees = params.zones, battle.all_see(team, state, params)
    if team == 1 and not options.jaxmarl:
        surroundings = observe.mirror(surroundings, battle.num_allies, params.map_width)
        zones = None if zones is None else dataclasses.replace(zones, x=params.map_width - zones.x)
    if options.observation_type == "conic":
        own = slice(battle.num_allies, None) if team == 1 and options.jaxmarl else slice(None, count)
        seen = observe.conic(surroundings, own, params.see_enemy_actions, size, sees, jaxmarl=options.jaxmarl)
        return observe.with_zones(seen, surroundings, zones, size)
    if team == 1 and options.jaxmarl:
        return observe.unit_list(observe.flip(surroundings), count, params.see_enemy_actions, size)[::-1]
    seen = observe.unit_list(surroundings, count, params.see_enemy_actions, size, sees)
    return observe.with_zones(seen, surroundings, zones, size)


def acting(battle: Battle, state: State) -> jax.Array:
    """Which units are alive, and not the script's where it plays some of the battles: bool `[N, …]`."""
    if not isinstance(state.memory, orders_of.Sometimes):
        return state.alive
    return state.alive.at[battle.num_allies :].set(state.alive[battle.num_allies :] & ~state.memory.plays)


def masks(battle: Battle, options: Options, state: State, params: Params) -> tuple[jax.Array, jax.Array]:
    """Which discrete actions the allies and the enemies can choose: bool `[A, 5 + E, …]`, `[E, 5 + A, …]`."""
    reach = battle.stats(state.unit_type, params).range
    teams = observe.in_range(bodies_of(state), reach, battle.num_allies)
    of_allies, of_enemies = (_targets(battle, team, in_range, state, params) for team, in_range in enumerate(teams))
    acts = acting(battle, state)[:, None]

    def mask(acts: jax.Array, shootable: jax.Array) -> jax.Array:
        return jnp.concatenate([jnp.repeat(acts, 4, axis=1), jnp.ones_like(acts), shootable & acts], axis=1)

    of_enemies = of_enemies[:, ::-1] if options.jaxmarl else of_enemies
    return mask(acts[: battle.num_allies], of_allies), mask(acts[battle.num_allies :], of_enemies)


def _targets(battle: Battle, team: int, in_range: jax.Array, state: State, params: Params) -> jax.Array:
    """At whom the units of a team can point, bool `[M, num_targets, …]`, given which opponents are in range."""
    allowed = battle.can_shoot(team, state, params)
    in_range = in_range if allowed is None else in_range & allowed
    if params.units.heal is None:
        return in_range
    stats, own = battle.stats(state.unit_type, params), battle.teams[team]
    bodies, heals = jax.tree.map(lambda leaf: leaf[own], bodies_of(state)), (stats.heal[own] > 0)[:, None]
    dx, dy = bodies.x[:, None] - bodies.x[None], bodies.y[:, None] - bodies.y[None]
    near = dx * dx + dy * dy < jnp.square(stats.range[own])[:, None]
    needs = (bodies.health > 0) & (bodies.health < stats.health[own])
    mates = observe.without_self(near & needs[None] & (bodies.health > 0)[:, None] & heals)
    return jnp.concatenate([in_range & ~heals, mates], axis=1)


def decode(
    battle: Battle, options: Options, team: int, action: jax.Array, state: State, uniform: jax.Array, params: Params
) -> TeamOrders:
    """A team's orders from actions `[M, …]` (continuous `[M, 4, …]`); `uniform[2, N, …]` are draws in [0, 1)."""
    return _possible(battle, team, _decoded(battle, options, team, action, state, uniform, params), state, params)


def _decoded(
    battle: Battle, options: Options, team: int, action: jax.Array, state: State, uniform: jax.Array, params: Params
) -> TeamOrders:
    """The orders as they are given, possible or not."""
    own, other = battle.teams[:: -1 if team else 1]
    num_targets = battle.num_targets(team)
    if options.action_type == "continuous":
        bodies = bodies_of(state)
        us, them = (jax.tree.map(lambda v, rows=rows: v[rows], bodies) for rows in (own, other))
        last = orders_of.last_targets(state.attack, battle.num_allies)[team]
        if options.jaxmarl:
            return orders_of.continuous_jaxmarl(action, us, them, last, uniform[:, own])
        if team == 1:
            action = action.at[:, 3].set(0.5 - action[:, 3])
        reach = battle.stats(state.unit_type, params).range[own]
        return orders_of.continuous(action, us, them, reach, last)
    orders = orders_of.discrete(action, num_targets)
    if team == 0:
        return orders
    if options.jaxmarl:
        return orders._replace(target=jnp.where(orders.target >= 0, num_targets - 1 - orders.target, -1))
    return orders._replace(move_x=-orders.move_x)


def enemies(
    battle: Battle,
    options: Options,
    state: State,
    action: jax.Array,
    uniform: jax.Array,
    params: Params,
    draws: jax.Array | None = None,
) -> tuple[TeamOrders, orders_of.Memory | orders.Sometimes | None]:
    """The enemies' orders, from their `action[E, …]` or the script, and the script's memory; draws as in `decode`.

    `draws[NUM_SCRIPT_DRAWS, N, …]` are for `params.scripts`.
    """
    if state.memory is None:
        return decode(battle, options, 1, action, state, uniform, params), None
    if isinstance(state.memory, orders_of.Memory):
        return scripted(battle, options, 1, state.memory, state, uniform, params, draws)
    own, plays = state.memory
    by_script, own = scripted(battle, options, 1, own, state, uniform, params, draws)
    chosen = decode(battle, options, 1, action, state, uniform, params)
    orders = jax.tree.map(lambda script, other: jnp.where(plays, script, other), by_script, chosen)
    return orders, orders_of.Sometimes(own, plays)


def scripted(
    battle: Battle,
    options: Options,
    team: int,
    memory: orders_of.Memory,
    state: State,
    uniform: jax.Array,
    params: Params,
    draws: jax.Array | None = None,
) -> tuple[TeamOrders, orders_of.Memory]:
    """The orders of a scripted team and its memory; `uniform[2, N, …]` and `draws` are in [0, 1)."""
    own, other = battle.teams[:: -1 if team else 1]
    bodies, stats = bodies_of(state), battle.stats(state.unit_type, params)
    us = jax.tree.map(lambda v: v[own], bodies)
    them, reach, sight, heals = jax.tree.map(lambda v: v[other], bodies), stats.range[own], stats.sight[own], stats.heal
    view = orders_of.TeamView(us, them, reach, sight, battle.sees(team, state, params))
    if stats.flies is not None:
        view = view._replace(can_hit=abilities.can_hit(stats, own, other))
    script = None
    if memory.script is not None:
        number = memory.script
        script = jax.tree.map(lambda rows: _row_of(rows, number), params.scripts)
        they_heal = None if heals is None else heals[other] > 0
        view = view._replace(their_reach=stats.range[other], max_health=stats.health[own], they_heal=they_heal)
    move, target, memory = orders_of.decide(
        memory,
        view,
        uniform[:, own],
        shoots=options.enemy_shoots,
        attack_mode=options.attack_mode,
        script=script,
        draws=None if draws is None else draws[:, own],
    )
    walk = orders_of.discrete(move, battle.num_allies)
    stays = target >= 0
    walk = walk._replace(move_x=jnp.where(stays, 0.0, walk.move_x), move_y=jnp.where(stays, 0.0, walk.move_y))
    walk = walk._replace(target=target)
    if heals is not None:
        walk = orders_of.care(heals[own] > 0, us, stats.health[own], walk)
    return _possible(battle, team, walk, state, params), memory


def _row_of(rows: Any, index: jax.Array) -> jax.Array:
    """`rows[index]` for parameters `[R]` or `[R, …]` and `index[…]`."""
    rows = _beside(rows, 1, index.ndim)
    out = jnp.broadcast_to(rows[0], index.shape)
    for number in range(1, len(rows)):
        out = jnp.where(index == number, rows[number], out)
    return out


def _possible(battle: Battle, team: int, orders: TeamOrders, state: State, params: Params) -> TeamOrders:
    """The orders of a team without what its units cannot do; those of healers are orders to heal."""
    allowed = battle.can_shoot(team, state, params)
    if params.units.heal is None and allowed is None:
        return orders
    heal = battle.stats(state.unit_type, params).heal
    heals = None if heal is None else heal[battle.teams[team]] > 0
    return orders_of.possible(orders, heals, allowed, len(state.health) - len(orders.target))


def outcome(
    battle: Battle,
    options: Options,
    before: Bodies,
    after: Bodies,
    stats: UnitStats,
    step: jax.Array,
    params: Params,
    there: jax.Array | None = None,
) -> tuple[jax.Array, jax.Array, jax.Array, dict[str, jax.Array]]:
    """`(reward[N, …], terminated, truncated, info)` of a step; `step` already includes it.

    `there[N, …]` says which places are taken; None: all.
    """
    selfplay = options.mode == "selfplay"
    allies, enemies = battle.teams
    dead = after.health <= 0
    allies_dead, enemies_dead = dead[allies].all(0), dead[enemies].all(0)
    won, lost = enemies_dead & ~allies_dead, allies_dead & ~enemies_dead
    hurt = (before.health - after.health) / stats.health
    if before.shield is not None and after.shield is not None:
        hurt = (before.health - after.health + before.shield - after.shield) / (stats.health + stats.shield)
    dealt, taken = hurt[enemies].mean(0), hurt[allies].mean(0)
    if there is not None:  # places that are free do not count
        dealt, taken = (hurt[team].sum(0) / jnp.maximum(there[team].sum(0), 1) for team in (enemies, allies))
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
