"""Promises about pictures: the states that a step passes through, the scene drawn from them, the pixels."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import jax
import numpy as np

from jaxrl.check.dynamic import Run
from jaxrl.check.static import Failure, at_index, differences, first_line, listed, to_numpy
from jaxrl.environment import Environment
from jaxrl.keys import abstract_key
from jaxrl.render import html, raster
from jaxrl.render.scene import Scene, with_captions

__all__ = ["PICTURE_CHECKS"]

_FRAMES = 8  # the most states that are drawn


def check_sub_states(run: Run) -> Iterator[Failure]:
    """`sub_states` are states, and the last one is the state that `step_env` returns."""
    env, shapes = run.programs.env, run.programs.shapes
    if type(env).sub_states is Environment.sub_states:
        return
    key = abstract_key()
    try:
        passed = jax.eval_shape(env.sub_states, key, shapes.state, shapes.action, shapes.params)
    except Exception as error:  # whatever an author's code raises is a finding
        yield Failure(f"sub_states raises {_told(error)}.", "Call it once by hand to see where.")
        return
    if not _are_states(passed, shapes.state):
        advice = "Return the state's own tree with leaves [F, …], F alike in all, as lax.scan stacks them."
        yield Failure("sub_states does not return states with one axis more in front.", advice)
        return
    for t in run.moments:
        lane = run.lane(t)
        last = jax.tree.map(lambda leaf: leaf[-1], run.programs.passed(*at_index(run.inputs(t), lane)))
        arrived = at_index(at_index(run.recording.info["final_state"], t), lane)
        if differing := differences(to_numpy(last), arrived):
            names = listed([f"state{where}".removesuffix("the value") for where in differing])
            problem = f"The last of sub_states is not the state that step_env returns: {names} differs."
            yield Failure(problem, "Use key, action and parameters as step_env does.")
            return


def check_draw(run: Run) -> Iterator[Failure]:
    """An episode can be drawn: one frame per state, values for each frame, and pixels."""
    env = run.programs.env
    if type(env).draw is Environment.draw:
        return
    states = _episode(run)
    frames = len(jax.tree.leaves(states)[0])
    try:
        scene = env.draw(states, run.programs.params)
    except (NotImplementedError, ImportError):  # a wrapper around an environment without pictures, or a missing extra
        return
    except Exception as error:  # whatever an author's code raises is a finding
        advice = "Call it on the successive states of an episode, NumPy leaves [F, …], to see where."
        yield Failure(f"draw raises {_told(error)}.", advice)
        return
    if not isinstance(scene, Scene):
        yield Failure(f"draw returns a {type(scene).__name__}.", "Return a jaxrl.render.scene.Scene.")
        return
    if scene.num_frames != frames:
        problem = f"draw returns {scene.num_frames} frames of {frames} states."
        yield Failure(problem, "Return one frame a state, num_frames=F.")
        return
    if wrong := [name for name, value in _values(scene) if not _can_be_shown(value, frames)]:
        problem = f"draw returns a scene whose {listed(list(dict.fromkeys(wrong)))} cannot be shown."
        yield Failure(problem, "Make every field a finite value, or a NumPy array [F] of them.")
        return
    try:
        scene = with_captions(scene)
        html.encode(scene, frames_per_step=1)
        raster.rasterise(scene, width=64)
    except ImportError:  # without Pillow
        return
    except Exception as error:  # as above
        problem = f"What draw returns cannot be painted, which raises {_told(error)}."
        yield Failure(problem, 'Colours are "#rrggbb"; jaxrl.render.scene describes the other fields.')


def check_render(run: Run) -> Iterator[Failure]:
    """The environment's own `render` returns a picture, uint8 `[H, W, 3]`."""
    env = run.programs.env
    if type(env).render is Environment.render:
        return
    try:
        picture = env.render(at_index(run.resets[0][1], 0), run.programs.params)
    except (NotImplementedError, ImportError):
        return
    except Exception as error:  # as above
        yield Failure(f"render raises {_told(error)}.", "Call it on the state that reset returns to see where.")
        return
    if not isinstance(picture, np.ndarray) or picture.dtype != np.uint8 or picture.ndim != 3 or picture.shape[2] != 3:
        shape = list(np.shape(picture))
        problem = f"render returns {getattr(picture, 'dtype', type(picture).__name__)}{shape}."
        yield Failure(problem, "Return a NumPy array uint8 [H, W, 3].")


PICTURE_CHECKS = (check_sub_states, check_draw, check_render)


def _told(error: Exception) -> str:
    return f"{type(error).__name__}: {first_line(error)}"


def _are_states(passed: Any, state: Any) -> bool:
    """True if the shapes `passed` are those of `state` with one additional leading axis of a common length."""
    if jax.tree.structure(passed) != jax.tree.structure(state):
        return False
    pairs = list(zip(jax.tree.leaves(passed), jax.tree.leaves(state), strict=True))
    lengths = {many.shape[:1] for many, _ in pairs}
    same = all((many.shape[1:], many.dtype) == (one.shape, one.dtype) for many, one in pairs)
    return same and len(lengths) == 1 and lengths.isdisjoint({(), (0,)})


def _episode(run: Run) -> Any:
    """The last states of one copy's episode: NumPy leaves `[F, …]`, F from 2 to `_FRAMES`."""
    recording = run.recording
    ends = np.argwhere(recording.done)
    end, lane = ends[0] if len(ends) else (len(recording.done) - 1, 0)
    start = max(0, end + 2 - _FRAMES, *(np.flatnonzero(recording.done[:end, lane]) + 1))
    before = to_numpy(jax.tree.map(lambda leaf: leaf[start : end + 1, lane], recording.state))
    last = at_index(at_index(recording.info["final_state"], end), lane)
    return jax.tree.map(lambda many, one: np.concatenate([many, one[None]]), before, last)


def _values(scene: Scene) -> Iterator[tuple[str, Any]]:
    """The name and value of everything in a scene that may change from frame to frame."""
    for shape in scene.shapes:
        kind = type(shape).__name__
        yield from ((f"{kind}.{name}", value) for name, value in vars(shape).items() if name != "tip")
        if shape.tip is not None:
            yield from ((f"{kind}.tip[{label!r}]", value) for label, value in shape.tip.rows.items())
    for caption in scene.captions:
        yield from ((f"Caption.{name}", value) for name, value in vars(caption).items())


def _can_be_shown(value: Any, frames: int) -> bool:
    """True if `value` is a single value or an array with one per frame, without infinite numbers and NaN."""
    if np.ndim(value) and (not isinstance(value, np.ndarray) or value.shape != (frames,)):
        return False
    array = np.asarray(value)
    return not np.issubdtype(array.dtype, np.inexact) or bool(np.isfinite(array).all())
