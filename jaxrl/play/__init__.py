"""A person plays, with trained partners: `jaxrl play`.

`Session` is the game without a terminal, `Words` what can be typed, `Screen` what is shown.
"""

from jaxrl.play.screen import Screen
from jaxrl.play.session import Session, Turn
from jaxrl.play.words import Words

__all__ = ["Screen", "Session", "Turn", "Words"]
