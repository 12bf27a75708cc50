"""SMAX, simplified multi-agent combat: `jaxrl.make("smax/3m")`, or your own battle with `jaxrl.make("smax", …)`."""

from jaxrl.envs.smax.env import SMAX, EnemyPolicy, Params, State
from jaxrl.envs.smax.many import mix, random_battles
from jaxrl.envs.smax.orders import MIXTURES, SCRIPTS, Script
from jaxrl.envs.smax.terrain import Zone
from jaxrl.envs.smax.units import (
    SCENARIOS,
    UNIT_NAMES,
    UNIT_TYPES,
    Scenario,
    UnitStats,
    UnitType,
    default_unit_stats,
    parse_army,
)
from jaxrl.registry import register

__all__ = [
    "MIXTURES",
    "SCENARIOS",
    "SCRIPTS",
    "SMAX",
    "UNIT_NAMES",
    "UNIT_TYPES",
    "EnemyPolicy",
    "Params",
    "Scenario",
    "Script",
    "State",
    "UnitStats",
    "UnitType",
    "Zone",
    "default_unit_stats",
    "mix",
    "parse_army",
    "random_battles",
]

register("smax", SMAX, aliases=("HeuristicEnemySMAX",))
register("smax/selfplay", SMAX, options={"mode": "selfplay"}, aliases=("SMAX",))
register("smax/random", random_battles)
register("smax/mix", mix)
for _name in SCENARIOS:
    register(f"smax/{_name}", SMAX, options={"scenario": _name}, aliases=(_name,))
