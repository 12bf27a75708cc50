"""A small environment with a picture, to test recording and drawing without any particular family."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from PIL import Image

from jaxrl.environment import Environment, Step
from jaxrl.render.scene import Caption, Circle, Line, Polygon, Rect, Scene, Text, Tip
from jaxrl.replay import Policy, Replay, record
from jaxrl.spaces import Box, Discrete


class Walk(Environment):
    """A walk along a line from about 0 to `goal`, by half steps that are shown as well."""

    name = "walk"
    goal = 4.0

    def reset_env(self, key: jax.Array, params: Any) -> tuple[jax.Array, dict[str, jax.Array]]:
        x = jax.random.uniform(key)
        return x, {"x": x, "way": jnp.zeros(())}

    def step_env(self, key: jax.Array, state: Any, action: Any, params: Any) -> Step:
        x = state["x"] + action * jax.random.uniform(key, minval=0.5, maxval=1.0)
        state = {"x": x, "way": state["way"] + 1}
        return x, state, -jnp.ones(()), x >= self.goal, jnp.zeros((), bool), {"x": x}

    def sub_states(self, key: jax.Array, state: Any, action: Any, params: Any = None) -> Any:
        after = self.step_env(key, state, action, params)[1]
        return jax.tree.map(lambda a, b: jnp.stack([(a + b) / 2, b]), state, after)

    def observation_space(self, params: Any = None) -> Box:
        return Box(0.0, 10.0, ())

    def action_space(self, params: Any = None) -> Discrete:
        return Discrete(2)

    def draw(self, states: Any, params: Any = None) -> Scene:
        x = states["x"]
        tip = Tip("walker </script>", {"x": np.array([f"{v:.2f}" for v in x]), "name": "walker"})
        shapes = (
            Rect(x=0.0, y=0.0, width=6.0, height=3.0, fill="#203040"),
            Line(x=self.goal, y=0.0, dx=0.0, dy=3.0, stroke="#ffffff", stroke_width=0.05),
            Circle(x=x, y=1.0, radius=0.3, fill="#ff8800", tip=tip),
            Polygon(x=x, y=2.0, radius=0.3, sides=3, fill="#0088ff", alpha=1.0 * (x > 1)),
            Text(x=x, y=0.5, text="walker", size=0.3),
        )
        caption = Caption(np.array([f"way {w:g}" for w in states["way"]]))
        return Scene(len(x), (0.0, 0.0, 6.0, 3.0), shapes, (caption,), step_seconds=0.2)


def _forward(obs: Any, carry: Any, key: jax.Array, mask: jax.Array) -> tuple[jax.Array, Any]:
    return jnp.ones((), jnp.int32), carry


@pytest.fixture(scope="session")
def png_of() -> Callable[[tuple[int, int, int]], bytes]:
    """`png_of(color)`: the content of a PNG file of 2 by 2 pixels."""

    def content(color: tuple[int, int, int]) -> bytes:
        file = io.BytesIO()
        Image.new("RGB", (2, 2), color).save(file, format="PNG")
        return file.getvalue()

    return content


@pytest.fixture(scope="session")
def forward() -> Policy:
    """A policy that always walks."""
    return _forward


@pytest.fixture(scope="session")
def walk() -> Environment:
    """An environment whose `goal` is where an episode ends."""
    return Walk()


@pytest.fixture(scope="session")
def replay(walk: Environment) -> Replay:
    """An episode of always walking, with key 0."""
    return record(walk, _forward, jax.random.key(0))
