"""Overcooked's second version: `jaxrl.make("overcooked_v2/two_rooms")`, or JaxMARL's id `"overcooked_v2"`."""

from jaxrl.envs.overcooked_v2.env import OvercookedV2
from jaxrl.envs.overcooked_v2.layout import KITCHENS, Kitchen, parse_kitchen
from jaxrl.envs.overcooked_v2.rules import Params, State
from jaxrl.registry import register

__all__ = ["KITCHENS", "Kitchen", "OvercookedV2", "Params", "State", "parse_kitchen"]

register("overcooked_v2", OvercookedV2)
for _name in KITCHENS:
    register(f"overcooked_v2/{_name}", OvercookedV2, options={"layout": _name})
