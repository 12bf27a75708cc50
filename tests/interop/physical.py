"""What the tests of brax and of MuJoCo Playground share: both step alike through us."""

from typing import Any

import jax
import numpy as np


def steps_alike(ours: Any, steps: int) -> list[bool]:
    """Step an environment of ours and the library's own side by side; returns which steps ended the episode."""
    step, their_step = jax.jit(ours.step_env), jax.jit(ours.env.step)
    obs, state = jax.jit(ours.reset)(jax.random.key(3))
    their_state = jax.jit(ours.env.reset)(jax.random.PRNGKey(3))
    np.testing.assert_allclose(obs, their_state.obs, atol=1e-5)
    ends = []
    for t in range(steps):
        action = ours.action_space().sample(jax.random.key(t))
        obs, state, reward, terminated, truncated, info = step(jax.random.key(t), state, action, None)
        their_state = their_step(their_state, action)
        np.testing.assert_allclose(obs, their_state.obs, rtol=1e-3, atol=1e-3)
        np.testing.assert_allclose(reward, their_state.reward, rtol=1e-3, atol=1e-3)
        assert bool(terminated) == bool(their_state.done)
        assert not truncated
        assert set(info) == set(their_state.metrics)
        ends.append(bool(terminated))
    return ends
