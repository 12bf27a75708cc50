"""VectorEnv: B copies of an environment as one batched pure function."""

from __future__ import annotations

import math
from collections.abc import Callable
from numbers import Integral
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxrl.display import as_html
from jaxrl.entities import Entities
from jaxrl.environment import Environment, MultiAgentEnvironment, Step, check_environment
from jaxrl.keys import check_key
from jaxrl.spaces import Space, check_action

__all__ = ["PoolState", "VectorEnv"]


class PoolState(NamedTuple):
    """State of a `VectorEnv` with `reset="pool"`: the running environments and the states that resets draw from."""

    env: Any  # leaves [B, …]
    pool: tuple[Any, Any]  # (observation, state) of the starts, leaves [P, …]


class VectorEnv:
    """B copies of `env`: every argument and result has a leading batch axis.

    Args:
        env: The environment.
        num_envs: B.
        reset: `"fresh"` makes a new initial state for every ended episode; `"pool"` draws it from `pool_size` starts
            made by `reset`, which avoids the cost of an expensive reset at every step. The starts use the `params`
            given to `reset`, and stay the same until `refresh` makes new ones.
        pool_size: P, the number of starts in the pool (default: B, at least 128).
        params: Parameters for each environment, leaves `[B, …]`. If it is None, all share `params`, which you can give
            to each method. For new parameters in every episode, wrap `env` in `jaxrl.wrappers.RandomParams`.

    Environments with a batched kernel (`batch_step`, such as SMAX) run through it, all others through `vmap`.
    """

    def __init__(
        self,
        env: Environment,
        num_envs: int,
        reset: Literal["fresh", "pool"] = "fresh",
        pool_size: int | None = None,
        params: Any = None,
    ) -> None:
        check_environment(env, "VectorEnv")
        if not isinstance(num_envs, Integral) or num_envs < 1:
            raise ValueError(f"num_envs must be at least 1, and whole, got {num_envs!r}.")
        if reset not in ("fresh", "pool"):
            raise ValueError(f'reset must be "fresh" or "pool", got {reset!r}.')
        self.env = env
        self.num_envs = num_envs
        self.reset_strategy: Literal["fresh", "pool"] = reset
        self.pool_size = max(num_envs, 128) if pool_size is None else pool_size
        if pool_size is not None and reset != "pool":
            raise ValueError('pool_size is for reset="pool" only; leave it out, or give that as well.')
        if not isinstance(self.pool_size, Integral) or self.pool_size < 1:
            raise ValueError(f"pool_size must be at least 1, and whole, got {pool_size!r}.")
        self.params = params
        if params is not None:
            self._check_params()

    def __repr__(self) -> str:
        return f"<VectorEnv: {self.num_envs} copies of {self.env!r}, reset={self.reset_strategy}>"

    def _repr_html_(self) -> str:
        facts = {"copies": self.num_envs, "of": repr(self.env), "reset": self.reset_strategy}
        return as_html("VectorEnv", facts)

    def reset(self, key: Any = None, params: Any = None) -> tuple[Any, Any]:
        """Start B episodes: `(obs[B, …], state)`. Consumes `key`, which may be several keys as in `step`."""
        check_key(key, "VectorEnv.reset")
        if self.reset_strategy == "fresh":
            own = self.params is not None
            return self.env.batch_reset(_split(key, self.num_envs), self._params(params), own_params=own)
        key_env, key_pool = _two(key)
        obs, state = self.env.batch_reset(_split(key_env, self.num_envs), params)
        _part_size(key_pool, self.pool_size)
        pool = self.env.batch_reset(_split(key_pool, self.pool_size), params)
        return obs, PoolState(state, pool)

    def step(self, key: jax.Array, state: Any, action: Any, params: Any = None) -> Step:
        """Step all B environments: `(obs, state, reward, terminated, truncated, info)`, each `[B, …]`. Consumes `key`.

        Ended episodes are reset; `info["final_observation"]` and `info["final_state"]` are from before the reset.

        `key` may also be keys `[S]`, each of which serves B / S environments: stepping some of the environments with
        their keys (and with the whole pool, from which all of them draw) gives the same results as stepping all. With
        B keys, each environment has its own, which saves a call of the random number generator.
        """
        check_key(key, "VectorEnv.step")
        agents = len(getattr(self.env, "agents", ()))
        space = self.env.action_space()
        action = check_action(action, space, "VectorEnv.step", environments=self.num_envs, agents=agents)
        _check_batch(self.env_state(state), self.num_envs)
        return self.advance(key, state, action, params)

    def advance(self, key: jax.Array, state: Any, action: jax.Array, params: Any = None) -> Step:
        """`step` for a program that has checked its inputs once, such as a rollout. Consumes `key`."""
        if self.reset_strategy == "fresh":
            keys, own = _split(key, self.num_envs), self.params is not None
            return self.env.batch_step(keys, state, action, self._params(params), own_params=own)
        key_env, key_pool = _two(key)
        keys = _split(key_env, self.num_envs)
        index = _draw(key_pool, self.num_envs, _pool_size(state))
        reset_to = jax.tree.map(lambda leaf: leaf[index], state.pool)
        obs, next_env, reward, terminated, truncated, info = self.env.batch_step(
            keys, state.env, action, params, reset_to
        )
        return obs, PoolState(next_env, state.pool), reward, terminated, truncated, info

    def refresh(self, key: jax.Array, state: PoolState, share: float = 1.0, params: Any = None) -> PoolState:
        """The state with its oldest starts replaced by new ones; running episodes continue. Consumes `key`.

        Args:
            key: One key, or keys `[S]`, each of which renews its own P / S starts.
            state: Returned by `reset` or `step`.
            share: The share of the pool to renew, 0 to 1, rounded up to whole starts (for each key). Not traced.
            params: The environment's parameters; None for its defaults.

        Raises:
            ValueError: There is no pool, `share` is out of range, or the pool cannot be divided among the keys.
        """
        if self.reset_strategy != "pool":
            raise ValueError('There is no pool to refresh: reset="fresh" makes every start anew; use reset="pool".')
        if not 0 <= share <= 1:
            raise ValueError(f"share must lie between 0 and 1, got {share}.")
        check_key(key, "VectorEnv.refresh")
        size = _part_size(key, _pool_size(state))
        if not share:
            return state
        count = max(1, math.ceil(share * size - 1e-6))  # 0.07 * 100 is a bit more than 7
        fresh = self.env.batch_reset(_split(key, count * key.size), params)

        def renewed(old: jax.Array, new: jax.Array) -> jax.Array:
            kept = old.reshape(key.size, size, *old.shape[1:])[:, count:]
            return jnp.concatenate([kept, new.reshape(key.size, count, *new.shape[1:])], axis=1).reshape(old.shape)

        return state._replace(pool=jax.tree.map(renewed, state.pool, fresh))

    def part(self, count: int) -> VectorEnv:
        """One of `count` devices' equal part of the environments, and of the starts in the pool."""
        if count == 1:
            return self
        pool_size = self.pool_size // count if self.reset_strategy == "pool" else None
        return VectorEnv(self.env, self.num_envs // count, self.reset_strategy, pool_size)

    def env_state(self, state: Any) -> Any:
        """The environments' own states, leaves `[B, …]`, whatever the reset strategy wraps around them."""
        return state.env if self.reset_strategy == "pool" else state

    def observation_space(self, params: Any = None) -> Space:
        """The space of what each agent of one copy observes, see `Environment.observation_space`."""
        return self.env.observation_space(params)

    def action_space(self, params: Any = None) -> Space:
        """The space of the actions of each agent of one copy, see `Environment.action_space`."""
        return self.env.action_space(params)

    @property
    def entities(self) -> Entities | None:
        """What each agent's observation is made of, see `Environment.entities`."""
        return self.env.entities

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
        return self._of_states(self.env.action_mask, state, params)

    def agent_mask(self, state: Any, params: Any = None) -> jax.Array:
        """`agent_mask` of every copy: bool `[B, N]`."""
        return self._of_states(self._multi_agent().agent_mask, state, params)

    def global_state(self, state: Any, params: Any = None) -> jax.Array:
        """`global_state` of every copy: float32 `[B, G]`."""
        return self._of_states(self.env.global_state, state, params)

    def _of_states(self, function: Callable[[Any, Any], jax.Array], state: Any, params: Any) -> jax.Array:
        """`function(state, params)` of every copy."""
        in_axes = (0, None if self.params is None else 0)
        return jax.vmap(function, in_axes=in_axes)(self.env_state(state), self._params(params))

    def _params(self, params: Any) -> Any:
        """The parameters given to a method, or else the environments' own.

        Raises:
            ValueError: There are both.
        """
        if self.params is None:
            return params
        if params is not None:
            raise ValueError("This VectorEnv has its own parameters; leave out params here, or where it was made.")
        return self.params

    def _check_params(self) -> None:
        """Raise unless the environments' own parameters fit them."""
        if self.reset_strategy == "pool":
            raise ValueError(
                'With reset="pool" all environments share the starts, so they cannot have params of their own; use '
                "jaxrl.wrappers.RandomParams, whose starts keep theirs."
            )
        like = self.env.default_params
        if jax.tree.structure(self.params) != jax.tree.structure(like):
            raise TypeError(
                f"params of {self.env.name} must have the structure {jax.tree.structure(like)}, not "
                f"{jax.tree.structure(self.params)}."
            )
        for (path, leaf), default in zip(
            jax.tree_util.tree_flatten_with_path(self.params)[0], jax.tree.leaves(like), strict=True
        ):
            wanted = (self.num_envs, *np.shape(default))
            if np.shape(leaf) != wanted:
                name = f"params{jax.tree_util.keystr(path)}"
                raise ValueError(f"{name} must have the shape {list(wanted)}, got {list(np.shape(leaf))}.")

    def _multi_agent(self) -> MultiAgentEnvironment:
        if not isinstance(self.env, MultiAgentEnvironment):
            raise TypeError(f"{self.env.name} has one agent, so it has no agent mask and no global state.")
        return self.env


def _pool_size(state: PoolState) -> int:
    """P, the number of starts in the state's pool, which may be one device's part."""
    return jax.tree.leaves(state.pool)[0].shape[0]


def _part_size(key: jax.Array, pool_size: int) -> int:
    """P / S, the number of starts that each key makes."""
    parts = key.size
    if pool_size % parts:
        works = -(-pool_size // parts) * parts
        raise ValueError(
            f"{parts} keys cannot make equal parts of a pool of {pool_size} starts; use pool_size={works}."
        )
    return pool_size // parts


def _draw(key: jax.Array, num_envs: int, pool_size: int) -> jax.Array:
    """The index of the start, out of P, to which each of the B environments would be reset: int32 `[B]`."""

    def draw(key: jax.Array, count: int) -> jax.Array:
        return jax.random.randint(key, (count,), 0, pool_size, jnp.int32)

    if key.ndim == 0:
        return draw(key, num_envs)
    return jax.vmap(lambda k: draw(k, num_envs // key.size))(key).reshape(num_envs)


def _check_batch(state: Any, num_envs: int) -> None:
    """Raise ValueError unless this is the state of `num_envs` environments."""
    for leaf in jax.tree.leaves(state)[:1]:
        if jnp.shape(leaf)[:1] != (num_envs,):
            given = f"its leaves are [{num_envs}, …], and one is {list(jnp.shape(leaf))}"
            raise ValueError(f"The state is not that of {num_envs} environments: {given}.")


def _split(key: jax.Array, num: int) -> jax.Array:
    """Split one key into `num` keys, or each of the keys `[S]` into `num / S`."""
    if key.ndim == 0:
        return jax.random.split(key, num)
    if key.size == num:
        return key
    if num % key.size:
        raise ValueError(f"{key.size} keys cannot serve {num} environments alike; use a divisor of {num}.")
    return jax.vmap(lambda k: jax.random.split(k, num // key.size))(key).reshape(num)


def _two(key: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Split one key into two, or keys `[S]` into two arrays `[S]`."""
    if key.ndim == 0:
        first, second = jax.random.split(key)
        return first, second
    return jax.vmap(lambda k: tuple(jax.random.split(k)))(key)
