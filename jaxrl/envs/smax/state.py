"""The parameters and the state of a battle.

The leaves of a state begin with the unit axis. With B battles at once, the batch axis is first for users, and last
inside the kernel, where vectors over the batch keep the processor busy however few units there are.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import jax

from jaxrl.envs.smax.dynamics import Bodies, Field
from jaxrl.envs.smax.scripted import Memory, Sometimes
from jaxrl.envs.smax.units import UnitStats

__all__ = ["Params", "State", "bodies_of", "field_of"]


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Params:
    """Everything about a battle that can vary without recompilation; `vmap` over it for many different battles."""

    units: UnitStats
    """Statistics of the unit types, leaves `[K]`."""
    map_width: Any
    map_height: Any
    time_per_step: Any
    """Seconds per tick; a step has eight ticks."""
    max_steps: Any
    """Steps after which an undecided battle is truncated."""
    won_battle_bonus: Any
    """Reward for a win, in the step that wins."""
    damage_reward: Any
    """Reward for taking all of the opponents' health."""
    damage_cost: Any
    """What it costs a team to lose all of its own health."""
    own_losses: Any
    """In self-play, how much of the opponents' reward a team loses: with 1 the two sum to zero. Otherwise None."""
    see_enemy_actions: Any
    """Whether the last actions of visible opponents are seen."""
    walls_cause_death: Any
    """Whether touching the map's border kills (as in JaxMARL) or only stops the unit."""
    enemy: Any = None
    """Parameters of the policy that plays the enemy, if there is one."""


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class State:
    """A battle: A allies, then E enemies, N in all."""

    position: jax.Array
    """`[N, 2]`, map units, origin at the bottom left."""
    health: jax.Array
    """`[N]`; a unit is alive while it is positive."""
    cooldown: jax.Array
    """`[N]` seconds until the weapon is ready; negative after a wait."""
    unit_type: jax.Array
    """`[N]` int32, index into the unit types."""
    move: jax.Array
    """`[N, 2]`, direction walked in the last step."""
    attack: jax.Array
    """`[N]` int32, the last action if it was an attack, otherwise 0: `5 + k` is an ally attacking enemy k, or an enemy
    attacking ally `A - 1 - k` (enemies count from the other end, as in JaxMARL)."""
    memory: Memory | Sometimes | None
    """The memory of the scripted enemies, leaves `[E]`; None if there are none."""
    step: jax.Array
    """int32, steps since the episode began."""

    @property
    def alive(self) -> jax.Array:
        """Which units are alive, bool `[N]`."""
        return self.health > 0


def bodies_of(state: State) -> Bodies:
    """The physical part of a state, `[N, …]`."""
    return Bodies(state.position[:, 0], state.position[:, 1], state.health, state.cooldown)


def field_of(params: Params) -> Field:
    """The map and its clock."""
    return Field(params.map_width, params.map_height, params.time_per_step, params.walls_cause_death)
