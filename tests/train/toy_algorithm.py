"""The smallest algorithm and environment that the training loop accepts; they compile in no time."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp

import jaxrl
from jaxrl.algorithm import Algorithm, Learned, PerEnvironment, Replicated
from jaxrl.spaces import Box, Discrete


class Countdown(jaxrl.Environment):
    """Episodes of 1 … 6 steps, the length drawn at reset and observed; action 1 earns 1, action 0 nothing.

    Whoever earned something in the last step has won; the sixth step of a six-step episode truncates.
    """

    name = "toy/countdown"

    def observation_space(self, params: Any = None) -> Box:
        return Box(0.0, 6.0, (1,))

    def action_space(self, params: Any = None) -> Discrete:
        return Discrete(2)

    def reset_env(self, key: jax.Array, params: Any) -> tuple[jax.Array, jax.Array]:
        left = jax.random.randint(key, (), 1, 7)
        return left[None].astype(jnp.float32), jnp.stack([left, left])

    def step_env(self, key: jax.Array, state: jax.Array, action: jax.Array, params: Any) -> Any:
        left, length = state[0] - 1, state[1]
        reward = self.action_space().clip(action).astype(jnp.float32)
        done, long = left == 0, length == 6
        obs = left[None].astype(jnp.float32)
        return obs, jnp.stack([left, length]), reward, done & ~long, done & long, {"won": done & (reward > 0)}


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class State:
    params: Learned[dict[str, jax.Array]]
    env: PerEnvironment[tuple[jax.Array, jax.Array]]
    key: Replicated[jax.Array]
    update: Replicated[jax.Array]


@dataclasses.dataclass(frozen=True)
class Config:
    """Options of the toy."""

    env: str = "toy/countdown"
    """Which environment to train on."""
    seed: int = 0
    """Of all randomness."""
    num_envs: int = 4
    """Environments side by side."""
    num_steps: int = 2
    """Steps of each in one update."""
    total_timesteps: int = 80
    """Steps of all environments together."""
    lr: float = 1.0
    """Added to the only parameter by every update."""
    nan_at: int = -1
    """The update whose loss is NaN; with a negative one there is none."""
    nan_above: float = -1e9
    """Restricts `nan_at` to members whose first random parameter is above this."""
    sizes: tuple[int, ...] = (1, 2)
    """Nothing but a tuple."""
    act_from: float = 5.0
    """The greedy action is 1 once the parameter has reached this."""
    work: int = 0
    """Side of a matrix that is multiplied a hundred times in every update, to make it last."""

    def __post_init__(self) -> None:
        if self.num_envs < 1:
            raise ValueError(f"num_envs must be at least 1, got {self.num_envs}.")

    @property
    def steps_per_update(self) -> int:
        return self.num_envs * self.num_steps

    @property
    def num_updates(self) -> int:
        return self.total_timesteps // self.steps_per_update

    def make_env(self) -> Countdown:
        return Countdown()


def make(config: Config) -> Algorithm:
    env = config.make_env()

    def init(key: jax.Array, hyperparams: Any = None) -> State:
        key, key_env, key_noise = jax.random.split(key, 3)
        params = {"theta": jnp.zeros(()), "noise": jax.random.normal(key_noise, (3,))}
        return State(params, env.batch_reset(jax.random.split(key_env, config.num_envs)), key, jnp.int32(0))

    def update(state: State) -> tuple[State, dict[str, Any]]:
        theta = state.params["theta"] + config.lr
        stats = {name: jnp.float32(0) for name in ("episodes", "return_sum", "length_sum", "won_sum")}
        key, (obs, env_state) = state.key, state.env
        for _ in range(config.num_steps):
            key, key_act, key_step = jax.random.split(key, 3)
            action = jax.random.bernoulli(key_act, 0.5, (config.num_envs,)).astype(jnp.int32)
            length = env_state[:, 1]
            obs, env_state, reward, terminated, truncated, info = env.batch_step(
                jax.random.split(key_step, config.num_envs), env_state, action
            )
            done = terminated | truncated
            stats["episodes"] += done.sum()
            stats["length_sum"] += jnp.where(done, length, 0).sum()
            stats["return_sum"] += jnp.where(done, reward, 0).sum()
            stats["won_sum"] += info["won"].sum()
        params = {"theta": theta, "noise": state.params["noise"] + _busy(config.work, theta)}
        chosen = state.params["noise"][0] > config.nan_above
        loss = jnp.where((state.update + 1 == config.nan_at) & chosen, jnp.nan, 1.0 / theta)
        next_state = State(params, (obs, env_state), key, state.update + 1)
        return next_state, {**stats, "losses": {"policy": loss}}

    def act(
        state: State,
        obs: jax.Array,
        carry: Any = None,
        key: jax.Array | None = None,
        *,
        action_mask: jax.Array | None = None,
        reset: jax.Array | None = None,
    ) -> tuple[jax.Array, jax.Array]:
        """Greedy: 1 once theta is large. The carry counts an episode's steps; it must agree with what is observed."""
        steps = jnp.zeros(obs.shape[0]) if carry is None else carry
        steps = steps if reset is None else jnp.where(reset, 0.0, steps)
        action = jnp.broadcast_to(state.params["theta"] >= config.act_from, obs.shape[:1])
        if key is not None:
            action = jax.random.bernoulli(key, 0.5, obs.shape[:1])
        return action.astype(jnp.int32), steps + 1

    return Algorithm(init, update, act)


def _busy(size: int, x: jax.Array) -> jax.Array:
    if not size:
        return jnp.zeros(())
    matrix = jnp.full((size, size), 1.0 / size)
    matrix = jax.lax.fori_loop(0, 100, lambda _, m: m @ m, matrix + 0 * x)
    return 0.0 * matrix.sum()


PRESETS = {"default": Config(), "long": Config(total_timesteps=160)}
