"""Evaluation: E episodes in parallel, each counted exactly once, as one compiled function."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxrl.algorithm import Algorithm, check_algorithm
from jaxrl.check.quick import check_log_info
from jaxrl.environment import Environment, MultiAgentEnvironment, check_environment
from jaxrl.keys import abstract_key, check_key
from jaxrl.registry import shared
from jaxrl.rl.episodes import info_means, kind_means, new_running
from jaxrl.spaces import Discrete

__all__ = ["Evaluation", "evaluate"]


class Evaluation(NamedTuple):
    """The results of E episodes. With a leading members axis M, every field is `[M, E]`."""

    returns: jax.Array
    """float32 `[E]`, sum of rewards; with several agents, the mean over agents."""
    lengths: jax.Array
    """int32 `[E]`, steps per episode."""
    won: jax.Array | None
    """bool `[E]`, or None if the environment's `info` has no `"won"`."""
    finished: jax.Array
    """bool `[E]`, False if an episode was cut at `max_steps`."""
    kind_returns: dict[str, jax.Array]
    """float32 `[E]` for each kind of agent, the mean over its agents; empty if all agents are of one kind."""
    info: dict[str, jax.Array]
    """float32 `[E]`, the numbers of `log_info` at the end of each episode."""

    def warning(self) -> str | None:
        """A sentence about the episodes that were cut; None if all episodes ended."""
        cut = np.asarray(~self.finished)
        if not cut.any():
            return None
        steps = np.asarray(self.lengths).max()
        return f"{cut.sum()} of {cut.size} episodes of the evaluation had no end after {steps:,} steps and were cut."

    def summary(self) -> dict[str, Any]:
        """Plain numbers: episodes, return_mean, return_std, length_mean and, if known, win_rate and returns.

        `returns` has the mean return of each kind of agent, if there are several, and `info/NAME` is the mean of each
        number of `log_info`. With a members axis, all numbers except `episodes` are lists with one number per member.
        """
        returns, lengths = np.asarray(self.returns, np.float64), np.asarray(self.lengths, np.float64)
        summary: dict[str, Any] = {
            "episodes": returns.shape[-1],
            "return_mean": returns.mean(-1).tolist(),
            "return_std": returns.std(-1).tolist(),
            "length_mean": lengths.mean(-1).tolist(),
        }
        if self.won is not None:
            summary["win_rate"] = np.asarray(self.won, np.float64).mean(-1).tolist()
        kinds, own = (
            {name: np.asarray(values, np.float64).mean(-1).tolist() for name, values in named.items()}
            for named in (self.kind_returns, self.info)
        )
        summary |= {"returns": kinds} if kinds else {}
        return summary | {f"info/{name}": value for name, value in own.items()}


def evaluate(
    algo: Algorithm,
    env: Environment,
    state: Any,
    key: jax.Array,
    episodes: int = 512,
    *,
    greedy: bool = True,
    max_steps: int = 20_000,
    params: Any = None,
    log_info: Sequence[str] = (),
    starts: tuple[Any, Any] | None = None,
) -> Evaluation:
    """Play the first episode of each of E environments. Pure: `jit` and `vmap` it over `state` and `key` as you like.

    Args:
        algo: The algorithm that `state` belongs to.
        env: The environment to play in. With discrete actions, its `action_mask` is obeyed.
        state: The train state.
        key: Consumed: for initial states (without `starts`), the environments' randomness and, unless greedy, actions.
        episodes: E, all played at the same time, until the last one has ended by the environment's own rules.
        greedy: Whether to take the most likely action; False samples.
        max_steps: Cuts episodes that the environment never ends; `finished` is False for those.
        params: The environment's parameters; None for its defaults.
        log_info: Names of numbers in the environment's info to report as they are at the end of each episode.
        starts: Where each episode begins, (observation, state) with leaves `[E, …]`, such as those of a
            `jaxrl.levels.level_set.LevelSet`; None for fresh resets.

    Raises:
        TypeError: `algo` is not an algorithm, `env` not an environment or `key` not a typed key.
        ValueError: `episodes` or `max_steps` is below 1, the info has no such number, the state holds several members,
            or `starts` are not E starts of this environment.
    """
    check_algorithm(algo, "evaluate")
    check_environment(env, "evaluate")
    check_key(key, "evaluate")
    for name, value in (("episodes", episodes), ("max_steps", max_steps)):
        if value < 1:
            raise ValueError(f"{name} must be at least 1, got {value}.")
    check_log_info(env, log_info)
    members = jnp.shape(getattr(state, "update", 0))
    if members:
        raise ValueError(
            f"This train state holds {members[0]} members; evaluate them side by side: jax.vmap(lambda s, k: "
            f"jaxrl.evaluate(algo, env, s, k))(state, jax.random.split(key, {members[0]}))."
        )
    env = shared(env)
    if starts is not None:
        like = jax.eval_shape(env.reset, abstract_key())
        shapes = [(episodes, *leaf.shape) for leaf in jax.tree.leaves(like)]
        same = jax.tree.structure(starts) == jax.tree.structure(like)
        if not same or shapes != list(map(jnp.shape, jax.tree.leaves(starts))):
            raise ValueError(f"starts must be (observation, state) of {episodes} starts of {env.name}: batch_reset's.")
    fixed = {"episodes": episodes, "greedy": greedy, "max_steps": max_steps, "log_info": tuple(log_info)}
    return _evaluate(algo, env, state, key, params, starts, **fixed)


class _Loop(NamedTuple):
    key: jax.Array
    obs: Any
    env_state: Any
    carry: Any
    reset: jax.Array  # bool [E], whether an episode begins: the policy's memory is cleared before use
    result: Evaluation


@partial(jax.jit, static_argnames=("algo", "env", "episodes", "greedy", "max_steps", "log_info"))
def _evaluate(
    algo: Algorithm,
    env: Environment,
    state: Any,
    key: jax.Array,
    params: Any,
    starts: tuple[Any, Any] | None,
    *,
    episodes: int,
    greedy: bool,
    max_steps: int,
    log_info: tuple[str, ...],
) -> Evaluation:
    # One step of all E episodes; those that have ended play the same start again, since a new one may be dear, and no
    # longer count.
    masked = isinstance(env.action_space(params), Discrete)
    kinds = env.kinds if isinstance(env, MultiAgentEnvironment) else {}

    def act(loop: _Loop, key_act: jax.Array) -> tuple[Any, Any]:
        mask = jax.vmap(lambda s: env.action_mask(s, params))(loop.env_state) if masked else None
        return algo.act(state, loop.obs, loop.carry, None if greedy else key_act, action_mask=mask, reset=loop.reset)

    def step(loop: _Loop) -> _Loop:
        key_next, key_act, key_step = jax.random.split(loop.key, 3)
        action, carry = act(loop, key_act)
        keys = jax.random.split(key_step, episodes)
        stepped = env.batch_step(keys, loop.env_state, action, params, first)
        obs, env_state, reward, terminated, truncated, info = stepped
        done = terminated | truncated
        result = _count(loop.result, reward, done, info, kinds)
        return _Loop(key_next, obs, env_state, carry, done, result)

    def goes_on(loop: _Loop) -> jax.Array:
        return ~loop.result.finished.all() & (loop.result.lengths.max() < max_steps)

    # From the first observations until all have ended.
    key_reset, key_loop = jax.random.split(key)
    obs, env_state = first = starts or env.batch_reset(jax.random.split(key_reset, episodes), params)
    nothing = _nothing_yet(episodes, kinds, log_info)
    loop = _Loop(key_loop, obs, env_state, None, jnp.ones(episodes, bool), nothing)
    # An abstract step gives the memory's shapes (zeros will do: `reset` is True at first) and whether there is `won`.
    shapes = jax.eval_shape(step, loop)
    carry = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), shapes.carry)
    loop = loop._replace(carry=carry, result=nothing._replace(won=None) if shapes.result.won is None else nothing)
    return jax.lax.while_loop(goes_on, step, loop).result


def _nothing_yet(episodes: int, kinds: dict[str, tuple[int, ...]], log_info: tuple[str, ...]) -> Evaluation:
    no = jnp.zeros(episodes, bool)
    returns, lengths, kind_returns = new_running(episodes, kinds)
    return Evaluation(returns, lengths, no, no, kind_returns, dict.fromkeys(log_info, jnp.zeros_like(returns)))


def _count(
    result: Evaluation, reward: jax.Array, done: jax.Array, info: dict[str, Any], kinds: dict[str, tuple[int, ...]]
) -> Evaluation:
    """Add one step to the episodes that are still running; steps after an episode's end are not counted."""
    running, won = ~result.finished, info.get("won")
    told = info_means(info, tuple(result.info))
    kind_returns = {
        name: result.kind_returns[name] + jnp.where(running, own, 0.0)
        for name, own in kind_means(reward, kinds).items()
    }
    reward = reward.reshape(reward.shape[0], -1).mean(1)  # over agents, if there are any
    wins = None if won is None or result.won is None else result.won | (running & done & won)
    return Evaluation(
        returns=result.returns + jnp.where(running, reward, 0.0),
        lengths=result.lengths + running,
        won=wins,
        finished=result.finished | done,
        kind_returns=kind_returns,
        info={name: jnp.where(running, value, result.info[name]) for name, value in told.items()},
    )
