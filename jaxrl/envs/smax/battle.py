"""The kernel: one battle, or B at once, from spawn to spawn, independent of agents.

All arrays have the units first and a batch axis, if there is one, last: `[N, …]`.
"""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np

from jaxrl.envs.draws import uniform_rows
from jaxrl.envs.smax import orders as orders_of
from jaxrl.envs.smax import spawn
from jaxrl.envs.smax.dynamics import Bodies, Orders, inside, run_ticks
from jaxrl.envs.smax.observe import Surroundings
from jaxrl.envs.smax.scenarios import Scenario
from jaxrl.envs.smax.scripted import Memory, Sometimes
from jaxrl.envs.smax.state import Params, State, bodies_of, field_of
from jaxrl.envs.smax.units import UnitStats, stats_of

__all__ = ["TICKS", "Battle"]

TICKS = 8  # physics ticks per step
SPAWN_ROWS = 1 << 20  # where a spawn's draws begin in the stream of a key; a step's draws come before


@dataclasses.dataclass(frozen=True)
class Battle:
    """The part of a battle that is fixed at compilation."""

    scenario: Scenario
    num_types: int
    jaxmarl: bool = False
    """Whether to repeat JaxMARL 0.2's faults: spawns and pushes off the map, surplus enemies of the first type."""

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
            x, y = spawn.sides(uniform[:2], self.num_allies, field)
            kind = uniform[2]
        else:
            uniform = uniform_rows(key, 4 * num_units + spawn.NUM_SMACV2_DRAWS, SPAWN_ROWS)
            rows, extra = uniform[: 4 * num_units].reshape(4, num_units, *key.shape), uniform[4 * num_units :]
            x, y = spawn.smacv2(rows[:3], extra, self.num_allies, field, in_map=not self.jaxmarl)
            kind = rows[3]
        if self.scenario.random_types:
            types = spawn.random_types(kind, self.num_allies, self.num_types, surplus=not self.jaxmarl)
        return spawn.new_bodies(x, y, self.stats(types, params), field, in_map=not self.jaxmarl), types

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
