"""VectorEnv: B copies of an environment as one batched pure function."""

from __future__ import annotations

from numbers import Integral
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp

from jaxrl.environment import Environment, MultiAgentEnvironment, Step

__all__ = ["PoolState", "VectorEnv"]


class PoolState(NamedTuple):
    """State of a `VectorEnv` with `reset="pool"`: the running environments and the states that resets draw from."""

    env: Any  # leaves [B, …]
    pool: tuple[Any, Any]  # (observation, state) of the pool, leaves [P, …]


class VectorEnv:
    """B copies of `env`: every argument and result has a leading batch axis, `params` are shared.

    Args:
        env: The environment.
        num_envs: B.
        reset: `"fresh"` makes a new initial state for every ended episode; `"pool"` draws it from `pool_size` states
            made by `reset`, so that an expensive reset is not paid at every step. They belong to the `params` given
            to `reset`.
        pool_size: P, the number of states in the pool (default: B, at least 128).

    Environments with a batched kernel (`batch_step`, such as SMAX) are used through it, all others through `vmap`.
    """

    def __init__(
        self,
        env: Environment,
        num_envs: int,
        reset: Literal["fresh", "pool"] = "fresh",
        pool_size: int | None = None,
    ) -> None:
        if not isinstance(env, Environment):
            hint = f"jaxrl.make({env!r})" if isinstance(env, str) else "what jaxrl.make returns"
            raise TypeError(f"VectorEnv takes an environment, such as {hint}, not a {type(env).__name__}.")
        if not isinstance(num_envs, Integral) or num_envs < 1:
            raise ValueError(f"num_envs must be at least 1, and whole, got {num_envs!r}.")
        if reset not in ("fresh", "pool"):
            raise ValueError(f'reset must be "fresh" or "pool", got {reset!r}.')
        self.env = env
        self.num_envs = num_envs
        self.reset_strategy = reset
        self.pool_size = max(num_envs, 128) if pool_size is None else pool_size
        if pool_size is not None and reset != "pool":
            raise ValueError('pool_size is for reset="pool" only; leave it out, or give that as well.')
        if not isinstance(self.pool_size, Integral) or self.pool_size < 1:
            raise ValueError(f"pool_size must be at least 1, and whole, got {pool_size!r}.")

    def reset(self, key: jax.Array, params: Any = None) -> tuple[Any, Any]:
        """Start B episodes: `(obs[B, …], state)`. Consumes `key`, one or several as in `step`."""
        if self.reset_strategy == "fresh":
            return self.env.batch_reset(_split(key, self.num_envs), params)
        key_env, key_pool = _two(key)
        obs, state = self.env.batch_reset(_split(key_env, self.num_envs), params)
        pool = self.env.batch_reset(_split(key_pool, self.pool_size), params)
        return obs, PoolState(state, pool)

    def step(self, key: jax.Array, state: Any, action: Any, params: Any = None) -> Step:
        """One step of all B: `(obs, state, reward, terminated, truncated, info)`, each `[B, …]`. Consumes `key`.

        Ended episodes have been reset; `info["final_observation"]` and `info["final_state"]` are from before that.

        `key` may also be keys `[S]`, each of which serves B / S environments (and draws from P / S states of a pool):
        whoever steps a part of the environments with a part of the keys gets the same as who steps them all. Of B keys
        each is its environment's own, and spares a call of the random number generator.
        """
        if self.reset_strategy == "fresh":
            return self.env.batch_step(_split(key, self.num_envs), state, action, params)
        key_env, key_pool = _two(key)
        index = self._draw(key_pool)
        reset_to = jax.tree.map(lambda leaf: leaf[index], state.pool)
        keys = _split(key_env, self.num_envs)
        obs, next_env, reward, terminated, truncated, info = self.env.batch_step(
            keys, state.env, action, params, reset_to
        )
        return obs, PoolState(next_env, state.pool), reward, terminated, truncated, info

    def env_state(self, state: Any) -> Any:
        """The environments' own states, leaves `[B, …]`, whatever the reset strategy wraps around them."""
        return state.env if self.reset_strategy == "pool" else state

    @property
    def teams(self) -> tuple[int, ...]:
        """The team of each agent, see `MultiAgentEnvironment.teams`."""
        return self._multi_agent().teams

    @property
    def kinds(self) -> dict[str, tuple[int, ...]]:
        """The agents of each kind, see `MultiAgentEnvironment.kinds`."""
        return self._multi_agent().kinds

    def action_mask(self, state: Any, params: Any = None) -> jax.Array:
        """`action_mask` of every copy: bool `[B, A]`, or `[B, N, A]` with agents."""
        return jax.vmap(lambda s: self.env.action_mask(s, params))(self.env_state(state))

    def agent_mask(self, state: Any, params: Any = None) -> jax.Array:
        """`agent_mask` of every copy: bool `[B, N]`."""
        env = self._multi_agent()
        return jax.vmap(lambda s: env.agent_mask(s, params))(self.env_state(state))

    def global_state(self, state: Any, params: Any = None) -> jax.Array:
        """`global_state` of every copy: float32 `[B, G]`."""
        env = self._multi_agent()
        return jax.vmap(lambda s: env.global_state(s, params))(self.env_state(state))

    def _draw(self, key: jax.Array) -> jax.Array:
        """Which states of the pool the B environments would be reset to: int32 `[B]`."""
        if key.ndim == 0:
            return jax.random.randint(key, (self.num_envs,), 0, self.pool_size)
        envs, states = self.num_envs // key.size, self.pool_size // key.size
        index = jax.vmap(lambda k: jax.random.randint(k, (envs,), 0, states))(key)
        return (index + states * jnp.arange(key.size)[:, None]).reshape(-1)

    def _multi_agent(self) -> MultiAgentEnvironment:
        if not isinstance(self.env, MultiAgentEnvironment):
            raise TypeError(f"{self.env.name} has one agent, so it has no agent mask and no global state.")
        return self.env


def _split(key: jax.Array, num: int) -> jax.Array:
    """`num` keys from one key, or `num / S` from each of the keys `[S]`."""
    _check_typed(key)
    if key.ndim == 0:
        return jax.random.split(key, num)
    if key.size == num:
        return key
    if num % key.size:
        raise ValueError(f"{key.size} keys cannot serve {num} environments alike; use a divisor of {num}.")
    return jax.vmap(lambda k: jax.random.split(k, num // key.size))(key).reshape(num)


def _two(key: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Two keys from one, or two times `[S]`."""
    _check_typed(key)
    if key.ndim == 0:
        first, second = jax.random.split(key)
        return first, second
    return jax.vmap(lambda k: tuple(jax.random.split(k)))(key)


def _check_typed(key: jax.Array) -> None:
    if not jnp.issubdtype(key.dtype, jax.dtypes.prng_key):
        raise TypeError("VectorEnv takes keys made by jax.random.key(seed), not the old kind of jax.random.PRNGKey.")
