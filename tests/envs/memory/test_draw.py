"""Pictures of the memory tasks."""

import jax
import numpy as np
import pytest

import jaxrl
from jaxrl.render.scene import Text

TASKS = ("count_recall_hard", "concentration_hard", "higher_lower", "repeat_previous", "minesweeper_hard")


@pytest.mark.parametrize("task", TASKS)
def test_every_text_is_legible_at_480_pixels(task):
    env = jaxrl.make(f"memory/{task}")
    states = jax.tree.map(lambda leaf: np.asarray(leaf)[None], env.reset(jax.random.key(0))[1])
    scene = env.draw(states)
    sizes = [shape.size * 480 / scene.width for shape in scene.shapes if isinstance(shape, Text)]
    assert sizes
    assert min(sizes) > 11
