"""Pictures of jumanji's environments by its own animations, which open no window."""

from __future__ import annotations

import warnings
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxrl.interop.pictures import closing, pixels, scene_of, unstacked
from jaxrl.render.scene import Scene

__all__ = ["draw"]

_STEP_SECONDS = 0.2  # of an environment step on screen


def draw(env: Any, states: Any, name: str) -> Scene:
    """Successive states of a jumanji environment (NumPy leaves `[F, …]`) as a scene named `name`.

    Raises:
        NotImplementedError: jumanji cannot draw it.
        ImportError: Pillow is not installed.
    """
    if not hasattr(env, "animate"):
        raise NotImplementedError(f"{name} has no picture: jumanji has no renderer for it.")
    each = unstacked(jax.tree.map(jnp.asarray, states))
    frames = _animated(env, [each[0], *each])  # some animations leave out the first state
    if len(frames) not in (len(each), len(each) + 1):
        raise NotImplementedError(f"{name} has no picture: jumanji shows how pieces fall, and not a frame a state.")
    return scene_of(frames[-len(each) :], name, _STEP_SECONDS)


def _animated(env: Any, states: list[Any]) -> list[np.ndarray]:
    """The frames of jumanji's animation, uint8 `[H, W, 3]` each."""
    from matplotlib.animation import AbstractMovieWriter

    class Frames(AbstractMovieWriter):
        """Keeps the pixels of each frame, where other writers make a file."""

        def setup(self, fig: Any, outfile: Any, dpi: Any = None) -> None:
            self.fig, self.kept = fig, []

        def grab_frame(self, **savefig_kwargs: Any) -> None:
            self.kept.append(pixels(self.fig))

        def finish(self) -> None:
            pass

    frames: Any = Frames()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of matplotlib, about options that jumanji gives it
        env.animate(states).save("", writer=frames)
    with closing(frames.fig):
        return frames.kept
