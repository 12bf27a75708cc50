"""Classic control with half of the state hidden: who has no memory does not know how fast anything moves."""

from __future__ import annotations

import dataclasses
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np

from jaxrl.environment import Step, as_arrays
from jaxrl.envs.classic import cartpole, pendulum
from jaxrl.envs.options import one_of, whole
from jaxrl.spaces import Box

__all__ = ["CartPoleParams", "PartialCartPole", "PartialPendulum", "PendulumParams"]

_WORST = -16.2736044  # the least that a step of Pendulum can earn


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class CartPoleParams(cartpole.Params):
    """Physics in SI units."""

    noise: Any = 0.0
    """Standard deviation of the noise in each number of the observation."""


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class PendulumParams(pendulum.Params):
    """Physics in SI units."""

    noise: Any = 0.0
    """Standard deviation of the noise in each number of the observation."""


class PartialCartPole(cartpole.CartPole):
    """CartPole that shows where things are and not how fast they move, or the other way round.

    Equal to POPGym's PositionOnlyCartPole, NoisyPositionOnlyCartPole and VelocityOnlyCartPole, but that the last shows
    positions at the start of an episode there.

    Observation `[2]`: position (m) and angle (rad), or their velocities (m/s, rad/s); with noise, clipped to what the
    space allows.
    Action Discrete(2): 0 pushes left, 1 right.
    Reward: 1 / T per step, with T = `max_steps`. Terminated beyond 2.4 m or 12 degrees.

    Args:
        max_steps: Steps after which an episode is truncated.
        observe: `"position"` or `"velocity"`.
        noise: Standard deviation of the noise in each number of the observation.

    Raises:
        ValueError: An option is out of its range.
    """

    def __init__(
        self, *, max_steps: int = 200, observe: Literal["position", "velocity"] = "position", noise: float = 0.0
    ) -> None:
        self._first = ("position", "velocity").index(one_of("observe", observe, ("position", "velocity")))
        steps = whole("max_steps", max_steps)
        self._default_params = as_arrays(CartPoleParams(max_steps=steps, noise=_deviation(noise)))

    def observation_space(self, params: Any = None) -> Box:
        full = super().observation_space()
        return Box(full.low[self._first :: 2], full.high[self._first :: 2], (2,))

    def reset_env(self, key: jax.Array, params: Any) -> tuple[jax.Array, cartpole.State]:
        key_start, key_noise = jax.random.split(key)
        obs, state = super().reset_env(key_start, params)
        return self._seen(key_noise, obs, params), state

    def step_env(self, key: jax.Array, state: cartpole.State, action: jax.Array, params: Any) -> Step:
        obs, after, reward, *rest = super().step_env(key, state, action, params)
        return self._seen(key, obs, params), after, reward / params.max_steps, *rest  # pyright: ignore[reportReturnType]

    def _seen(self, key: jax.Array, obs: jax.Array, params: Any) -> jax.Array:
        return _noisy(key, obs[self._first :: 2], params.noise, self.observation_space())


class PartialPendulum(pendulum.Pendulum):
    """Pendulum that shows where it is and not how fast it turns.

    Equal to POPGym's PositionOnlyPendulum and NoisyPositionOnlyPendulum.

    Observation `[2]`: cosine and sine of the angle (0 is upright); with noise, clipped to ±1.
    Action Box(-2, 2, [1]): torque (N m).
    Reward: that of Pendulum, which is -16.27 to 0, moved and scaled to -1 / T … 1 / T, with T = `max_steps`. Never
    terminated.

    Args:
        max_steps: Steps after which an episode is truncated.
        noise: Standard deviation of the noise in each number of the observation.

    Raises:
        ValueError: An option is out of its range.
    """

    def __init__(self, *, max_steps: int = 200, noise: float = 0.0) -> None:
        steps = whole("max_steps", max_steps)
        self._default_params = as_arrays(PendulumParams(max_steps=steps, noise=_deviation(noise)))

    def observation_space(self, params: Any = None) -> Box:
        return Box(-1.0, 1.0, (2,))

    def reset_env(self, key: jax.Array, params: Any) -> tuple[jax.Array, pendulum.State]:
        key_start, key_noise = jax.random.split(key)
        obs, state = super().reset_env(key_start, params)
        return _noisy(key_noise, obs[:2], params.noise, self.observation_space()), state

    def step_env(self, key: jax.Array, state: pendulum.State, action: jax.Array, params: Any) -> Step:
        obs, after, reward, *rest = super().step_env(key, state, action, params)
        seen = _noisy(key, obs[:2], params.noise, self.observation_space())
        scaled = (1.0 - 2.0 * reward / _WORST) / params.max_steps
        return seen, after, scaled, *rest  # pyright: ignore[reportReturnType]


def _deviation(noise: Any) -> float:
    """Check that `noise` is a number of at least 0, and return it; raises ValueError otherwise."""
    if isinstance(noise, bool) or not isinstance(noise, int | float | np.floating) or not 0 <= noise < np.inf:
        raise ValueError(f"noise must be a number of at least 0, got {noise!r}.")
    return float(noise)


def _noisy(key: jax.Array, obs: jax.Array, deviation: jax.Array, space: Box) -> jax.Array:
    """`obs` with noise, within the space. Consumes `key`."""
    noisy = obs + deviation * jax.random.normal(key, obs.shape, jnp.float32)
    return jnp.where(deviation > 0, space.clip(noisy), obs)
