"""Promises about pictures: `Pictured` keeps them; each class below it breaks one, most of them checked alone."""

import dataclasses
import re
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from walkers import Broken, Walk, found_by, must_be_found

from jaxrl import check_env
from jaxrl.check.pictures import PICTURE_CHECKS
from jaxrl.render.scene import Caption, Circle, Scene, Tip
from jaxrl.wrappers import as_multi_agent

CHECKS = {check.__name__.removeprefix("check_"): check for check in PICTURE_CHECKS}
breaks = Broken()


class Pictured(Walk):
    """A walk with a picture of every step and one halfway."""

    def sub_states(self, key: Any, state: Any, action: Any, params: Any = None) -> Any:
        _, after, *_ = self.step_env(key, state, action, self._params(params))
        halfway = dataclasses.replace(after, position=(state.position + after.position) / 2)
        return jax.tree.map(lambda *leaves: jnp.stack(leaves), halfway, after)

    def draw(self, states: Any, params: Any = None) -> Any:
        return self.scene(states.position, states.step)

    def scene(self, x: Any, steps: Any, color: str = "#ffffff") -> Scene:
        walker = Circle(x=x, y=0.0, radius=0.1, fill=color, tip=Tip("walker", {"x": x}))
        return Scene(len(steps), (-2.0, -1.0, 2.0, 1.0), (walker,), (Caption(steps.astype(str)),))


@pytest.mark.quick
def test_good_pictures_pass():
    check_env(Pictured(), num_steps=16)


def test_no_picture_is_no_mistake():
    """Nor is a wrapper that has `draw` and `sub_states`, but nothing to draw."""
    check_env(as_multi_agent(Walk()), num_steps=16)


# Found among the others.


@breaks("draw", "draw raises ValueError: no brush. Call it on the successive states of an episode")
class RaisingDraw(Pictured):
    def draw(self, states, params=None):
        raise ValueError("no brush")


@breaks("sub_states", "The last of sub_states is not the state that step_env returns: state.position, state.step")
class ZeroSubStates(Pictured):
    def sub_states(self, key, state, action, params=None):
        passed = super().sub_states(key, state, action, params)
        return dataclasses.replace(passed, position=passed.position * 0, step=passed.step * 0)


@breaks("render", r"render returns float64\[4, 4, 3\]. Return a NumPy array uint8")
class FloatPicture(Walk):
    def render(self, state, params=None):
        return np.zeros((4, 4, 3))


@pytest.mark.parametrize(("broken", "check", "message"), list(breaks))
def test_each_broken_promise_is_found_by_its_check(broken, check, message):
    must_be_found(broken(), check, message)


# Found alone.

alone = Broken()


@alone("sub_states", "The last of sub_states .*: state.position differs")
class OtherKey(Pictured):
    def sub_states(self, key, state, action, params=None):
        return super().sub_states(jax.random.split(key)[1], state, action, params)


@alone("sub_states", r"does not return states with one axis more in front. Return .* leaves \[F, …\]")
class OneSubState(Pictured):
    def sub_states(self, key, state, action, params=None):
        return self.step_env(key, state, action, self._params(params))[1]


@alone("sub_states", "does not return states with one axis more")
class NoSubStates(Pictured):
    def sub_states(self, key, state, action, params=None):
        return jax.tree.map(lambda leaf: leaf[:0], super().sub_states(key, state, action, params))


@alone("sub_states", "sub_states raises KeyError: 'wind'. Call it once by hand")
class RaisingSubStates(Pictured):
    def sub_states(self, key, state, action, params=None):
        return {}["wind"]


@alone("draw", "draw returns a dict. Return a jaxrl.render.scene.Scene")
class DrawsNoScene(Pictured):
    def draw(self, states, params=None):
        return {}


@alone("draw", r"draw returns 1 frames of [2-8] states")
class DrawsTheFirst(Pictured):
    def draw(self, states, params=None):
        return super().draw(jax.tree.map(lambda leaf: leaf[:1], states), params)


@alone(
    "draw", "a scene whose Circle.x, Circle.tip.* cannot be shown. Make every field a finite value, or a NumPy array"
)
class DrawsTooFewPlaces(Pictured):
    def draw(self, states, params=None):
        return self.scene(states.position[:1], states.step)


@alone("draw", "a scene whose Circle.x, .* cannot be shown")
class DrawsNan(Pictured):
    def draw(self, states, params=None):
        return self.scene(np.where(states.step > 0, np.nan, states.position), states.step)


@alone("draw", "a scene whose Circle.x, .* cannot be shown")
class DrawsOnTheDevice(Pictured):
    def draw(self, states, params=None):
        return self.scene(jnp.asarray(states.position), states.step)


@alone("draw", 'cannot be painted, which raises ValueError: .*Colours are "#rrggbb"')
class DrawsInNamedColor(Pictured):
    def draw(self, states, params=None):
        return self.scene(states.position, states.step, "white")


@alone("render", "render raises ZeroDivisionError")
class RaisingRender(Walk):
    def render(self, state, params=None):
        return np.zeros(1 // 0)


@pytest.mark.parametrize(("broken", "check", "message"), list(alone))
def test_each_mistake_is_found(broken, check, message):
    (said,) = found_by(CHECKS[check], broken())
    assert re.search(message, said)
