"""The mazes on which the literature tests what was learned on random ones.

The layouts are those of Dennis et al. 2020 (https://arxiv.org/abs/2012.02096) and Jiang et al. 2021
(https://arxiv.org/abs/2110.02439), as jaxued has them (https://github.com/DramaCow/jaxued, commit 0f8f128, its file
`src/jaxued/environments/maze/level.py`).
"""

from __future__ import annotations

import re
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxrl.envs.batching import uniform_rows
from jaxrl.envs.maze.env import Maze, State
from jaxrl.envs.options import as_rows
from jaxrl.errors import UnknownNameError, nearest

__all__ = ["MAZES", "NamedMaze", "parse"]

_DRAWN = """
SixteenRooms  SixteenRooms2 Labyrinth     LabyrinthFlipped Labyrinth2 StandardMaze  StandardMaze2 StandardMaze3
...#..#..#... ...#.....#... ............. ............. >#........... .....#>...#.. ...#.#....#.. ...>#.#......
.>.......#... .>....#..#... .###########. .###########. .#.#########. .###.####.##. .#.#.####...# .####.#.####.
...#..#...... ...#..#..#... .#.........#. .#.........#. .#.#.......#. .#........... .#........#.. .#....#.#....
#.###.##.###. ####.##.###.# .#.#######.#. .#.#######.#. .#.#.#####.#. .########.### .########.### ...####.#.#.#
...#......... ...#..#...... .#.#.....#.#. .#.#.....#.#. .#.#.#...#.#. ........#.... ...#..#.#.#.G ##.#....#.#..
......#..#... ......#..#... .#.#.###.#.#. .#.#.###.#.#. ...#.#.#.#.#. ######.#####. ##.#.##.#.#.. ...#.##.#.##.
##.#.##.###.# #.#####.##### .#.#.#G#.#.#. .#.#.#G#.#.#. ####.#G#.#.#. ....#..#..... >#.#....#.##. .#.#.#..#..#G
...#.....#... ...#..#..#... .#.#.#.#.#.#. .#.#.#.#.#.#. ...#.###.#.#. .##...##.#### .#.##.###..#. .#.#.#.###.##
...#..#...... ...#......... .#...#...#.#. .#.#...#...#. .#.#.....#.#. ..#.#..#...#. .#..#..###.#. .#...#.#.#...
.####.##.#.## ##.##.##.#### .#########.#. .#.#########. .#.#######.#. #.#.##.###.#. .##.##.#.#.#. .###.#.#.###.
...#..#..#... ...#..#..#... .....#.....#. .#.....#..... .#.........#. #.#..#...#... .#...#.#.#.#. .#...#.#...#.
......#....G. ......#....G. ####.#.#####. .#####.#.#### .###########. #.##.###.###. .#.#.#.#.#.#. .#.###.#.#.#.
...#.....#... ...#..#..#... >....#....... .......#....< ............. ...#..G#.#... ...#...#..... .#...#...#...
"""

MAZES: dict[str, tuple[str, str]] = {
    re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower(): (name, "|".join(rows))
    for name, *rows in zip(*map(str.split, _DRAWN.strip().splitlines()), strict=True)
}
"""By their names here, their names in the literature and their texts, see `parse`."""


def parse(text: str) -> State:
    """The start that a text draws, from the top: a line per row, or rows separated by `|`.

    Args:
        text: # wall, . free, G the goal, and the agent, which looks up ^, right >, down v or left <.

    Raises:
        ValueError: It is no square, or does not have one agent and one goal.
    """
    rows = as_rows(text)
    tiles = "".join(rows)
    if {len(row) for row in rows} != {len(rows)}:
        raise ValueError(f"A maze has as many rows as columns, not {len(rows)} rows of {sorted(set(map(len, rows)))}.")
    if set(tiles) - set("#.G^>v<"):
        raise ValueError(f"A maze consists of # . G and one of ^ > v <, not of {''.join(sorted(set(tiles)))!r}.")
    agents = [(i, "^>v<".index(tile)) for i, tile in enumerate(tiles) if tile in "^>v<"]
    if len(agents) != 1 or tiles.count("G") != 1:
        raise ValueError(f"A maze has one agent and one G, not {len(agents)} and {tiles.count('G')}.")
    ((cell, direction),) = agents
    position, goal = (np.array(divmod(i, len(rows)), np.int32) for i in (cell, tiles.index("G")))
    walls = np.array([[tile == "#" for tile in row] for row in rows])
    fields: dict[str, Any] = {"walls": walls, "position": position, "direction": np.int32(direction), "goal": goal}
    return State(**fields, step=fields["direction"] * 0)


class NamedMaze(Maze):
    """One of the mazes of the literature, or in each episode any of them, all as likely.

    Args:
        maze: One of `MAZES`, by its name, a text (see `parse`), or `"held_out"` for any of `MAZES`.
        observe: See `Maze`.
        max_steps: Steps after which an episode is truncated.

    Raises:
        ValueError: An option is out of its range, there is no such maze, or the text draws none.
    """

    intended = ("same_start",)

    def __init__(self, maze: str = "held_out", *, observe: str = "view", max_steps: int = 250) -> None:
        if maze == "held_out":
            texts = [text for _, text in MAZES.values()]
        elif "|" in maze or "\n" in maze:
            texts = [maze]
        elif maze in MAZES:
            texts = [MAZES[maze][1]]
        else:
            raise UnknownNameError(f"There is no maze {maze!r}. {nearest(maze, [*MAZES, 'held_out'])} Or draw one.")
        starts = [parse(text) for text in texts]
        self._starts = jax.tree.map(lambda *leaves: np.stack(leaves), *starts)  # leaves [K, …]
        super().__init__(size=len(starts[0].walls), walls=0, observe=observe, max_steps=max_steps)

    def start(self, key: jax.Array) -> State:
        count = len(self._starts.step)
        chosen = (uniform_rows(key, 1)[0] * count).astype(jnp.int32)
        return jax.tree.map(lambda leaf: jnp.asarray(leaf)[chosen], self._starts)
