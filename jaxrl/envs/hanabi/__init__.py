"""Hanabi, equal to the Hanabi learning environment: `jaxrl.make("hanabi/2p")` to `"hanabi/5p"`."""

from jaxrl.envs.hanabi.env import Hanabi, Params
from jaxrl.envs.hanabi.observe import parts
from jaxrl.envs.hanabi.partner import iggi
from jaxrl.envs.hanabi.rules import Game, Move, State
from jaxrl.registry import register

__all__ = ["Game", "Hanabi", "Move", "Params", "State", "iggi", "parts"]

for _players in range(2, 6):
    _alias = ("hanabi",) if _players == 2 else ()  # JaxMARL's
    register(f"hanabi/{_players}p", Hanabi, aliases=_alias, options={"players": _players})
