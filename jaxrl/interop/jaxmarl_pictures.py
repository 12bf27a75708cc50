"""Pictures of JaxMARL's environments by its own renderers, which differ from environment to environment."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Callable, Iterator
from typing import Any

import jax
import numpy as np

from jaxrl.interop.pictures import DPI, closing, pixels, scene_of, unstacked
from jaxrl.render.scene import Scene

__all__ = ["draw"]

_STEP_SECONDS = 0.2  # of an environment step on screen


def draw(env: Any, states: Any, name: str) -> Scene:
    """Successive states of a JaxMARL environment (NumPy leaves `[F, …]`) as a scene named `name`; MABrax's by us.

    Raises:
        NotImplementedError: JaxMARL cannot draw it.
        ImportError: matplotlib, Pillow or imageio is missing.
    """
    kinds = [kind.__name__ for kind in type(env).__mro__]
    if "MABraxEnv" in kinds:
        return _mabrax(env, states, name)
    for kind, frames in _FRAMES.items():
        if kind in kinds:
            return scene_of(frames(env, states), name, _STEP_SECONDS)
    why = next((why for kind, why in _WHY_NOT.items() if kind in kinds), "JaxMARL has no renderer for it")
    raise NotImplementedError(f"{name} has no picture: {why}.")


def _mabrax(env: Any, states: Any, name: str) -> Scene:
    from jaxrl.interop.mujoco_pictures import Poses, draw

    steps = np.asarray(states.info["steps"]).astype(int) // env.action_repeat
    seconds = float(env.env.dt) * env.action_repeat
    poses = Poses(np.asarray(states.pipeline_state.q))
    return draw(env.sys.mj_model, poses, np.asarray(states.reward), steps, name, seconds)


def _overcooked(env: Any, states: Any) -> Iterator[np.ndarray]:
    from jaxmarl.viz.overcooked_visualizer import TILE_PIXELS, OvercookedVisualizer

    edge = env.agent_view_size - 2  # the part of the map that only pads the agents' views
    for state in unstacked(states):
        grid = np.asarray(state.maze_map[edge:-edge, edge:-edge, :])
        inner = {"agent_dir_idx": state.agent_dir_idx, "agent_inv": state.agent_inv}
        yield OvercookedVisualizer._render_grid(grid, tile_size=TILE_PIXELS, highlight_mask=None, **inner)


def _overcooked_v2(env: Any, states: Any) -> Iterator[np.ndarray]:
    try:
        from jaxmarl.viz.overcooked_v2_visualizer import OvercookedV2Visualizer
    except ImportError as error:
        raise ImportError(f"JaxMARL draws overcooked_v2 with {error.name}: pip install {error.name}") from error
    yield from np.asarray(OvercookedV2Visualizer().render_sequence(jax.tree.map(jax.numpy.asarray, states)))


def _storm(env: Any, states: Any) -> Iterator[np.ndarray]:
    for state in unstacked(states):
        yield np.asarray(env.render(state))


def _mpe(env: Any, states: Any) -> Iterator[np.ndarray]:
    from jaxmarl.environments.mpe import MPEVisualizer

    frames = unstacked(states)
    with contextlib.redirect_stdout(io.StringIO()):  # it prints who can talk
        film = MPEVisualizer(env, frames)
    with closing(film.fig):
        for number in range(len(frames)):
            film.update(number)
            yield pixels(film.fig)


def _jaxnav(env: Any, states: Any) -> Iterator[np.ndarray]:
    from matplotlib.figure import Figure

    figure = Figure((5, 5), dpi=DPI)
    for state in unstacked(states):
        figure.clear()
        env.init_render(figure.add_subplot(), state, lidar=False, ticks_off=True)
        yield pixels(figure)


# By the name of a class or of one of its bases.
_FRAMES: dict[str, Callable[[Any, Any], Iterator[np.ndarray]]] = {
    "Overcooked": _overcooked,
    "OvercookedV2": _overcooked_v2,
    "InTheGrid": _storm,
    "InTheMatrix": _storm,
    "SimpleMPE": _mpe,
    "JaxNav": _jaxnav,
}
_WHY_NOT = {
    "CoinGame": "JaxMARL draws it with a function that matplotlib has no longer since 3.10",
    "InTheGrid_2p": "JaxMARL's renderer does not work with NumPy 2",
    "HanabiEnv": "JaxMARL prints it as text",
    "SwitchRiddle": "JaxMARL prints it as text",
    "SMAX": 'JaxMARL takes a second for each frame; use jaxrl.make("smax/3m"), which has one',
    "EnemySMAX": 'JaxMARL takes a second for each frame; use jaxrl.make("smax/3m"), which has one',
}
