"""MinAtar, equal to the `minatar` package: `jaxrl.make("minatar/breakout")`, or `"Breakout-MinAtar"` as in gymnax."""

from jaxrl.envs.minatar.asterix import Asterix
from jaxrl.envs.minatar.breakout import Breakout
from jaxrl.envs.minatar.freeway import Freeway
from jaxrl.envs.minatar.seaquest import Seaquest
from jaxrl.envs.minatar.space_invaders import SpaceInvaders
from jaxrl.registry import register

__all__ = ["Asterix", "Breakout", "Freeway", "Seaquest", "SpaceInvaders"]

for _name, _game in (
    ("asterix", Asterix),
    ("breakout", Breakout),
    ("freeway", Freeway),
    ("seaquest", Seaquest),
    ("space_invaders", SpaceInvaders),
):
    _title = _game.__name__
    register(f"minatar/{_name}", _game, aliases=(f"{_title}-MinAtar", f"MinAtar/{_title}-v1"))
