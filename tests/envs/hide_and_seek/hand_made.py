"""Small worlds of hide-and-seek in which everything is where a test puts it, and orders in words."""

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import jaxrl
from jaxrl.envs.hide_and_seek.world import State, Tally

# Two hiders (0 and 1), a seeker (2), a box (0) and a ramp (1), on a floor without walls.
NAME = "hide_and_seek/chase?num_hiders=2&num_boxes=1&num_ramps=1&num_rays=0&preparation=8"
HUNT = 8


@functools.cache
def stepped():
    env = jaxrl.make(NAME)
    return env, jax.jit(lambda state, action: env.step_env(jax.random.key(0), state, action, env.default_params))


def world(
    hiders: Any = ((1, 1), (1, 5)),
    seeker: Any = (5, 5),
    box: Any = (3, 1),
    ramp: Any = (3, 5),
    step: int = HUNT,
    **fields: Any,
) -> Any:
    """Everybody looks to the right, and so does the ramp; nobody has moved or holds anything yet."""
    at_rest: dict[str, Any] = {
        "position": np.array([*hiders, seeker], float),
        "velocity": np.zeros((3, 2)),
        "heading": np.tile([1.0, 0.0], (3, 1)),
        "spin": np.zeros(3),
        "height": np.zeros(3),
        "held": np.full(3, -1),
        "grip": np.zeros((3, 4)),
        "object_position": np.array([box, ramp], float),
        "object_heading": np.tile([1.0, 0.0], (2, 1)),
        "object_velocity": np.zeros((2, 2)),
        "locked_by": np.full(2, -1),
        "walls": np.tile([1e6, 1e6, 0.0, 0.0], (12, 1)),
        "doors": np.zeros((0, 3)),
        "sight": np.zeros((3, 5), bool),
        "tally": Tally(*map(jnp.zeros, ((), (2, 2), (2, 2), 2))),
        "step": np.array(step - 1),
    }
    at_rest |= {name: np.asarray(value, at_rest[name].dtype) for name, value in fields.items()}
    dtypes = {"f": np.float32, "i": np.int32, "b": bool}
    state = jax.tree.map(lambda leaf: jnp.asarray(leaf, dtypes[leaf.dtype.kind]), State(**at_rest))
    return after(state)  # a step in which nobody does anything shows them what there is


def after(state: Any, steps: int = 1, **orders: str) -> Any:
    """The state some steps later. Orders such as `hider_0="x grab"` last; who has none stands still."""
    return outcome(state, steps, **orders)[0]


def outcome(state: Any, steps: int = 1, **orders: str) -> Any:
    """The state some steps later, with the last step's reward and info."""
    env, step = stepped()
    words = {"x": (0, 10), "-x": (0, 0), "y": (1, 10), "-y": (1, 0), "turn": (2, 10), "grab": (3, 1), "lock": (4, 1)}
    action = np.tile([5, 5, 5, 0, 0], (3, 1))
    for agent, order in orders.items():
        for word in order.split():
            place, number = words[word]
            action[env.agents.index(agent), place] = number
    reward = info = None
    for _ in range(steps):
        _, state, reward, _, _, info = step(state, jnp.int32(action))
    return state, reward, info
