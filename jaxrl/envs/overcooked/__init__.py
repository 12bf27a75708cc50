"""Overcooked: `jaxrl.make("overcooked/cramped_room")`, or your own kitchen, `jaxrl.make("overcooked", layout=…)`."""

from jaxrl.envs.overcooked.env import Overcooked
from jaxrl.envs.overcooked.layout import LAYOUTS, Layout, parse_layout
from jaxrl.envs.overcooked.rules import Params, State
from jaxrl.registry import register

__all__ = ["LAYOUTS", "Layout", "Overcooked", "Params", "State", "parse_layout"]

register("overcooked", Overcooked)
for _name in LAYOUTS:
    register(f"overcooked/{_name}", Overcooked, options={"layout": _name})
