"""The options of a battle, checked in one place, its parameters and its state.

The leaves of a state begin with the unit axis. With B battles at once, the batch axis is first for users, and last
inside the kernel, where vectors over the batch keep the processor busy however few units there are.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import numpy as np

from jaxrl.config import typed
from jaxrl.envs.options import flag, one_of, whole
from jaxrl.envs.smax.dynamics import Bodies, Field
from jaxrl.envs.smax.orders import FIRST_ATTACK, Memory, Sometimes
from jaxrl.envs.smax.units import SCENARIOS, Scenario, UnitStats, parse_army, table
from jaxrl.errors import UnknownNameError, nearest
from jaxrl.spaces import Box, Discrete, Space

__all__ = ["EnemyPolicy", "Options", "Params", "State", "army", "bodies_of", "default_params", "field_of"]


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
    """The price for a team of losing all of its own health."""
    own_losses: Any
    """In self-play, how much of the opponents' reward a team loses: with 1 the two sum to zero. Otherwise None."""
    see_enemy_actions: Any
    """True if the last actions of visible opponents are seen."""
    walls_cause_death: Any
    """True if touching the map's border kills, as in JaxMARL; otherwise it only stops the unit."""
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


# (params.enemy, obs [E, D], action_mask [E, A], None where actions are continuous, key) -> action [E]
EnemyPolicy = Callable[[Any, jax.Array, jax.Array | None, jax.Array], jax.Array]

_SMALLEST_MAP = 8.0  # room for two teams and their jitter


@dataclasses.dataclass(frozen=True)
class Options:
    """The options that change the compiled program; see `SMAX`."""

    mode: str
    enemy: Any
    observation_type: str
    action_type: str
    attack_mode: str
    enemy_shoots: bool
    compat: str | None
    script_share: float = 0.0
    """The share of the battles in self-play in which the script plays the enemies all the same."""

    def __post_init__(self) -> None:
        one_of("mode", self.mode, ("enemy", "selfplay"))
        one_of("observation_type", self.observation_type, ("unit_list", "conic"))
        one_of("action_type", self.action_type, ("discrete", "continuous"))
        flag("enemy_shoots", self.enemy_shoots)
        one_of("attack_mode", self.attack_mode, ("closest", "random"))
        one_of("compat", self.compat, (None, "jaxmarl-0.2"))
        if not callable(self.enemy) and self.enemy != "scripted":
            raise ValueError(f'enemy must be "scripted" or a policy function, got {self.enemy!r}.')
        if not 0 <= self.script_share <= 1:
            raise ValueError(f"The script can play a share of the battles from 0 to 1, got {self.script_share}.")
        if callable(self.enemy) and self.mode == "selfplay":
            raise ValueError('In mode="selfplay" both teams are agents; leave `enemy` out, or use mode="enemy".')
        if callable(self.enemy) and (not self.enemy_shoots or self.attack_mode != "closest"):
            raise ValueError("enemy_shoots and attack_mode are for the scripted enemy; leave them out beside a policy.")

    def check_enemy_params(self, params: Any) -> None:
        """Raise ValueError if there are parameters, and no policy that would take them."""
        if params is not None and not callable(self.enemy):
            raise ValueError(
                "enemy_params are those of a policy that plays the enemy; give that as well, enemy=policy."
            )

    def action_space(self, num_opponents: int) -> Space:
        """The actions of a unit that may attack so many."""
        return Box(0.0, 1.0, (4,)) if self.action_type == "continuous" else Discrete(FIRST_ATTACK + num_opponents)

    @property
    def jaxmarl(self) -> bool:
        """True to repeat JaxMARL's faults."""
        return self.compat is not None


def army(
    scenario: str | Scenario | None,
    allies: str | Sequence[str] | None,
    enemies: str | Sequence[str] | None,
    spawn: Any,
    random_types: bool | None,
    names: tuple[str, ...],
) -> Scenario:
    """The scenario that a user's options describe. `names` are the existing unit types."""
    if allies is None:
        if enemies is not None:
            raise ValueError(f'enemies={enemies!r} needs allies as well, such as allies="3s5z".')
        chosen = "3m" if scenario is None else scenario
        if isinstance(chosen, str):
            if chosen not in SCENARIOS:
                hint = nearest(chosen, list(SCENARIOS))
                raise UnknownNameError(
                    f'SMAX has no scenario {chosen!r}. {hint} Or give allies="3s5z", enemies="3s6z".'
                )
            chosen = SCENARIOS[chosen]
        if not isinstance(chosen, Scenario):
            raise ValueError(f'scenario must be a name, such as "3m", or a Scenario, got {scenario!r}.')
    elif scenario is not None:
        raise ValueError(f"Give either a scenario ({scenario!r}) or allies ({allies!r}), not both.")
    else:
        team = parse_army(allies, names)
        chosen = Scenario(team, team if enemies is None else parse_army(enemies, names))
    spawn = chosen.spawn if spawn is None else spawn
    one_of("spawn", spawn, ("sides", "smacv2"))
    random_types = chosen.random_types if random_types is None else flag("random_types", random_types)
    return dataclasses.replace(chosen, spawn=spawn, random_types=random_types)


def default_params(
    types: Mapping[str, Any],
    map_size: float | tuple[float, float],
    max_steps: int,
    won_battle_bonus: float,
    damage_reward: float,
    damage_cost: float,
    own_losses: float | None,
    see_enemy_actions: bool,
    walls_cause_death: bool,
    enemy: Any,
    selfplay: bool,
) -> Params:
    """The parameters of a battle, checked, as NumPy arrays."""
    max_steps = whole("max_steps", max_steps)
    rewards = {"won_battle_bonus": won_battle_bonus, "damage_reward": damage_reward, "damage_cost": damage_cost}
    for name, number in rewards.items():
        typed(name, float, number)
    typed("own_losses", float | None, own_losses)
    typed("map_size", float | tuple[float, float], map_size)
    if own_losses is not None and not selfplay:
        raise ValueError('own_losses is for mode="selfplay", where teams have something to lose; leave it out.')
    if not 0 <= (own_losses or 0) < np.inf:
        raise ValueError(f"own_losses must be a number from 0 on, got {own_losses}.")
    suffered = np.float32(1.0 if own_losses is None else own_losses) if selfplay else None
    width, height = np.broadcast_to(np.asarray(map_size, np.float32), (2,))
    if not min(width, height) >= _SMALLEST_MAP:
        raise ValueError(f"map_size must be at least {_SMALLEST_MAP:g} map units each way, got {map_size}.")
    return Params(
        units=table(types),
        map_width=np.float32(width),
        map_height=np.float32(height),
        time_per_step=np.float32(1 / 16),
        max_steps=np.int32(max_steps),
        won_battle_bonus=np.float32(won_battle_bonus),
        damage_reward=np.float32(damage_reward),
        damage_cost=np.float32(damage_cost),
        own_losses=suffered,
        see_enemy_actions=np.bool_(flag("see_enemy_actions", see_enemy_actions)),
        walls_cause_death=np.bool_(flag("walls_cause_death", walls_cause_death)),
        enemy=enemy,
    )
