"""Pictures of scenes: a GIF, an mp4, or one self-contained HTML page. Nothing here depends on an environment.

    replay = jaxrl.replay.record(env, act, jax.random.key(0))
    save(replay, "replay.gif")       # or save_gif, with options
    save(replay, "replay.html")      # play, pause, scrub, hover
    save(replay, "replay.mp4")       # where ffmpeg is found
    save([replay, another], "grid.gif")

An environment gets them all by writing one method, `draw`; see `jaxrl.render.scene`.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from jaxrl.render.html import save_html, to_html
from jaxrl.render.raster import rasterise
from jaxrl.render.scene import Film
from jaxrl.render.video import save_gif, save_mp4

__all__ = ["SUFFIXES", "Film", "rasterise", "save", "save_gif", "save_html", "save_mp4", "to_html"]

SUFFIXES = (".gif", ".html", ".mp4")
"""The formats of `save`."""


def save(film: Film | Sequence[Film], path: str | os.PathLike[str]) -> None:
    """Write an episode, or several in a grid, in the format given by the file's suffix: `.gif`, `.html` or `.mp4`.

    Raises:
        ValueError: The suffix is another one, or several episodes are to be one HTML page.
        ImportError: The format is GIF or mp4 and Pillow is not installed, or it is mp4 and ffmpeg is not found.
    """
    suffix = Path(path).suffix.lower()
    if suffix not in SUFFIXES:
        raise ValueError(f"A replay is saved as .gif, .html or .mp4; name the file so, instead of {os.fspath(path)!r}.")
    if suffix == ".gif":
        save_gif(film, path)
    elif suffix == ".mp4":
        save_mp4(film, path)
    elif isinstance(film, Sequence):
        raise ValueError("An HTML page plays one episode; save several as .gif or .mp4.")
    else:
        save_html(film, path)
