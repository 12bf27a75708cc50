"""SMAX, simplified multi-agent combat: `jaxrl.make("smax/3m")`, or your own battle with `jaxrl.make("smax", …)`."""

from jaxrl.envs.smax.env import SMAX, EnemyPolicy, Params, State
from jaxrl.envs.smax.many import mix, random_battles
from jaxrl.envs.smax.orders import MIXTURES, SCRIPTS, Script
from jaxrl.envs.smax.scenario import NAMED, parse_scenario, scenario_text
from jaxrl.envs.smax.terrain import Zone
from jaxrl.envs.smax.units import (
    SCENARIOS,
    UNIT_NAMES,
    UNIT_TABLES,
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
    "UNIT_TABLES",
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
    "parse_scenario",
    "random_battles",
    "scenario_text",
]

register("smax", SMAX, aliases=("HeuristicEnemySMAX",), text_option="scenario")
register("smax/selfplay", SMAX, options={"mode": "selfplay"}, aliases=("SMAX",))
register("smax/random", random_battles)
register("smax/mix", mix)
_SMACLITE = {"mmm": "MMM", "mmm2": "MMM2"}  # its names, where they differ
for _name in (*SCENARIOS, *NAMED):
    register(f"smax/{_name}", SMAX, options={"scenario": _name}, aliases=(_SMACLITE.get(_name, _name),))
