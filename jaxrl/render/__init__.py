"""Pictures of scenes: a GIF, or one self-contained HTML page. Nothing here depends on an environment.

    replay = jaxrl.replay.record(env, act, jax.random.key(0))
    save(replay, "replay.gif")       # or save_gif, with options
    save(replay, "replay.html")      # play, pause, scrub, hover

An environment gets both by writing one method, `draw`; see `jaxrl.render.scene`.
"""

from __future__ import annotations

import os
from pathlib import Path

from jaxrl.render.gif import save_gif
from jaxrl.render.html import save_html, to_html
from jaxrl.render.raster import rasterise
from jaxrl.render.scene import Film

__all__ = ["Film", "rasterise", "save", "save_gif", "save_html", "to_html"]


def save(film: Film, path: str | os.PathLike[str]) -> None:
    """Write an episode in the format given by the file's suffix, `.gif` or `.html`.

    Raises:
        ValueError: The suffix is another one.
        ImportError: The format is GIF and Pillow is not installed.
    """
    writers = {".gif": save_gif, ".html": save_html}
    suffix = Path(path).suffix.lower()
    if suffix not in writers:
        raise ValueError(f"A replay is saved as .gif or .html; name the file so, instead of {os.fspath(path)!r}.")
    writers[suffix](film, path)
