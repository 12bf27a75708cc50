"""A person plays, with trained partners: `jaxrl play`, in worlds of their own: `jaxrl edit`.

`Session` is the game and `Editor` the map without a terminal, `Words` what can be typed, `Screen` what is shown.
"""

from jaxrl.play.editor import Editor
from jaxrl.play.input import Words
from jaxrl.play.screen import Screen
from jaxrl.play.session import Session, Turn

__all__ = ["Editor", "Screen", "Session", "Turn", "Words"]
