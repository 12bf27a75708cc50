"""Hide-and-seek in two dimensions: `jaxrl.make("hide_and_seek/quadrant")`."""

from jaxrl.envs.hide_and_seek.env import HideAndSeek
from jaxrl.envs.hide_and_seek.layouts import LAYOUTS
from jaxrl.envs.hide_and_seek.world import Params, State
from jaxrl.registry import register

__all__ = ["LAYOUTS", "HideAndSeek", "Params", "State"]

for _name in LAYOUTS:
    register(f"hide_and_seek/{_name}", HideAndSeek, options={"scenario": _name})
