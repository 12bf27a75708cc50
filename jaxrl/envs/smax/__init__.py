"""SMAX, simplified multi-agent combat: `jaxrl.make("smax/3m")`, or your own battle with `jaxrl.make("smax", …)`."""

from jaxrl.envs.smax.env import SMAX, EnemyPolicy, Params, State
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
    "SCENARIOS",
    "SMAX",
    "UNIT_NAMES",
    "UNIT_TYPES",
    "EnemyPolicy",
    "Params",
    "Scenario",
    "State",
    "UnitStats",
    "UnitType",
    "default_unit_stats",
    "parse_army",
]

register("smax", SMAX, aliases=("HeuristicEnemySMAX",))
register("smax/selfplay", SMAX, options={"mode": "selfplay"}, aliases=("SMAX",))
for _name in SCENARIOS:
    register(f"smax/{_name}", SMAX, options={"scenario": _name}, aliases=(_name,))
