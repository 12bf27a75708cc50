"""Robots that find their way by lidar: `jaxrl.make("jaxnav/random")` and `jaxrl.make("jaxnav/corner2")`."""

from jaxrl.envs.jaxnav.env import JaxNav
from jaxrl.envs.jaxnav.maps import MAPS, Map, NamedMap, RandomMap, parse_map
from jaxrl.envs.jaxnav.rules import Params, State
from jaxrl.registry import register

__all__ = ["MAPS", "JaxNav", "Map", "NamedMap", "Params", "RandomMap", "State", "parse_map"]

register("jaxnav/random", RandomMap, aliases=("jaxnav",))
register("jaxnav/own", NamedMap, text_option="map")
for _name, _map in MAPS.items():
    register(f"jaxnav/{_name}", NamedMap, aliases=(_map.origin,), options={"map": _name})
