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
from jaxrl.envs.options import flag, one_of, part, whole
from jaxrl.envs.smax.dynamics import Bodies, Field
from jaxrl.envs.smax.orders import FIRST_ATTACK, MIXTURES, SCRIPTS, Memory, Script, Sometimes
from jaxrl.envs.smax.terrain import Zones, zones_of
from jaxrl.envs.smax.units import SCENARIOS, Scenario, UnitStats, parse_army, table
from jaxrl.spaces import Box, Discrete, Space

__all__ = [
    "EnemyPolicy",
    "Lineup",
    "Options",
    "Params",
    "State",
    "army",
    "bodies_of",
    "default_params",
    "field_of",
    "scripts_of",
]


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
    bonus: Any = None
    """Damage that a hit of the first type on the second adds, `[K, K]`; None without armour, hits and bonuses."""
    scripts: Any = None
    """The scripts that may play the enemies, a `Script` of arrays `[R]`; None for JaxMARL's."""
    zones: Zones | None = None
    """Zones of the map, leaves `[Z]`."""
    lineup: Lineup | None = None
    """Where units begin, and who is there, leaves `[N]`; None where teams begin by the scenario's `spawn`."""


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Lineup:
    """Who is there, and where: places for N units, allies first, some of which may be free."""

    x: Any
    """`[N]`, map units."""
    y: Any
    jitter: Any
    """How far from its place a unit may begin, in each direction."""
    unit_type: Any = None
    """int32 `[N]`, an index into the unit types, or -1 for nobody; None where the scenario fixes who is there."""


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
    shield: jax.Array | None = None
    """`[N]`, what is left of the shields; this and what follows is None where no unit has it."""
    unhurt: jax.Array | None = None
    """`[N]` seconds since a unit with a shield was hit."""
    energy: jax.Array | None = None
    """`[N]`, what healers have left."""
    exposed: jax.Array | None = None
    """`[N]` seconds for which cover does not hide a unit, because it has shot; None without zones."""
    heading: jax.Array | None = None
    """`[N, 2]`, the direction in which a unit looks; None where all see all around."""

    @property
    def alive(self) -> jax.Array:
        """Which units are alive, bool `[N]`."""
        return self.health > 0


def bodies_of(state: State) -> Bodies:
    """The physical part of a state, `[N, …]`."""
    x, y, more = state.position[:, 0], state.position[:, 1], (state.shield, state.unhurt, state.energy, state.exposed)
    return Bodies(x, y, state.health, state.cooldown, *more)


def field_of(params: Params) -> Field:
    """The map and its clock."""
    border = params.walls_cause_death
    return Field(params.map_width, params.map_height, params.time_per_step, border, params.zones)


# (params.enemy, obs [E, D], action_mask [E, A], None where actions are continuous, key) -> action [E]
EnemyPolicy = Callable[[Any, jax.Array, jax.Array | None, jax.Array], jax.Array]

SMALLEST_MAP = 8.0  # room for two teams and their jitter


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
    scripted_by: tuple[Script, ...] | None = None
    """The scripts of which one is drawn in each episode; None for JaxMARL's."""
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
        own_ways = not self.enemy_shoots or self.attack_mode != "closest"
        if callable(self.enemy) and (own_ways or self.scripted_by is not None):
            raise ValueError(
                "enemy_shoots, attack_mode and script are for the scripted enemy; leave them out beside a policy."
            )
        if own_ways and self.scripted_by is not None:
            raise ValueError("enemy_shoots and attack_mode are for JaxMARL's script; leave them out beside a script.")

    def check_enemy_params(self, params: Any) -> None:
        """Raise ValueError if there are parameters, and no policy that would take them."""
        if params is not None and not callable(self.enemy):
            raise ValueError(
                "enemy_params are those of a policy that plays the enemy; give that as well, enemy=policy."
            )

    def action_space(self, num_targets: int) -> Space:
        """The actions of a unit that may point at so many."""
        return Box(0.0, 1.0, (4,)) if self.action_type == "continuous" else Discrete(FIRST_ATTACK + num_targets)

    def check_rules(self, params: Params) -> None:
        """Raise ValueError if a battle has rules that these options do not go with."""
        if self.jaxmarl and any(group is not None for group in _groups(params)):
            raise ValueError(
                "compat repeats JaxMARL, which has no scripts, zones, places or further abilities of units."
            )
        if self.action_type == "continuous" and params.units.heal is not None:
            raise ValueError("Healers have no continuous actions; leave action_type out.")

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
        chosen = SCENARIOS["3m"] if scenario is None else scenario
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


def scripts_of(script: Any) -> tuple[Script, ...] | None:
    """The scripts behind the option `script`: a name of `SCRIPTS` or `MIXTURES`, a `Script`, or several of these.

    Raises:
        ValueError: It is none of them, or a number is out of range.
    """
    if script is None:
        return None
    several = isinstance(script, Sequence) and not isinstance(script, str | Script)
    names = MIXTURES.get(script, (script,)) if isinstance(script, str) else script if several else (script,)
    rows = []
    for row in [SCRIPTS.get(name) if isinstance(name, str) else name for name in names] or [None]:
        if not isinstance(row, Script):
            known = ", ".join((*SCRIPTS, *MIXTURES))
            raise ValueError(f"script must be one of {known}, a Script(…), or a list of these; got {script!r}.")
        one_of("focus of a script", row.focus, (0, 1, 2))
        one_of("chase of a script", row.chase, (0, 1))
        for name in ("random", "kite", "retreat"):
            part(f"{name} of a script", getattr(row, name))
        rows.append(row)
    return tuple(rows)


def default_params(
    types: Mapping[str, Any],
    won_battle_bonus: float,
    damage_reward: float,
    damage_cost: float,
    own_losses: float | None,
    see_enemy_actions: bool,
    enemy: Any,
    selfplay: bool,
    scenario: Scenario,
    scripts: tuple[Script, ...] | None,
) -> Params:
    """The parameters of a battle, checked, as NumPy arrays."""
    map_size, max_steps = scenario.map_size, whole("max_steps", scenario.max_steps)
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
    if not min(width, height) >= SMALLEST_MAP:
        raise ValueError(f"map_size must be at least {SMALLEST_MAP:g} map units each way, got {map_size}.")
    used = range(len(types)) if scenario.random_types or scenario.variable else set(scenario.unit_types)
    units, bonus = table(types, used)
    return Params(
        units=units,
        map_width=np.float32(width),
        map_height=np.float32(height),
        time_per_step=np.float32(1 / 16),
        max_steps=np.int32(max_steps),
        won_battle_bonus=np.float32(won_battle_bonus),
        damage_reward=np.float32(damage_reward),
        damage_cost=np.float32(damage_cost),
        own_losses=suffered,
        see_enemy_actions=np.bool_(flag("see_enemy_actions", see_enemy_actions)),
        walls_cause_death=np.bool_(scenario.deadly_border),
        enemy=enemy,
        bonus=bonus,
        scripts=None if scripts is None else Script(*np.asarray(scripts, np.float32).T),
        zones=zones_of(scenario.zones),
        lineup=_lineup(scenario),
    )


def _groups(params: Params) -> tuple[Any, ...]:
    """What only some battles have."""
    of_units = (
        getattr(params.units, name)
        for name in ("shield", "regen", "armour", "splash", "suicide", "heal", "flies", "sight_angle")
    )
    return (params.scripts, params.zones, params.lineup, *of_units)


def _lineup(scenario: Scenario) -> Lineup | None:
    if not scenario.places:
        return None
    if len(scenario.places) != len(scenario.unit_types):
        raise ValueError(f"There are {len(scenario.unit_types)} units, but {len(scenario.places)} places.")
    x, y = np.asarray(scenario.places, np.float32).T
    types = np.asarray(scenario.unit_types, np.int32) if scenario.variable else None
    return Lineup(x, y, np.float32(scenario.jitter), types)
