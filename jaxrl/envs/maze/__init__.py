"""Mazes of which an agent sees only a part: `jaxrl.make("maze/13")` and `jaxrl.make("maze/labyrinth")`."""

from jaxrl.envs.maze.env import UNREACHABLE, Maze, Params, State, fewest_steps
from jaxrl.envs.maze.named import MAZES, NamedMaze
from jaxrl.registry import register

__all__ = ["MAZES", "UNREACHABLE", "Maze", "NamedMaze", "Params", "State", "fewest_steps"]

register("maze/9", Maze, options={"size": 9})
register("maze/13", Maze, aliases=("maze",), options={"size": 13})
register("maze/held_out", NamedMaze)
for _name, (_origin, _) in MAZES.items():
    register(f"maze/{_name}", NamedMaze, aliases=(_origin,), options={"maze": _name})
