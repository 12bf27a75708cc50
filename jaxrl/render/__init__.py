"""Pictures: record an episode, save it as a GIF or as one self-contained HTML page.

    replay = record(env, act, jax.random.key(0))
    save(replay, "replay.gif")       # or save_gif, with options
    save(replay, "replay.html")      # play, pause, scrub, hover

An environment gets both by writing one method, `draw`; see `jaxrl.render.scene`.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import jax
import numpy as np

from jaxrl.environment import Environment
from jaxrl.render import compose
from jaxrl.render.gif import save_gif
from jaxrl.render.html import save_html, to_html
from jaxrl.render.raster import rasterise
from jaxrl.render.record import Policy, Replay, record

__all__ = ["Policy", "Replay", "picture", "rasterise", "record", "save", "save_gif", "save_html", "to_html"]


def save(replay: Replay, path: str | os.PathLike[str]) -> None:
    """Write an episode in the form that the file's name asks for, `.gif` or `.html`.

    Raises:
        ValueError: If the name ends otherwise.
        ImportError: For a GIF without Pillow.
    """
    writers = {".gif": save_gif, ".html": save_html}
    suffix = Path(path).suffix.lower()
    if suffix not in writers:
        raise ValueError(f"A replay is saved as .gif or .html; name the file so, instead of {os.fspath(path)!r}.")
    writers[suffix](replay, path)


def picture(env: Environment, state: Any, params: Any = None, width: int = 480) -> np.ndarray:
    """A picture of one state, uint8 `[H, W, 3]`."""
    states = jax.tree.map(lambda leaf: np.asarray(leaf)[None], state)
    return rasterise(compose.with_captions(env.draw(states, params)), width)[0]
