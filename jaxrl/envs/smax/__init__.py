"""SMAX, simplified multi-agent combat: `jaxrl.make("smax/3m")`."""

from jaxrl.envs.smax.env import SMAX, Params, State
from jaxrl.envs.smax.scenarios import SCENARIOS, Scenario, parse_army
from jaxrl.envs.smax.units import UNIT_NAMES, UnitStats, default_unit_stats
from jaxrl.registry import register

__all__ = ["SCENARIOS", "SMAX", "UNIT_NAMES", "Params", "Scenario", "State", "UnitStats", "default_unit_stats", "parse_army"]

for _name in SCENARIOS:
    register(f"smax/{_name}", SMAX, options={"scenario": _name}, aliases=(_name,))
