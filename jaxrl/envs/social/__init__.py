"""Social games: `jaxrl.make("coin_game")`, `"switch_riddle"`, `"storm/stag_hunt"`."""

from jaxrl.envs.social.coin_game import CoinGame
from jaxrl.envs.social.storm import Storm
from jaxrl.envs.social.storm_rules import MATRICES
from jaxrl.envs.social.switch_riddle import SwitchRiddle
from jaxrl.registry import register

__all__ = ["MATRICES", "CoinGame", "Storm", "SwitchRiddle"]

register("coin_game", CoinGame)
register("switch_riddle", SwitchRiddle)
register("storm", Storm)
for _name, _payoff in MATRICES.items():
    register(f"storm/{_name}", Storm, options={"payoff": _payoff})
