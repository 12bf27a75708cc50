"""Matrix games: two players choose once at the same time. `jaxrl.make("matrix/rock_paper_scissors")`."""

from jaxrl.envs.matrix.game import GAMES, MatrixGame
from jaxrl.registry import register

__all__ = ["GAMES", "MatrixGame"]

register("matrix", MatrixGame)
for _name in GAMES:
    register(f"matrix/{_name}", MatrixGame, options={"game": _name})
